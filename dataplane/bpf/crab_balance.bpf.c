// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The balancer in tc: everything crab_lb (XDP) leaves alone, and all of it where
 * there is no XDP. On an uplink's ingress it serves the network, on its egress
 * the clients of this very host, whose packets to the VIP nobody else would answer.
 *
 * SYNs with a placeholder are redirected by policy; all other packets to the VIP
 * go to a server chosen by consistent hash, which then answers from the VIP (C-40..C-43),
 * or whose connections this host relays, when nobody there can or may do that (crab_relay.h, crab_tunnel.h).
 */
#include "crab_balanced.h"
#include "crab_relay.h"
#include "crab_relay_error.h"
#include "crab_tunnel.h"

char _license[] SEC("license") = "Dual BSD/GPL";

CRAB_PART int deliver(struct __sk_buff *skb, struct crab_packet *p, crab_addr *dip, __u32 reason, int forwards)
{
    int verdict = CRAB_NEXT;
    __u8 mac[ETH_ALEN];

    if (crab_set_addr(skb, p, CRAB_IP_DADDR, p->daddr, *dip)) {
        return crab_write_failed();
    }
    p->daddr = *dip;
    /* Conntrack has to see this host's own pods dialled: what answers a SYN it never saw is INVALID, and kube-proxy
     * drops it. */
    if (forwards && crab_stays_here(skb, p)) {
        crab_count(reason);
        if (reason != CRAB_LB_FALLBACK_OTHER) {
            crab_count(CRAB_LB_SYN_TO_STACK);
        }
        return CRAB_NEXT;
    }
    if (!forwards && crab_addr_same(p->saddr, p->daddr)) { /* it serves what it dials: likewise (C-107) */
        crab_count(reason);
        return crab_turn_round(skb);
    }
    switch (crab_route(skb, p, &verdict, mac)) {
    case CRAB_ROUTE_REDIRECTED:
        if (forwards && crab_age(skb)) {
            break;
        }
        crab_count(reason);
        return verdict;
    case CRAB_ROUTE_LOCAL: /* dialled here and served here: the client's part knows what to do, crab_own_host.h */
        if (reason != CRAB_LB_SYN_REDIRECTED && reason != CRAB_LB_SYN_REPEATED) {
            break;
        }
        crab_count(reason);
        return crab_turn_round(skb);
    }
    crab_count(CRAB_LB_NO_ROUTE);
    return TC_ACT_SHOT;
}

/* A SYN of a client that knows nothing of CRAB: tell the server's host to answer from the VIP. */
CRAB_PART int mark_fallback(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o)
{
    __u8 room[CRAB_ROOM_STORAGE];

    crab_room(room, CRAB_FORM_FALLBACK, p->daddr);
    if (o->form == CRAB_FORM_FALLBACK) { /* not ours: nobody in front of us may say so */
        crab_count(CRAB_LB_FOREIGN_REDIRECT);
        if (!crab_replace_option(skb, p, o, room)) {
            return 0;
        }
        crab_count(CRAB_REWRITE_FAILED);
        return -1;
    }
    switch (crab_insert_option(skb, p, room, CRAB_FALLBACK_ROOM)) {
    case CRAB_INSERTED:
        return 0;
    default:
        crab_count(CRAB_LB_FALLBACK_NO_SPACE);
        return -1;
    }
}

/* The balancer is between client and server. */
static __always_inline int to_relayed(struct __sk_buff *skb, struct crab_packet *p, struct crab_relay *r, int forwards)
{
    return crab_relay_out(skb, p, r) ? crab_write_failed()
                                     : crab_relay_segment(skb, p, CRAB_LB_RELAY_TO_SERVER, forwards);
}

static __always_inline int from_relayed(struct __sk_buff *skb, struct crab_packet *p, int forwards)
{
    switch (crab_relay_in(skb, p)) {
    case CRAB_RELAY_NONE:
        return CRAB_NEXT;
    case CRAB_RELAY_LOST:
        return TC_ACT_SHOT; /* counted there */
    default:
        return crab_relay_segment(skb, p, CRAB_LB_RELAY_FROM_SERVER, forwards);
    }
}

enum crab_hashed { CRAB_HASHED_ON = 0, CRAB_HASHED_RELAYED = 1, CRAB_HASHED_REFUSED = 2 };

/*
 * What becomes of a SYN that the hash has sent there. A server without agent cannot answer from the VIP, and where the
 * network checks sources none may; one that dials itself would answer itself (C-107), and sees nobody's address by
 * that.
 */
CRAB_PART enum crab_hashed hashed_way(struct crab_tuple *t, struct crab_choice *c)
{
    if (crab_addr_same(c->dip, t->client)) {
        return CRAB_HASHED_RELAYED;
    }
    if (c->state != CRAB_BACKEND_UP_PLAIN && !(c->vip_flags & CRAB_VIP_TUNNEL)) {
        return CRAB_HASHED_ON;
    }
    return c->vip_flags & CRAB_VIP_KEEP_CLIENT ? CRAB_HASHED_REFUSED : CRAB_HASHED_RELAYED;
}

/* What the hash chooses for: the connection t, to this VIP of those servers. */
struct crab_question {
    struct crab_vip *vip;
    struct crab_pool *pool;
    struct crab_tuple *t;
};

/* By consistent hash: o is the option area of a SYN, NULL for every other packet. */
static __always_inline int by_hash(struct __sk_buff *skb, struct crab_packet *p, struct crab_question *q,
                                   struct crab_choice *c, struct crab_options *o, int forwards)
{
    struct crab_pool *pool = q->pool;
    struct crab_tuple *t = q->t;

