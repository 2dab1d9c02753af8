/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A server in the network of its client's own host. What it answers goes to the client without crossing any device that
 * leads to the VIP, the loopback device perhaps, where nobody would translate it. So to the server the client is the
 * VIP: each side's packets leave for the VIP, and come in by the uplink at once, from the VIP to the other side. To
 * conntrack and to rp_filter these are two ordinary connections of this host and the VIP.
 *
 * The same serves a client that is its own server, wherever it lives: a SYN with the receiver's own address as its
 * source is dropped by every kernel, and an answer to itself would never leave it (C-107).
 *
 * crab_flows_out has one entry for each side, CRAB_FLOW_OWN_HOST, and its dip is the other side.
 */
#ifndef CRAB_OWN_HOST_H
#define CRAB_OWN_HOST_H

#include "crab_connect.h"
#include "crab_route.h"

/* What one side says of the end is known of the other as well. */
CRAB_PART void crab_own_host_says(struct crab_packet *p, struct crab_tuple *out, crab_addr *other)
{
    struct crab_tuple back = crab_other_side(out, other);

    if (p->flags & CRAB_SYN) {
        crab_connected(&back);
        return;
    }
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, &back);
    if (flow) {
        flow->ended |= p->flags & CRAB_RST ? CRAB_ENDED_RST | CRAB_ENDED_CLIENT_RST : CRAB_ENDED_SERVER_FIN;
    }
}

/* A packet of either side. */
CRAB_PART int crab_own_host_goes(struct __sk_buff *skb, struct crab_packet *p, crab_addr *other)
{
    crab_addr to = *other, vip = p->daddr;

    if (crab_set_addr(skb, p, CRAB_IP_DADDR, vip, to) || crab_set_addr(skb, p, CRAB_IP_SADDR, p->saddr, vip)) {
        return crab_write_failed();
    }
    crab_count(CRAB_CLIENT_OWN_HOST);
    return crab_turn_round(skb);
}

/* Whether the sender waits for this SYN to be answered, and the VIP that it names may have such a server. */
CRAB_PART int crab_own_pending(struct crab_packet *p, struct crab_tuple *out)
{
    struct crab_pending *pending = bpf_map_lookup_elem(&crab_pending, out);
    struct crab_vip *vip = crab_vip_of(out->server, out->server_port);

    return pending && pending->marked && pending->iss == p->seq && vip && crab_prefix_allows(vip->id, p->daddr);
}

/* Whether a server lives where its client does: in this host's own network, or in the client itself. */
CRAB_PART int crab_lives_with_client(struct __sk_buff *skb, struct crab_packet *p)
{
    struct bpf_fib_lookup fib = {};

    return crab_addr_same(p->saddr, p->daddr) || crab_fib(skb, p, &fib) == BPF_FIB_LKUP_RET_NOT_FWDED;
}

/*
 * Whether a SYN is one of this host's that the balancer has sent back to it; out becomes its name. Then it loses its
 * redirect: what would be echoed is nobody's business, the answer goes to the VIP. -1: it could not be written.
 */
CRAB_PART int crab_own_syn(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *out)
{
    struct crab_options o;

    if (crab_peek_options(skb, p, &o) || o.form != CRAB_FORM_REDIRECT) {
        return 0;
    }
    out->server = crab_option_addr(&o);
    if (!crab_own_pending(p, out) || !crab_lives_with_client(skb, p)) {
        return 0;
    }
    return crab_blank_option(skb, p, &o) ? -1 : 1;
}

/* Whether another client of this host is the VIP to that server already, by the same port. */
CRAB_PART int crab_own_host_taken(struct crab_tuple *back, crab_addr *client)
{
    struct crab_flow *flow = bpf_map_lookup_elem(&crab_flows_out, back);

    return flow && flow->ended & CRAB_FLOW_OWN_HOST && !crab_addr_same(flow->dip, *client) && !crab_flow_over(flow);
}

/* Who dials itself from the port it serves has one socket for both sides. */
static __always_inline int crab_own_host_same(struct crab_tuple *out, struct crab_tuple *back)
{
    return out->client_port == back->client_port && crab_addr_same(out->client, back->client);
}

CRAB_PART int crab_own_host_keep(struct crab_packet *p, struct crab_tuple *out)
{
    struct crab_tuple back = crab_other_side(out, &p->daddr);
    struct crab_flow flow = {.dip = p->daddr, .iss = p->seq, .ended = CRAB_FLOW_OWN_HOST};

    if (crab_own_host_same(out, &back) || crab_own_host_taken(&back, &out->client)) {
        return CRAB_CLIENT_OWN_HOST_PORT;
    }
    flow.last_ns = bpf_ktime_get_ns();
    flow.created_s = flow.last_ns / 1000000000;
    if (crab_keep(&crab_flows_out, out, &flow, CRAB_CLIENT_FLOW_CREATED)) {
        return CRAB_CLIENT_FLOW_MAP_FULL;
    }
    flow.dip = out->client;
    flow.iss = 0; /* a server sends no SYN of its own there */
    return crab_keep(&crab_flows_out, &back, &flow, CRAB_CLIENT_FLOW_CREATED) ? CRAB_CLIENT_FLOW_MAP_FULL
                                                                              : CRAB_NOT_COUNTED;
}

/* Any SYN that comes in. */
static __always_inline int crab_own_host_begins(struct __sk_buff *skb, struct crab_packet *p)
{
    struct crab_tuple out = {.client = p->saddr, .client_port = p->sport, .server_port = p->dport};

    int ours = crab_own_syn(skb, p, &out);

    if (ours <= 0) {
        return ours ? crab_write_failed() : CRAB_NEXT;
    }
    __u32 reason = crab_own_host_keep(p, &out);
    if (reason != CRAB_NOT_COUNTED) {
        crab_count(reason);
        return TC_ACT_SHOT;
    }
    if (crab_set_addr(skb, p, CRAB_IP_SADDR, p->saddr, out.server)) {
        return crab_write_failed();
    }
    crab_count(CRAB_CLIENT_OWN_HOST);
    return CRAB_NEXT;
}

#endif
