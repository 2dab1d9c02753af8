/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The way of a redirected SYN through a network that lets nobody send with another's address (C-80): behind the
 * headers of a datagram between the balancer's host and the server's, which is all such a network looks at. UDP to the
 * port of GUE, variant 1: what follows is the IP packet itself, known by its version. SYNs only, for nothing else of a
 * redirected connection comes by the balancer.
 */
#ifndef CRAB_TUNNEL_H
#define CRAB_TUNNEL_H

#include <linux/udp.h>

#include "crab_route.h"

#define CRAB_TUNNEL_PORT  6080
#define CRAB_TUNNEL_HOPS  64
#define CRAB_MAX_TUNNELS  16384
#define CRAB_MAX_TUN_ENDS 16384

CRAB_MAP_SPARSE(crab_tunnels, crab_addr, struct crab_tunnel, CRAB_MAX_TUNNELS);
CRAB_MAP_SPARSE(crab_tun_ends, crab_addr, __u32, CRAB_MAX_TUN_ENDS);

/* A frame of its own in both families: whoever balances IPv4 has everything else in one, and 512 bytes. */
#define CRAB_SELDOM static __attribute__((noinline, unused))

/* One connection's SYNs look alike to whatever spreads datagrams over ways. */
static __always_inline __be16 crab_tunnel_source(struct crab_packet *p)
{
    __u32 h = crab_mix(crab_mix_addr(p->sport, p->saddr), p->dport);

    return bpf_htons(0xc000 | (h & 0x3fff));
}

static __always_inline __u16 crab_tunnel_fold(__u64 sum)
{
    sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16)((sum & 0xffff) + (sum >> 16));
}

#ifdef CRAB_SIX
#include "crab_tunnel6.h"
#else
#include "crab_tunnel4.h"
#endif

CRAB_SELDOM int crab_tunnel_readdress(struct __sk_buff *skb, struct crab_packet *p, crab_addr *dip)
{
    if (crab_set_addr(skb, p, CRAB_IP_DADDR, p->daddr, *dip)) {
        return -1;
    }
    p->daddr = *dip;
    return 0;
}

/* Put the outer headers in front of a packet whose addresses are its last ones. */
CRAB_SELDOM int crab_tunnel_wrap(struct __sk_buff *skb, struct crab_packet *p, struct crab_tunnel *t)
{
    struct crab_tunnel_head head;
    __u32 mtu = 0;

    if (bpf_check_mtu(skb, 0, &mtu, sizeof(head), 0)) {
        crab_count(CRAB_LB_TUNNEL_TOO_LONG);
        return -1;
    }
    if (crab_tunnel_fill(skb, p, t, &head) ||
        bpf_skb_adjust_room(skb, sizeof(head), BPF_ADJ_ROOM_MAC, CRAB_TUNNEL_WRAPS) ||
        bpf_skb_store_bytes(skb, ETH_HLEN, &head, sizeof(head), 0)) {
        crab_count(CRAB_REWRITE_FAILED);
        return -1;
    }
    return 0;
}

/* Send it where the outer addresses lead. */
CRAB_SELDOM int crab_tunnel_route(struct __sk_buff *skb, struct crab_packet *p, struct crab_tunnel *t, __u32 reason)
{
    int verdict = CRAB_NEXT;
    __u8 mac[ETH_ALEN];

    p->saddr = t->from;
    p->daddr = t->to;
    if (crab_route(skb, p, &verdict, mac) != CRAB_ROUTE_REDIRECTED) {
        crab_count(CRAB_LB_NO_ROUTE);
        return TC_ACT_SHOT;
    }
    crab_count(reason);
    crab_count(CRAB_LB_SYN_TUNNELLED);
    return verdict;
}

/* Send a SYN to its server, by that one's host. */
static __always_inline int crab_tunnel_send(struct __sk_buff *skb, struct crab_packet *p, struct crab_tunnel *t,
                                            crab_addr *dip, __u32 reason)
{
    if (crab_tunnel_readdress(skb, p, dip)) {
        return crab_write_failed();
    }
    if (crab_age(skb)) {
        crab_count(CRAB_LB_NO_ROUTE);
        return TC_ACT_SHOT;
    }
    if (crab_tunnel_wrap(skb, p, t)) {
        return TC_ACT_SHOT; /* counted there */
    }
    return crab_tunnel_route(skb, p, t, reason);
}

#endif