    if (q->vip->flags & CRAB_VIP_STACK_FALLBACK) {
        crab_count(CRAB_LB_FALLBACK_TO_STACK);
        return CRAB_NEXT;
    }
    struct crab_relay *r = bpf_map_lookup_elem(&crab_relays, t);
    if (r && (!o || crab_relay_goes_on(r, pool))) {
        return to_relayed(skb, p, r, forwards);
    }
    if (r) {
        crab_relay_end(t, r);
    }
    if (!crab_choose_by_hash(pool, t, c)) {
        crab_count(CRAB_LB_NO_BACKEND);
        return TC_ACT_SHOT;
    }
    enum crab_hashed way = o ? hashed_way(t, c) : CRAB_HASHED_ON;
    if (way == CRAB_HASHED_REFUSED) {
        crab_count(CRAB_LB_RELAY_REFUSED);
        return TC_ACT_SHOT;
    }
    if (way == CRAB_HASHED_RELAYED) {
        r = crab_relay_begin(t, c);
        if (r) {
            return to_relayed(skb, p, r, forwards);
        }
        crab_count(CRAB_LB_RELAY_FULL);
        return TC_ACT_SHOT;
    }
    if (o && mark_fallback(skb, p, o)) {
        return TC_ACT_SHOT; /* counted there */
    }
    return deliver(skb, p, &c->dip, o ? CRAB_LB_FALLBACK_SYN : CRAB_LB_FALLBACK_OTHER, forwards);
}

/* Send a SYN to its server, by the tunnel to that one's host where the network asks for it. */
CRAB_PART int redirect_to(struct __sk_buff *skb, struct crab_packet *p, struct crab_choice *c, int forwards)
{
    __u32 reason = c->repeated ? CRAB_LB_SYN_REPEATED : CRAB_LB_SYN_REDIRECTED;
    struct crab_tunnel *t = NULL;

    if (forwards && c->vip_flags & CRAB_VIP_TUNNEL) {
        t = bpf_map_lookup_elem(&crab_tunnels, &c->dip);
    }
    return t ? crab_tunnel_send(skb, p, t, &c->dip, reason) : deliver(skb, p, &c->dip, reason, forwards);
}

/* Write the VIP that was dialled into the option. */
CRAB_PART int name_vip(struct __sk_buff *skb, struct crab_packet *p, struct crab_options *o)
{
    __u8 room[CRAB_ROOM_STORAGE];

    crab_room(room, CRAB_FORM_REDIRECT, p->daddr);
    return crab_replace_option(skb, p, o, room);
}

/*
 * A SYN whose client takes redirects. One that was redirected already keeps its
 * first VIP behind a trusted tier and gets ours otherwise (C-28).
 */
static __always_inline int by_policy(struct __sk_buff *skb, struct crab_packet *p, struct crab_vip *vip,
                                     struct crab_options *o, struct crab_choice *c, int forwards)
{
    int foreign = o->form == CRAB_FORM_REDIRECT, trusted = vip->flags & CRAB_VIP_TRUSTED_TIER;

    if (foreign && !trusted) {
        crab_count(CRAB_LB_FOREIGN_REDIRECT);
    }
    if ((!foreign || !trusted) && name_vip(skb, p, o)) {
        return crab_write_failed();
    }
    return redirect_to(skb, p, c, forwards);
}

static __always_inline int balance(struct __sk_buff *skb, int forwards, enum crab_six_entry six)
{
    struct crab_packet p;

    if (CRAB_LIKELY(crab_for_others(skb))) {
        return CRAB_NEXT;
    }
    if (crab_parse(skb, &p, six) != CRAB_TCP) {
        return crab_error_for_vip(skb, forwards);
    }
    struct crab_vip *vip = crab_vip_of(p.daddr, p.dport);
    if (!vip && bpf_ntohs(p.dport) >= CRAB_RELAY_PORT) {
        return from_relayed(skb, &p, forwards);
    }
    if (!vip || !(vip->flags & CRAB_VIP_BALANCE)) {
        return CRAB_NEXT;
    }
    struct crab_tuple t = {.client = p.saddr, .server = p.daddr, .client_port = p.sport, .server_port = p.dport};
    struct crab_pool *pool = crab_pool_of(vip);
    if (!pool) {
        crab_count(CRAB_LB_NO_BACKEND);
        return TC_ACT_SHOT;
    }
    struct crab_question q = {.vip = vip, .pool = pool, .t = &t};
    struct crab_choice c = {.vip_flags = vip->flags};
    if ((p.flags & CRAB_STATE) != CRAB_SYN) {
        return by_hash(skb, &p, &q, &c, NULL, forwards);
    }
    struct crab_options o;
    if (crab_read_options(skb, &p, &o)) {
        return TC_ACT_SHOT; /* counted there */
    }
    if ((o.form == CRAB_FORM_PLACEHOLDER || o.form == CRAB_FORM_REDIRECT) && crab_choose(pool, vip, &t, p.seq, &c)) {
        return by_policy(skb, &p, vip, &o, &c, forwards);
    }
    return by_hash(skb, &p, &q, &c, &o, forwards);
}

SEC("tc")
int CRAB_NAME(crab_balance_in)(struct __sk_buff *skb)
{
    return balance(skb, 1, CRAB_SIX_BALANCE_IN);
}

SEC("tc")
int CRAB_NAME(crab_balance_out)(struct __sk_buff *skb)
{
    return balance(skb, 0, CRAB_SIX_BALANCE_OUT);
}
