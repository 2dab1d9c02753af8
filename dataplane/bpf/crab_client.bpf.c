// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The client's host: applications and their kernels know only the VIP (C-70).
 *
 * crab_client_out sees what clients send, crab_client_in what they receive. On
 * the uplink that is tc egress and ingress, so conntrack in between sees client
 * and VIP (C-82); on a pod's veth it is the other way round.
 */
#include "crab_route.h"
#include "crab_flow.h"
#include "crab_connect.h"
#include "crab_fallen.h"
#include "crab_quick.h"
#include "crab_refuse.h"
#include "crab_client_error.h"
#include "crab_own_host.h"
#include "crab_uplink.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* Unanswered SYNs with a placeholder before one goes without (C-105). */
#define CRAB_MARKED_SYNS 2

/*
 * So far beyond the client's last known acknowledgement a RST is still taken for the server's, one in 256 forged ones;
 * and so far from it, on either side, a FIN, one in 32. What goes by recent answers (crab_recent.h) is not looked at,
 * so that a download may have got on by that much.
 */
#define CRAB_RST_NEAR (1 << 24)
#define CRAB_FIN_NEAR (1 << 26)

/* Put an option into a SYN; the verdict says whether it may leave. */
static __always_inline int mark_syn(struct __sk_buff *skb, struct crab_packet *p, __u8 form, crab_addr addr,
                                    int *inserted)
{
    __u8 room[CRAB_ROOM_STORAGE];

    crab_room(room, form, addr);
    *inserted = crab_insert_option(skb, p, room, CRAB_OPTION_ROOM);
    if (*inserted == CRAB_REFUSED) {
        crab_count(CRAB_CLIENT_SYN_REWRITE_FAILED);
        return TC_ACT_SHOT; /* half rewritten; the client sends another */
    }
    return CRAB_NEXT;
}

/*
 * The present as crab_flow.hop_seen has it: half a second has the same number, and another one
 * 69 s later, by when a connection that was idle has forgotten its hop.
 */
static __always_inline __u8 hop_time(struct crab_flow *flow)
{
    return (__u8)(flow->last_ns >> CRAB_HOP_SHIFT) | 1;
}

/*
 * Find the way to the DIP, whose address the packet has already. The kernel sends the
 * packet, and so keeps the neighbour alive; the next ones go the same way without it.
 */
CRAB_PART int find_way(struct __sk_buff *skb, struct crab_packet *p, struct crab_flow *flow)
{
    __u8 mac[ETH_ALEN] = {};
    int verdict = CRAB_NEXT;

    if (crab_route(skb, p, &verdict, mac) != CRAB_ROUTE_REDIRECTED) {
        crab_count(CRAB_CLIENT_NO_ROUTE);
        return TC_ACT_SHOT;
    }
    __builtin_memcpy(flow->hop, mac, ETH_ALEN);
    flow->hop_seen = mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5] ? hop_time(flow) : 0;
    return verdict;
}

static __always_inline int translated(int failed)
{
    if (failed) {
        return crab_write_failed();
    }
    crab_count(CRAB_CLIENT_TO_SERVER);
    return CRAB_NEXT;
}

/* Translate VIP to DIP and, outside of the stack, see to the way there (C-103). */
static __always_inline int to_server(struct __sk_buff *skb, struct crab_packet *p, struct crab_flow *flow, int routed)
{
    if (routed && flow->hop_seen == hop_time(flow)) {
        return translated(crab_set_daddr_and_hop(skb, p, &flow->dip, flow->hop));
    }
    crab_addr dip = flow->dip;
    int verdict = translated(crab_set_addr(skb, p, CRAB_IP_DADDR, p->daddr, dip));

    if (verdict != CRAB_NEXT || !routed) {
        return verdict;
    }
    p->daddr = dip;
    return find_way(skb, p, flow);
}

/* How often this SYN was sent, this time included; a new ISS is a new connection. */
static __always_inline __u16 pending_count(struct crab_tuple *out, __u32 iss, struct crab_pending *next)
{
    struct crab_pending *old = bpf_map_lookup_elem(&crab_pending, out);
    __u64 now = bpf_ktime_get_ns();

    next->first_ns = now;
    next->last_ns = now;
    next->iss = iss;
    next->syns = 1;
    if (old && old->iss == iss) {
        next->first_ns = old->first_ns;
        next->marked = old->marked;
        next->syns = old->syns < 0xffff ? old->syns + 1 : old->syns;
    }
    return next->syns;
}

/*
 * The SYN of a connection whose redirect was accepted already comes again: the
 * client did not see the answer. Ask the same server again, as the balancer would.
 */
