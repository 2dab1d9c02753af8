/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * ICMP errors about TCP segments whose addresses we change (C-103): a hop that is too narrow, above all. Whoever
 * reports it quotes the segment as it was there; the end it is for knows the connection by another name. What TCP
 * believes of an error is TCP's business, and judged by the quoted sequence number, which stays. So does the quoted
 * checksum of TCP, which nobody looks at.
 */
#ifndef CRAB_ERROR_H
#define CRAB_ERROR_H

#include "crab_skb.h"

#define CRAB_ERROR_HEAD  8 /* of ICMP, in front of what is quoted */
#define CRAB_ERROR_CHECK 2

struct crab_error {
    __u32 l4;               /* where ICMP begins */
    __u32 quoted;           /* where the quoted IP header begins */
    __u32 ports;            /* where the quoted TCP header begins */
    struct crab_packet out; /* the error itself, as crab_route wants it */
    struct crab_tuple from; /* the quoted segment: client is who sent it, server whom it was for */
    struct crab_tuple to;   /* the same the other way round */
};

/* One of each CPU: there is no room on the stack below what TCP's packets take. */
CRAB_MAP(BPF_MAP_TYPE_PERCPU_ARRAY, crab_errors, __u32, struct crab_error, 1);

/* A function of its own in both families: few packets are errors, and all others' code must be short. */
#define CRAB_ERROR_PART static __attribute__((noinline, unused))

#ifdef CRAB_SIX

#define CRAB_QUOTE_SADDR 8
#define CRAB_QUOTE_DADDR 24
#define CRAB_ERROR_PROTO (ETH_HLEN + __builtin_offsetof(struct ipv6hdr, nexthdr))
#define CRAB_ERROR_ICMP  IPPROTO_ICMPV6

/* Destination unreachable, packet too big, time exceeded, parameter problem. */
static __always_inline int crab_error_type(__u8 type)
{
    return type >= 1 && type <= 4;
}

static __always_inline int crab_error_outer(struct __sk_buff *skb, struct crab_error *e)
{
    struct ipv6hdr ip;

    if (skb->protocol != bpf_htons(ETH_P_IPV6) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip))) {
        return -1;
    }
    e->l4 = ETH_HLEN + sizeof(ip);
    __builtin_memcpy(&e->out.saddr, &ip.saddr, sizeof(e->out.saddr));
    __builtin_memcpy(&e->out.daddr, &ip.daddr, sizeof(e->out.daddr));
    return 0;
}

static __always_inline int crab_error_inner(struct __sk_buff *skb, struct crab_error *e)
{
    struct ipv6hdr ip;

    if (bpf_skb_load_bytes(skb, e->quoted, &ip, sizeof(ip)) || ip.version != 6 || ip.nexthdr != IPPROTO_TCP) {
        return -1;
    }
    e->ports = e->quoted + sizeof(ip);
    __builtin_memcpy(&e->from.client, &ip.saddr, sizeof(e->from.client));
    __builtin_memcpy(&e->from.server, &ip.daddr, sizeof(e->from.server));
    return 0;
}

/* Put to in the place of from in the quoted header, at offset at of it: ICMP's sum covers it. */
static __always_inline int crab_error_quote(struct __sk_buff *skb, struct crab_error *e, __u32 at, crab_addr from,
                                            crab_addr to)
{
    return bpf_l4_csum_replace(skb, e->l4 + CRAB_ERROR_CHECK, 0, crab_addr_diff(from, to), 0) ||
           bpf_skb_store_bytes(skb, e->quoted + at, &to, sizeof(to), 0);
}

/* Put to in the place of an address of the error's own, at offset at: ICMPv6's sum covers them, too. */
static __always_inline int crab_error_own(struct __sk_buff *skb, struct crab_error *e, __u32 at, crab_addr from,
                                          crab_addr to)
{
    return bpf_l4_csum_replace(skb, e->l4 + CRAB_ERROR_CHECK, 0, crab_addr_diff(from, to), BPF_F_PSEUDO_HDR) ||
           bpf_skb_store_bytes(skb, at, &to, sizeof(to), BPF_F_RECOMPUTE_CSUM);
}

#else

#define CRAB_QUOTE_CHECK 10
#define CRAB_QUOTE_SADDR 12
#define CRAB_QUOTE_DADDR 16
#define CRAB_ERROR_PROTO (ETH_HLEN + __builtin_offsetof(struct iphdr, protocol))
#define CRAB_ERROR_ICMP  IPPROTO_ICMP

