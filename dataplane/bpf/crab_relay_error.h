/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ICMP errors that are told to a VIP (C-103): about answers that a server sent from it, on the hash path, or that were
 * relayed; and about what a relay sent to a server. They go to the end that sent the segment, as it knows it.
 */
#ifndef CRAB_RELAY_ERROR_H
#define CRAB_RELAY_ERROR_H

#include "crab_error.h"
#include "crab_relay.h"

/* What went to the server of a relay came from the client. */
static __always_inline __u32 crab_error_of_relay(struct __sk_buff *skb, struct crab_error *e)
{
    struct crab_relay_back *b = bpf_map_lookup_elem(&crab_relays_back, &e->from);

    if (!b) {
        return CRAB_NOT_COUNTED;
    }
    crab_addr client = b->client, vip = e->from.client;
    if (crab_error_port(skb, e, 0, e->from.client_port, b->port) ||
        crab_error_quote(skb, e, CRAB_QUOTE_SADDR, vip, client) ||
        crab_error_quote(skb, e, CRAB_QUOTE_DADDR, e->from.server, vip) || crab_error_to(skb, e, client)) {
        return CRAB_REWRITE_FAILED;
    }
    return CRAB_LB_ERROR_TO_CLIENT;
}

/* A relay's server knows the connection by a port of the VIP. */
static __always_inline int crab_error_as_relayed(struct __sk_buff *skb, struct crab_error *e, struct crab_relay *r)
{
    return crab_error_port(skb, e, 2, e->from.server_port, r->port) ||
           crab_error_quote(skb, e, CRAB_QUOTE_DADDR, e->from.server, e->from.client);
}

/* What went to a client from the VIP came from a server: that of the relay, or the one that all its packets go to. */
static __always_inline __u32 crab_error_of_answer(struct __sk_buff *skb, struct crab_error *e, struct crab_vip *vip)
{
    struct crab_relay *r = bpf_map_lookup_elem(&crab_relays, &e->to);
    struct crab_choice c = {};

    if (r) {
        c.dip = r->dip;
        if (crab_error_as_relayed(skb, e, r)) {
            return CRAB_REWRITE_FAILED;
        }
    } else {
        struct crab_pool *pool = crab_pool_of(vip);
        if (!pool || !crab_choose_by_hash(pool, &e->to, &c)) {
            return CRAB_NOT_COUNTED;
        }
    }
    if (crab_error_quote(skb, e, CRAB_QUOTE_SADDR, e->from.client, c.dip) || crab_error_to(skb, e, c.dip)) {
        return CRAB_REWRITE_FAILED;
    }
    return CRAB_LB_ERROR_TO_SERVER;
}

/* Rewrite the error for the end that has to know; CRAB_NOT_COUNTED: nobody has, CRAB_REWRITE_FAILED: that is no packet
 * any more. */
CRAB_PART __u32 crab_error_turn(struct __sk_buff *skb, struct crab_error *e)
{
    struct crab_vip *vip = crab_vip_of(e->from.client, e->from.client_port);

    if (!vip && bpf_ntohs(e->from.client_port) >= CRAB_RELAY_PORT) {
        return crab_error_of_relay(skb, e);
    }
    if (!vip || !(vip->flags & CRAB_VIP_BALANCE) || vip->flags & CRAB_VIP_STACK_FALLBACK) {
        return CRAB_NOT_COUNTED;
    }
    return crab_error_of_answer(skb, e, vip);
}

CRAB_ERROR_PART int crab_error_for_vip(struct __sk_buff *skb, int forwards)
{
    struct crab_error *e = crab_error_read(skb);
    __u32 reason = e ? crab_error_turn(skb, e) : CRAB_NOT_COUNTED;

    if (!e || reason == CRAB_NOT_COUNTED) {
        return CRAB_NEXT;
    }
    return reason == CRAB_REWRITE_FAILED ? crab_write_failed() : crab_relay_send(skb, &e->out, reason, forwards);
}

#endif
