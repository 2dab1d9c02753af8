/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Answer a SYN-ACK nobody wants with a RST, so that its sender frees the half-open connection (C-104). */
#ifndef CRAB_REFUSE_H
#define CRAB_REFUSE_H

#include "crab_skb.h"

struct crab_reset {
    struct ethhdr eth;
    struct iphdr ip;
    struct tcphdr tcp;
} __attribute__((packed));

static __always_inline __u16 crab_fold(__s64 sum)
{
    __u64 s = (__u64)sum;
    s = (s & 0xffffffff) + (s >> 32);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    return (__u16)~s;
}

static __always_inline void crab_reset_sums(struct crab_reset *r)
{
    struct {
        __be32 src, dst;
        __u8 zero, protocol;
        __be16 len;
    } pseudo = {r->ip.saddr, r->ip.daddr, 0, IPPROTO_TCP, bpf_htons(sizeof(r->tcp))};
    struct iphdr ip;
    struct tcphdr tcp;

    __builtin_memcpy(&ip, &r->ip, sizeof(ip));
    __builtin_memcpy(&tcp, &r->tcp, sizeof(tcp));
    r->ip.check = crab_fold(bpf_csum_diff(0, 0, (__be32 *)&ip, sizeof(ip), 0));
    __s64 sum = bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
    r->tcp.check = crab_fold(bpf_csum_diff(0, 0, (__be32 *)&tcp, sizeof(tcp), (__u32)sum));
}

/* Turn the SYN-ACK into a RST and send it back the way it came; TC_ACT_SHOT when that fails. */
static __always_inline int crab_refuse(struct __sk_buff *skb, struct crab_packet *p)
{
    struct crab_reset r = {};
    struct ethhdr eth;

    if (bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) || bpf_skb_change_tail(skb, sizeof(r), 0))
        return TC_ACT_SHOT;
    __builtin_memcpy(r.eth.h_dest, eth.h_source, ETH_ALEN);
    __builtin_memcpy(r.eth.h_source, eth.h_dest, ETH_ALEN);
    r.eth.h_proto = bpf_htons(ETH_P_IP);
    r.ip.version = 4;
    r.ip.ihl = 5;
    r.ip.tot_len = bpf_htons(sizeof(r.ip) + sizeof(r.tcp));
    r.ip.frag_off = bpf_htons(0x4000);
    r.ip.ttl = 64;
    r.ip.protocol = IPPROTO_TCP;
    r.ip.saddr = p->daddr;
    r.ip.daddr = p->saddr;
    r.tcp.source = p->dport;
    r.tcp.dest = p->sport;
    r.tcp.seq = bpf_htonl(p->ack);
    r.tcp.doff = sizeof(r.tcp) / 4;
    r.tcp.rst = 1;
    crab_reset_sums(&r);
    if (bpf_skb_store_bytes(skb, 0, &r, sizeof(r), BPF_F_INVALIDATE_HASH))
        return TC_ACT_SHOT;
    return bpf_redirect(skb->ifindex, 0);
}

#endif