/* Destination unreachable (code 4: fragmentation needed), time exceeded, parameter problem. */
static __always_inline int crab_error_type(__u8 type)
{
    return type == 3 || type == 11 || type == 12;
}

static __always_inline int crab_error_outer(struct __sk_buff *skb, struct crab_error *e)
{
    struct iphdr ip;

    if (skb->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.ihl < 5 ||
        ip.frag_off & bpf_htons(0x3fff)) {
        return -1;
    }
    e->l4 = ETH_HLEN + ip.ihl * 4;
    e->out.saddr = ip.saddr;
    e->out.daddr = ip.daddr;
    return 0;
}

static __always_inline int crab_error_inner(struct __sk_buff *skb, struct crab_error *e)
{
    struct iphdr ip;

    if (bpf_skb_load_bytes(skb, e->quoted, &ip, sizeof(ip)) || ip.protocol != IPPROTO_TCP || ip.ihl < 5 ||
        ip.frag_off & bpf_htons(0x1fff)) {
        return -1;
    }
    e->ports = e->quoted + ip.ihl * 4;
    e->from.client = ip.saddr;
    e->from.server = ip.daddr;
    return 0;
}

/* Put to in the place of from in the quoted header, at offset at of it: its sum follows, so that ICMP's stays right. */
static __always_inline int crab_error_quote(struct __sk_buff *skb, struct crab_error *e, __u32 at, crab_addr from,
                                            crab_addr to)
{
    return bpf_l3_csum_replace(skb, e->quoted + CRAB_QUOTE_CHECK, from, to, sizeof(to)) ||
           bpf_skb_store_bytes(skb, e->quoted + at, &to, sizeof(to), 0);
}

/* Put to in the place of an address of the error's own, at offset at. */
static __always_inline int crab_error_own(struct __sk_buff *skb, struct crab_error *e, __u32 at, crab_addr from,
                                          crab_addr to)
{
    (void)e;
    return bpf_l3_csum_replace(skb, CRAB_IP_CHECK, from, to, sizeof(to)) ||
           bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0);
}

#endif

/* Send the error to another host. */
static __always_inline int crab_error_to(struct __sk_buff *skb, struct crab_error *e, crab_addr to)
{
    if (crab_error_own(skb, e, CRAB_IP_DADDR, e->out.daddr, to)) {
        return -1;
    }
    e->out.daddr = to;
    return 0;
}

static __always_inline int crab_error_ports(struct __sk_buff *skb, struct crab_error *e)
{
    __be16 ports[2];

    if (bpf_skb_load_bytes(skb, e->ports, ports, sizeof(ports))) {
        return -1;
    }
    e->from.client_port = ports[0];
    e->from.server_port = ports[1];
    e->to.client = e->from.server;
    e->to.server = e->from.client;
    e->to.client_port = ports[1];
    e->to.server_port = ports[0];
    return 0;
}

/* Read an error about a TCP segment that is told to its sender; NULL: it is none. Whatever is not TCP is asked about,
 * all of UDP too. */
CRAB_ERROR_PART struct crab_error *crab_error_read(struct __sk_buff *skb)
{
    __u32 zero = 0;
    __u8 type;

    if (bpf_skb_load_bytes(skb, CRAB_ERROR_PROTO, &type, sizeof(type)) || type != CRAB_ERROR_ICMP) {
        return NULL;
    }
    struct crab_error *e = bpf_map_lookup_elem(&crab_errors, &zero);
    if (!e) {
        return NULL;
    }
    __builtin_memset(e, 0, sizeof(*e));
    if (crab_error_outer(skb, e) || bpf_skb_load_bytes(skb, e->l4, &type, sizeof(type)) || !crab_error_type(type)) {
        return NULL;
    }
    e->quoted = e->l4 + CRAB_ERROR_HEAD;
    if (crab_error_inner(skb, e) || crab_error_ports(skb, e) || !crab_addr_same(e->out.daddr, e->from.client)) {
        return NULL;
    }
    return e;
}

/* Put to in the place of a quoted port, the sender's (field 0) or the other one (2). */
static __always_inline int crab_error_port(struct __sk_buff *skb, struct crab_error *e, __u32 field, __be16 from,
                                           __be16 to)
{
    return bpf_l4_csum_replace(skb, e->l4 + CRAB_ERROR_CHECK, from, to, sizeof(to)) ||
           bpf_skb_store_bytes(skb, e->ports + field, &to, sizeof(to), 0);
}

#endif
