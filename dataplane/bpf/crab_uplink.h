/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Answers of a host's own pods to its own clients, which cross no uplink. Translated on the pod's veth they would reach
 * the stack from the VIP by a device that does not lead there: rp_filter drops that, the loose one as well where the
 * device has no address, as routed CNIs leave it. So they come in by the uplink, as from servers elsewhere, and are
 * translated there.
 */
#ifndef CRAB_UPLINK_H
#define CRAB_UPLINK_H

#include "crab_flow.h"

/* Written by the agent with the client's part of the uplink; of both families. */
struct crab_uplink {
    __u32 ifindex; /* 0: none */
    __u8 mac[ETH_ALEN];
    __u8 pad[2];
};

CRAB_MAP(BPF_MAP_TYPE_ARRAY, crab_uplink, __u32, struct crab_uplink, 1);

/* What is waited for, or was accepted, below the name that the redirect makes of in. */
CRAB_PART int crab_redirect_is_ours(struct crab_tuple *in, struct crab_options *o)
{
    struct crab_tuple out = *in;

    out.server = crab_option_addr(o);
    return bpf_map_lookup_elem(&crab_pending, &out) || bpf_map_lookup_elem(&crab_flows_out, &out);
}

/* Whether it answers a SYN past the VIP, and stays as it is. */
static __always_inline int crab_answers_directly(struct crab_packet *p, struct crab_tuple *in)
{
    struct crab_pending *direct = bpf_map_lookup_elem(&crab_pending, in);

    return direct && direct->iss + 1 == p->ack;
}

/* Whether the uplink's program has to look at what a pod sends: at redirects, and at redirected connections. */
CRAB_PART int crab_is_ours(struct __sk_buff *skb, struct crab_packet *p, struct crab_tuple *in)
{
    if ((p->flags & CRAB_STATE) == (CRAB_SYN | CRAB_ACK)) {
        struct crab_options o;

        if (crab_peek_options(skb, p, &o)) {
            return 0;
        }
        if (o.form == CRAB_FORM_REDIRECT) {
            return crab_redirect_is_ours(in, &o);
        }
        if (crab_answers_directly(p, in)) {
            return 0;
        }
    }
    return bpf_map_lookup_elem(&crab_flows_in, in) != NULL;
}

/* Let the frame come in by the uplink; CRAB_NEXT: there is none. */
static __always_inline int crab_by_uplink(struct __sk_buff *skb)
{
    __u32 zero = 0;
    struct crab_uplink *u = bpf_map_lookup_elem(&crab_uplink, &zero);

    if (!u || !u->ifindex) {
        return CRAB_NEXT;
    }
    if (bpf_skb_store_bytes(skb, 0, u->mac, ETH_ALEN, 0)) {
        return crab_write_failed();
    }
    crab_count(CRAB_CLIENT_BY_UPLINK);
    return bpf_redirect(u->ifindex, BPF_F_INGRESS);
}

#endif