static __always_inline int syn_again(struct __sk_buff *skb, struct crab_packet *p, struct crab_flow *flow, int routed)
{
    int inserted, verdict = mark_syn(skb, p, CRAB_FORM_REDIRECT, p->daddr, &inserted);

    if (verdict != CRAB_NEXT) {
        return verdict;
    }
    flow->last_ns = bpf_ktime_get_ns();
    flow->hop_seen = 0;
    return to_server(skb, p, flow, routed);
}

/*
 * A SYN past the VIP, to the server and from the port of a live connection through it: for that server both are
 * one. Its TCP says whether it begins anew; until its SYN-ACK does (plain_synack) the live one is not touched.
 */
CRAB_PART int syn_of_busy_port(struct crab_tuple *out, __u32 iss)
{
    struct crab_pending pending = {.last_ns = bpf_ktime_get_ns(), .iss = iss, .direct = 1};

    pending.first_ns = pending.last_ns;
    crab_keep(&crab_pending, out, &pending, CRAB_CLIENT_PENDING_CREATED);
    crab_count(CRAB_CLIENT_SYN_PORT_IN_USE);
    return CRAB_NEXT;
}

/*
 * A SYN to a VIP that leaves by the device it came in by: its sender is elsewhere, where the answer goes past this
 * host, or it is forged by somebody on the wire. A live connection of its name is not its own (C-92).
 */
CRAB_PART int syn_in_transit(struct crab_tuple *out)
{
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, out);

    if (flow && crab_flow_over(flow)) {
        crab_flow_give_up(out);
    }
    crab_count(CRAB_CLIENT_SYN_IN_TRANSIT);
    return CRAB_NEXT;
}

/* A SYN of a new connection gets the placeholder, unless several that had it were not answered. */
static __always_inline int mark_first(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *out)
{
    struct crab_pending pending = {};
    int inserted, verdict;

    if (pending_count(out, p->seq, &pending) > CRAB_MARKED_SYNS) {
        crab_fell_back(out, CRAB_CLIENT_SYN_UNMARKED_RETRY);
        crab_keep(&crab_pending, out, &pending, CRAB_CLIENT_PENDING_CREATED);
        return CRAB_NEXT;
    }
    verdict = mark_syn(skb, p, CRAB_FORM_PLACEHOLDER, (crab_addr){0}, &inserted);
    if (inserted == CRAB_INSERTED) {
        pending.marked = 1;
        crab_keep(&crab_pending, out, &pending, CRAB_CLIENT_PENDING_CREATED);
        crab_count(CRAB_CLIENT_SYN_MARKED);
    } else if (inserted == CRAB_NO_SPACE) {
        crab_drop(&crab_pending, out, CRAB_CLIENT_PENDING_REMOVED);
        crab_fell_back(out, CRAB_CLIENT_SYN_NO_SPACE);
    }
    return verdict;
}

static __always_inline int client_syn(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *out, int routed)
{
    struct crab_options o;
    struct crab_flow *flow;
    int live = crab_flow_lives(out);

    struct crab_vip *vip = crab_vip_of(p->daddr, p->dport);
    if (!vip || !(vip->flags & CRAB_VIP_CLIENT)) {
        crab_flow_give_up(out); /* of what was dialled while it was a VIP */
        return live ? syn_of_busy_port(out, p->seq) : CRAB_NEXT;
    }
    if (routed && skb->ingress_ifindex == skb->ifindex) {
        return syn_in_transit(out);
    }
    if (crab_read_options(skb, p, &o)) {
        return CRAB_NEXT;
    }
    if (o.form != CRAB_FORM_NONE) {
        crab_fell_back(out, CRAB_CLIENT_SYN_FOREIGN_OPTION);
        return CRAB_NEXT;
    }
    flow = bpf_map_lookup_elem(&crab_flows_out, out);
    if (flow && flow->iss == p->seq && flow->ended & CRAB_FLOW_OWN_HOST) {
        return crab_own_host_goes(skb, p, &flow->dip);
    }
    if (flow && flow->iss == p->seq) {
        return syn_again(skb, p, flow, routed);
    }
    crab_flow_give_up(out);
    return mark_first(skb, p, out);
}

/*
 * How far the client has got, and whether it acknowledges the FIN that was seen: that one was the server's. One that
 * was forged waits for ever, or until the client has got further.
 */
static __always_inline __u8 client_acknowledges(struct crab_flow *flow, __u32 ack)
{
    __u8 ended = flow->ended;

    if (ended & CRAB_ENDED_FIN_WAITS) {
        if ((__s32)(ack - flow->ack) < 0) {
            return ended;
        }
        if (ack == flow->ack) {
            ended |= CRAB_ENDED_SERVER_FIN;
        }
    }
    flow->ack = ack;
    return ended & ~CRAB_ENDED_FIN_WAITS;
}

