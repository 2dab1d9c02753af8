/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Answer a SYN-ACK nobody wants with a RST, so that its sender frees the half-open connection (C-104). */
#ifndef CRAB_REFUSE_H
#define CRAB_REFUSE_H

#include "crab_skb.h"

/* Two bytes in front, and IP and TCP lie as the sum helper wants them. */
#ifdef CRAB_SIX
struct crab_reset {
    __u8 align[2];
    struct ethhdr eth;
    struct ipv6hdr ip;
    struct tcphdr tcp;
} __attribute__((packed, aligned(4)));
#else
struct crab_reset {
    __u8 align[2];
    struct ethhdr eth;
    struct iphdr ip;
    struct tcphdr tcp;
} __attribute__((packed, aligned(4)));
#endif

static __always_inline __u16 crab_fold(__s64 sum)
{
    __u64 s = (__u64)sum;
    s = (s & 0xffffffff) + (s >> 32);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    return (__u16)~s;
}

#ifdef CRAB_SIX
/* The IP header of the answer to p. */
static __always_inline void crab_reset_ip(struct crab_reset *r, struct crab_packet *p)
{
    r->eth.h_proto = bpf_htons(ETH_P_IPV6);
    r->ip.version = 6;
    r->ip.payload_len = bpf_htons(sizeof(r->tcp));
    r->ip.nexthdr = IPPROTO_TCP;
    r->ip.hop_limit = 64;
    __builtin_memcpy(&r->ip.saddr, &p->daddr, sizeof(p->daddr));
    __builtin_memcpy(&r->ip.daddr, &p->saddr, sizeof(p->saddr));
}
#else
/* The IP header of the answer to p. */
static __always_inline void crab_reset_ip(struct crab_reset *r, struct crab_packet *p)
{
    r->eth.h_proto = bpf_htons(ETH_P_IP);
    r->ip.version = 4;
    r->ip.ihl = 5;
    r->ip.tot_len = bpf_htons(sizeof(r->ip) + sizeof(r->tcp));
    r->ip.frag_off = bpf_htons(0x4000);
    r->ip.ttl = 64;
    r->ip.protocol = IPPROTO_TCP;
    r->ip.saddr = p->daddr;
    r->ip.daddr = p->saddr;
    r->ip.check = crab_fold(bpf_csum_diff(0, 0, (void *)&r->ip, sizeof(r->ip), 0));
}
#endif

/* Both addresses are the pseudo header's, too; its length and protocol are what the sum begins with. */
static __always_inline void crab_reset_sum(struct crab_reset *r)
{
    __s64 sum =
        bpf_csum_diff(0, 0, (void *)&r->ip.saddr, 2 * sizeof(crab_addr), bpf_htons(sizeof(r->tcp) + IPPROTO_TCP));
    r->tcp.check = crab_fold(bpf_csum_diff(0, 0, (void *)&r->tcp, sizeof(r->tcp), (__u32)sum));
}

/* Turn the SYN-ACK into a RST and send it back the way it came; TC_ACT_SHOT when that fails. */
CRAB_PART int crab_refuse(struct __sk_buff *skb, struct crab_packet *p)
{
    struct crab_reset r = {};
    const __u32 size = sizeof(r) - sizeof(r.align);

    if (bpf_skb_load_bytes(skb, ETH_ALEN, r.eth.h_dest, ETH_ALEN) ||
        bpf_skb_load_bytes(skb, 0, r.eth.h_source, ETH_ALEN) || bpf_skb_change_tail(skb, size, 0)) {
        return crab_write_failed();
    }
    crab_reset_ip(&r, p);
    r.tcp.source = p->dport;
    r.tcp.dest = p->sport;
    r.tcp.seq = bpf_htonl(p->ack);
    r.tcp.doff = sizeof(r.tcp) / 4;
    r.tcp.rst = 1;
    crab_reset_sum(&r);
    if (bpf_skb_store_bytes(skb, 0, &r.eth, size, BPF_F_INVALIDATE_HASH)) {
        return crab_write_failed();
    }
    return bpf_redirect(skb->ifindex, 0);
}

#endif
