/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The client's host: ICMP errors about redirected connections (C-103). */
#ifndef CRAB_CLIENT_ERROR_H
#define CRAB_CLIENT_ERROR_H

#include "crab_error.h"
#include "crab_flow.h"
#include "crab_route.h"

/* Somebody on the way to the DIP tells the client, which knows the VIP. Nothing is learnt here: its TCP judges. */
CRAB_ERROR_PART int crab_error_for_client(struct __sk_buff *skb)
{
    struct crab_error *e = crab_error_read(skb);
    struct crab_reverse *r = e ? bpf_map_lookup_elem(&crab_flows_in, &e->from) : NULL;

    if (!r) {
        return CRAB_NEXT;
    }
    if (crab_error_quote(skb, e, CRAB_QUOTE_DADDR, e->from.server, r->vip)) {
        return crab_write_failed();
    }
    crab_count(CRAB_CLIENT_ERROR_IN);
    return CRAB_NEXT;
}

/*
 * About a connection to a server of the own host, told by this host or a router of its pods: to each end the other one
 * is the VIP (crab_own_host.h), which must be who tells it. The host's own address as the source would be refused on
 * a packet that comes in.
 */
CRAB_ERROR_PART int crab_error_of_own_host(struct __sk_buff *skb, struct crab_error *e, crab_addr *other)
{
    crab_addr to = *other, vip = e->from.client;

    if (crab_error_quote(skb, e, CRAB_QUOTE_SADDR, vip, to) ||
        crab_error_quote(skb, e, CRAB_QUOTE_DADDR, e->from.server, vip) ||
        crab_error_own(skb, e, CRAB_IP_SADDR, e->out.saddr, vip) || crab_error_to(skb, e, to)) {
        return crab_write_failed();
    }
    crab_count(CRAB_CLIENT_ERROR_OWN_HOST);
    return crab_turn_round(skb);
}

/* Another host's server has sent it from the DIP, and is told. */
CRAB_ERROR_PART int crab_error_to_server(struct __sk_buff *skb, struct crab_error *e, crab_addr *server, int routed)
{
    crab_addr dip = *server;
    int verdict = CRAB_NEXT;
    __u8 mac[ETH_ALEN];

    if (crab_error_quote(skb, e, CRAB_QUOTE_SADDR, e->from.client, dip) || crab_error_to(skb, e, dip)) {
        return crab_write_failed();
    }
    if (routed && crab_route(skb, &e->out, &verdict, mac) != CRAB_ROUTE_REDIRECTED) {
        crab_count(CRAB_CLIENT_NO_ROUTE);
        return TC_ACT_SHOT;
    }
    crab_count(CRAB_CLIENT_ERROR_OUT);
    return verdict;
}

/*
 * This host, or a router of its pods, tells the VIP what the server has sent. Part of its caller: a function between
 * it and those two would be one more frame than IPv6's stack holds.
 */
static __always_inline int crab_error_for_server(struct __sk_buff *skb, int routed)
{
    struct crab_error *e = crab_error_read(skb);
    struct crab_flow *flow = e ? bpf_map_lookup_elem(&crab_flows_out, &e->to) : NULL;

    if (!flow) {
        return CRAB_NEXT;
    }
    if (flow->ended & CRAB_FLOW_OWN_HOST) {
        return crab_error_of_own_host(skb, e, &flow->dip);
    }
    return crab_error_to_server(skb, e, &flow->dip, routed);
}

#endif