/* The client goes on: it has not believed a RST, or it answers a FIN. */
static __always_inline void client_touches(struct crab_flow *flow, struct crab_packet *p, __u64 now)
{
    __u8 flags = p->flags, ended = flags & CRAB_ACK ? client_acknowledges(flow, p->ack) : flow->ended;

    if (now - flow->last_ns > 2ULL << CRAB_HOP_SHIFT) {
        flow->hop_seen = 0;
    }
    flow->last_ns = now;
    if (flags & CRAB_RST) {
        ended |= CRAB_ENDED_RST | CRAB_ENDED_CLIENT_RST;
    } else {
        ended &= ~(CRAB_ENDED_RST | CRAB_ENDED_CLIENT_RST);
    }
    if (flags & CRAB_FIN) {
        ended |= CRAB_ENDED_CLIENT_FIN;
    }
    if (ended != flow->ended) {
        flow->ended = ended;
    }
}

/* What is no SYN and has no recent answer: what the maps say, which becomes one. */
static __always_inline int client_goes_on(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *out,
                                          int routed)
{
    __u32 epoch = crab_recent_epoch(out);
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, out);

    if (!flow) {
        crab_nothing_keep(out, CRAB_OUT, epoch);
        return CRAB_NEXT;
    }
    client_touches(flow, p, bpf_ktime_get_coarse_ns()); /* a tick's error does not matter */
    if (CRAB_RARELY(flow->ended & CRAB_FLOW_OWN_HOST)) {
        if (p->flags & (CRAB_SYN | CRAB_FIN | CRAB_RST)) {
            crab_own_host_says(p, out, &flow->dip);
        }
        return crab_own_host_goes(skb, p, &flow->dip);
    }
    if (flow->ended & CRAB_ENDED_FIN_WAITS)
        ; /* every packet is looked at until one acknowledges it */
    else if (!routed) {
        crab_recent_keep(out, CRAB_OUT, epoch, flow->dip, NULL);
    } else if (flow->hop_seen == hop_time(flow)) {
        crab_recent_keep(out, CRAB_OUT, epoch, flow->dip, flow->hop);
    }
    return to_server(skb, p, flow, routed);
}

static __always_inline int client_out(struct __sk_buff *skb, int routed, enum crab_six_entry six)
{
    struct crab_packet p;
    int quick = crab_quick(skb, CRAB_OUT, routed, CRAB_CLIENT_TO_SERVER);

    if (CRAB_LIKELY(quick != CRAB_SLOW)) {
        return quick;
    }
    if (crab_parse(skb, &p, six) != CRAB_TCP) {
        return crab_error_for_server(skb, routed);
    }
    struct crab_tuple out = {.client = p.saddr, .server = p.daddr, .client_port = p.sport, .server_port = p.dport};
    if ((p.flags & CRAB_STATE) != CRAB_SYN) {
        return client_goes_on(skb, &p, &out, routed);
    }
    int verdict = client_syn(skb, &p, &out, routed);
    crab_recent_end(&out);
    return verdict;
}

static __always_inline int to_client(struct __sk_buff *skb, struct crab_packet *p, crab_addr vip)
{
    if (crab_set_addr(skb, p, CRAB_IP_SADDR, p->saddr, vip)) {
        return crab_write_failed();
    }
    crab_count(CRAB_CLIENT_FROM_SERVER);
    return CRAB_NEXT;
}

/*
 * Who was dialled answers this very SYN: its TCP knows of no other connection, so that a translation
 * from its address is of one that is over.
 */
static __always_inline int answered_itself(struct crab_tuple *in, int direct)
{
    crab_flow_drop_stale(in);
    if (direct) {
        crab_drop(&crab_pending, in, CRAB_CLIENT_PENDING_REMOVED);
        return CRAB_NEXT;
    }
    crab_connected(in);
    crab_fell_back(in, CRAB_CLIENT_FALLBACK_SYNACK);
    return CRAB_NEXT;
}

/* A SYN-ACK without redirect: of the VIP itself (fall-back), of a direct connection, or of none of ours. */
static __always_inline int plain_synack(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *in)
{
    struct crab_pending *pending = bpf_map_lookup_elem(&crab_pending, in);

    if (pending && pending->iss + 1 == p->ack) {
        return answered_itself(in, pending->direct);
    }
    struct crab_reverse *r = bpf_map_lookup_elem(&crab_flows_in, in);
    if (r) { /* the server sent it again after its host had forgotten the echo */
        return to_client(skb, p, r->vip);
    }
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, in);
    if (flow && !(flow->ended & CRAB_FLOW_OWN_HOST) && flow->iss + 1 == p->ack) {
        crab_count(CRAB_CLIENT_SYNACK_OTHER_SERVER);
        return TC_ACT_SHOT;
    }
    return CRAB_NEXT;
}

