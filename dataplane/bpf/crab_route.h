/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Deliver a packet whose destination has just been changed (C-21, C-103). */
#ifndef CRAB_ROUTE_H
#define CRAB_ROUTE_H

#include "crab_skb.h"

#ifndef AF_INET
#define AF_INET 2
#endif
#ifndef AF_INET6
#define AF_INET6 10
#endif

enum crab_routed {
    CRAB_ROUTE_REDIRECTED = 0, /* verdict holds what the program returns */
    CRAB_ROUTE_LOCAL = 1,      /* the address is this host's own */
    CRAB_ROUTE_NONE = 2,
};

/* The way from one address to another, for packets of p's connection that come in where skb is. */
static __always_inline int crab_fib_between(struct __sk_buff *skb, struct crab_packet *p, crab_addr *from,
                                            crab_addr *to, struct bpf_fib_lookup *fib)
{
#ifdef CRAB_SIX
    fib->family = AF_INET6;
    fib->flowinfo = bpf_htonl((__u32)p->tos << 20);
    __builtin_memcpy(fib->ipv6_src, from, sizeof(fib->ipv6_src));
    __builtin_memcpy(fib->ipv6_dst, to, sizeof(fib->ipv6_dst));
#else
    fib->family = AF_INET;
    fib->tos = p->tos;
    fib->ipv4_src = *from;
    fib->ipv4_dst = *to;
#endif
    fib->l4_protocol = IPPROTO_TCP;
    fib->sport = p->sport;
    fib->dport = p->dport;
    fib->ifindex = skb->ifindex;
    return bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
}

static __always_inline int crab_fib(struct __sk_buff *skb, struct crab_packet *p, struct bpf_fib_lookup *fib)
{
    return crab_fib_between(skb, p, &p->saddr, &p->daddr, fib);
}

/* Whether the host would send to p's source by the device that p came from. */
CRAB_PART int crab_lives_there(struct __sk_buff *skb, struct crab_packet *p)
{
    struct bpf_fib_lookup fib = {};
    int ret = crab_fib_between(skb, p, &p->daddr, &p->saddr, &fib);

    return (ret == BPF_FIB_LKUP_RET_SUCCESS || ret == BPF_FIB_LKUP_RET_NO_NEIGH ||
            ret == BPF_FIB_LKUP_RET_FRAG_NEEDED) &&
           fib.ifindex == skb->ifindex;
}

/* Whether the stack delivers a packet that came from the wire: to this host itself or to one of its pods, behind
 * conntrack. */
CRAB_PART int crab_stays_here(struct __sk_buff *skb, struct crab_packet *p)
{
    struct bpf_fib_lookup fib = {};
    int ret = crab_fib(skb, p, &fib);

    if (ret == BPF_FIB_LKUP_RET_SUCCESS || ret == BPF_FIB_LKUP_RET_NO_NEIGH) {
        return fib.ifindex != skb->ifindex;
    }
    return ret == BPF_FIB_LKUP_RET_NOT_FWDED;
}

/*
 * Send skb where the host's routes say p->daddr is. bpf_redirect_neigh resolves the
 * neighbour when need be, so that the first packet to a server is not lost. On
 * a host that does not forward, the device the packet is on will do. If the way is known
 * and leads out of that device, mac is the next hop's address; else it stays as it was.
 */
static __always_inline int crab_route(struct __sk_buff *skb, struct crab_packet *p, int *verdict, __u8 *mac)
{
    struct bpf_fib_lookup fib = {};
    struct bpf_redir_neigh hop = {};
    int ret = crab_fib(skb, p, &fib);

    switch (ret) {
    case BPF_FIB_LKUP_RET_SUCCESS:
        if (fib.ifindex == skb->ifindex) {
            __builtin_memcpy(mac, fib.dmac, ETH_ALEN);
        }
        /* fall through */
    case BPF_FIB_LKUP_RET_NO_NEIGH:
#ifdef CRAB_SIX
        hop.nh_family = AF_INET6;
        __builtin_memcpy(hop.ipv6_nh, fib.ipv6_dst, sizeof(hop.ipv6_nh));
#else
        hop.nh_family = AF_INET;
        hop.ipv4_nh = fib.ipv4_dst;
#endif
        *verdict = bpf_redirect_neigh(fib.ifindex, &hop, sizeof(hop), 0);
        return CRAB_ROUTE_REDIRECTED;
    case BPF_FIB_LKUP_RET_NOT_FWDED: /* IPv6 says so of an address without a route as well: the stack will see */
        return CRAB_ROUTE_LOCAL;
    case BPF_FIB_LKUP_RET_FWD_DISABLED:
        *verdict = bpf_redirect_neigh(skb->ifindex, NULL, 0, 0);
        return CRAB_ROUTE_REDIRECTED;
    default:
        return CRAB_ROUTE_NONE;
    }
}

/* A frame's source is the device that it would leave by: let it come in there. */
static __always_inline int crab_turn_round(struct __sk_buff *skb)
{
    __u8 mac[ETH_ALEN];

    if (bpf_skb_load_bytes(skb, ETH_ALEN, mac, ETH_ALEN) || bpf_skb_store_bytes(skb, 0, mac, ETH_ALEN, 0)) {
        return crab_write_failed();
    }
    return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

#endif