/* The reason a redirect is not believed; CRAB_NOT_COUNTED when it is (C-90..C-95, C-101). */
static __always_inline __u32 redirect_refused(struct crab_packet *p, struct crab_tuple *out, __u32 vip_id)
{
    struct crab_pending *pending = bpf_map_lookup_elem(&crab_pending, out);

    if (!pending || !pending->marked) {
        return CRAB_CLIENT_FORGED_NO_PENDING;
    }
    if (p->ack != pending->iss + 1) {
        return CRAB_CLIENT_FORGED_ACK;
    }
    if (!crab_prefix_allows(vip_id, p->saddr)) {
        return CRAB_CLIENT_FORGED_DIP;
    }
    return CRAB_NOT_COUNTED;
}

static __always_inline int redirected_synack(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o,
                                             struct crab_tuple *in, __u32 vip_id, int all)
{
    struct crab_tuple out = crab_with_server(*in, crab_option_addr(o));
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, &out);

    if (flow && flow->iss + 1 == p->ack) {
        if (!crab_addr_same(flow->dip, p->saddr)) {
            crab_count(CRAB_CLIENT_SYNACK_OTHER_SERVER);
            return crab_refuse(skb, p);
        }
        crab_count(CRAB_CLIENT_SYNACK_REPEATED);
    } else {
        __u32 reason = redirect_refused(p, &out, vip_id);
        if (reason == CRAB_CLIENT_FORGED_NO_PENDING && !all) {
            return CRAB_NEXT;
        }
        if (reason != CRAB_NOT_COUNTED) {
            crab_count(reason);
            return TC_ACT_SHOT;
        }
        crab_flow_drop_stale(in);
        if (crab_flow_create(&out, &p->saddr, p->ack - 1, p->seq + 1)) {
            crab_count(CRAB_CLIENT_FLOW_MAP_FULL);
            return TC_ACT_SHOT;
        }
        crab_connected(&out);
        crab_count(CRAB_CLIENT_SYNACK_ACCEPTED);
    }
    if (crab_blank_option(skb, p, o)) {
        return crab_write_failed();
    }
    return to_client(skb, p, crab_option_addr(o));
}

static __always_inline int client_synack(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *in, int all)
{
    struct crab_options o;

    if (crab_read_options(skb, p, &o)) {
        return CRAB_NEXT;
    }
    if (o.form != CRAB_FORM_REDIRECT) {
        return plain_synack(skb, p, in);
    }
    struct crab_vip *vip = crab_vip_of(crab_option_addr(&o), p->sport);
    if (!vip || !(vip->flags & CRAB_VIP_CLIENT)) {
        return plain_synack(skb, p, in); /* no VIP of ours: as if absent (C-3) */
    }
    return redirected_synack(skb, p, &o, in, vip->id, all);
}

/*
 * The server ends the connection, or somebody who writes its address. Both must stand near to where the client is, as
 * far as is known. A FIN waits for the client to acknowledge it; of several the last one counts. A client that lives
 * answers a RST inside its window, which takes it back; one beyond ends nothing.
 */
CRAB_PART void server_ends(struct crab_tuple *in, crab_addr *vip, struct crab_packet *p)
{
    struct crab_tuple out = crab_with_server(*in, *vip);
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, &out);

    if (!flow) {
        return;
    }
    __u32 end = p->seq + p->length - (p->l4 - ETH_HLEN) - p->doff + 1;
    if (!(p->flags & CRAB_RST)) {
        if (end - flow->ack + CRAB_FIN_NEAR < 2 * CRAB_FIN_NEAR) {
            flow->ack = end;
            flow->ended |= CRAB_ENDED_FIN_WAITS;
        }
    } else if (!(flow->ended & CRAB_ENDED_FIN_WAITS) && p->seq - flow->ack < CRAB_RST_NEAR) {
        flow->ended |= CRAB_ENDED_RST;
    } else {
        crab_count(CRAB_CLIENT_RST_NOT_NEAR);
    }
}

/*
 * A SYN of the server's own, or of somebody who writes its address and knows no sequence number. On a live connection
 * it is a segment like any other: the client's TCP challenges it, and the server's, if it did begin anew, answers with
 * the RST that ends the connection on both sides.
 */
static __always_inline int server_syn_in(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *in)
{
    struct crab_reverse *r = crab_flow_lives(in) ? bpf_map_lookup_elem(&crab_flows_in, in) : NULL;

    if (!r) {
        return crab_own_host_begins(skb, p);
    }
    crab_count(CRAB_CLIENT_SYN_FROM_SERVER);
    return to_client(skb, p, r->vip);
}

/* An answer to a SYN, or one of the server's own. */
static __always_inline int server_begins(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *in, int all)
{
    if ((p->flags & CRAB_STATE) == (CRAB_SYN | CRAB_ACK)) {
        return client_synack(skb, p, in, all);
    }
    if ((p->flags & CRAB_STATE) == CRAB_SYN) {
        return server_syn_in(skb, p, in);
    }
    return CRAB_NEXT;
}

/* all: every client this packet can be for is this host's. */
static __always_inline int client_answer(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *in, int all)
{
    if (p->flags & CRAB_SYN) {
        int verdict = server_begins(skb, p, in, all);
        crab_recent_end(in);
        return verdict;
    }
    __u32 epoch = crab_recent_epoch(in);
    struct crab_reverse *r = bpf_map_lookup_elem(&crab_flows_in, in);
    if (!r) {
        crab_nothing_keep(in, CRAB_IN, epoch);
        return CRAB_NEXT;
    }
    crab_addr vip = r->vip;
    if (p->flags & (CRAB_FIN | CRAB_RST)) {
        server_ends(in, &vip, p);
        crab_recent_end(in); /* what the client says to it must be looked at */
    } else {
        crab_recent_keep(in, CRAB_IN, epoch, vip, NULL);
    }
    return to_client(skb, p, vip);
}

static __always_inline int client_in(struct __sk_buff *skb, enum crab_six_entry six)
{
    struct crab_packet p;
    int quick = crab_quick(skb, CRAB_IN, 0, CRAB_CLIENT_FROM_SERVER);

    if (CRAB_LIKELY(quick != CRAB_SLOW)) {
        return quick;
    }
    if (crab_parse(skb, &p, six) != CRAB_TCP) {
        return crab_error_for_client(skb);
    }
    struct crab_tuple in = {.client = p.daddr, .server = p.saddr, .client_port = p.dport, .server_port = p.sport};
    return client_answer(skb, &p, &in, 1);
}

/* What a pod sends to a client of this host comes in by the uplink, if there is one. That leads past all that looks at
 * the pod's device, so it is for the pod's own address only: a frame that bears another's stays where rp_filter and the
 * rules of the pod network see it. */
static __always_inline int client_in_near(struct __sk_buff *skb, enum crab_six_entry six)
{
    struct crab_packet p;

    if (CRAB_LIKELY(crab_is_nothing(skb, CRAB_IN))) {
        return CRAB_NEXT;
    }
    if (crab_parse(skb, &p, six) != CRAB_TCP) {
        return crab_error_for_client(skb);
    }
    struct crab_tuple in = {.client = p.daddr, .server = p.saddr, .client_port = p.dport, .server_port = p.sport};
    __u32 epoch = crab_recent_epoch(&in);
    if (crab_is_ours(skb, &p, &in)) {
        int verdict = crab_lives_there(skb, &p) ? crab_by_uplink(skb) : CRAB_NEXT;
        if (verdict != CRAB_NEXT) {
            return verdict;
        }
    } else if (!(p.flags & CRAB_SYN)) {
        crab_nothing_keep(&in, CRAB_IN, epoch);
        return CRAB_NEXT;
    }
    return client_answer(skb, &p, &in, 0);
}

/* Below the stack: the route was chosen for the VIP and must be chosen again. */
SEC("tc")
int CRAB_NAME(crab_client_out)(struct __sk_buff *skb)
{
    return client_out(skb, 1, CRAB_SIX_CLIENT_OUT);
}

/* Above the stack (a pod's veth): the host routes what we leave behind. */
SEC("tc")
int CRAB_NAME(crab_client_out_pod)(struct __sk_buff *skb)
{
    return client_out(skb, 0, CRAB_SIX_CLIENT_OUT_POD);
}

SEC("tc")
int CRAB_NAME(crab_client_in)(struct __sk_buff *skb)
{
    return client_in(skb, CRAB_SIX_CLIENT_IN);
}

/*
 * What this host's own servers send (a pod's veth, beside the uplink): clients
 * of this host are answered here, those of others by their own hosts.
 */
SEC("tc")
int CRAB_NAME(crab_client_in_near)(struct __sk_buff *skb)
{
    return client_in_near(skb, CRAB_SIX_CLIENT_IN_NEAR);
}
