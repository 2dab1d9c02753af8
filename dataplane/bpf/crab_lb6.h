/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* IPv6 in the XDP balancer; part of crab_lb.bpf.c. */
#include <linux/ipv6.h>

#ifndef AF_INET6
#define AF_INET6 10
#endif

/* The stack has no room for it beside 16-byte addresses. XDP of one CPU does not interrupt itself. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, struct syn);
    __uint(max_entries, 1);
} crab_scratch6 SEC(".maps");

static __always_inline struct syn *empty_syn(void)
{
    __u32 zero = 0;
    struct syn *s = bpf_map_lookup_elem(&crab_scratch6, &zero);

    if (s) {
        __builtin_memset(s, 0, sizeof(*s));
    }
    return s;
}

#define SYN_STORAGE empty_syn()

/* bpf_loop wants its context on the stack. */
static __always_inline void find_option(struct syn *s)
{
    struct crab_options o;

    __builtin_memcpy(&o, &s->o, sizeof(o));
    crab_option_find(&o);
    __builtin_memcpy(&s->o, &o, sizeof(o));
}

/* A SYN to a VIP this host balances, right behind the IPv6 header (C-9); its addresses and lengths are in s. */
static __always_inline struct crab_vip *syn_to_vip(struct xdp_md *xdp, struct syn *s, enum crab_six_entry six)
{
    void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
    struct ethhdr *eth = data;
    struct ipv6hdr *ip = data + sizeof(*eth);
    struct tcphdr *tcp = (void *)(ip + 1);

    (void)six;
    if ((void *)(tcp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IPV6) || ip->version != 6 ||
        ip->nexthdr != IPPROTO_TCP || (((__u8 *)tcp)[13] & SYN_FLAGS) != 0x02) {
        return NULL;
    }
    s->l4 = sizeof(*eth) + sizeof(*ip);
    __builtin_memcpy(&s->saddr, &ip->saddr, sizeof(s->saddr));
    __builtin_memcpy(&s->daddr, &ip->daddr, sizeof(s->daddr));
    s->sport = tcp->source;
    s->dport = tcp->dest;
    s->iss = bpf_ntohl(tcp->seq);
    s->doff = tcp->doff * 4;
    s->length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
    s->check = tcp->check;
    s->tos = ip->priority << 4 | ip->flow_lbl[0] >> 4;
    s->ttl = ip->hop_limit;
    if (s->doff < sizeof(*tcp) || s->l4 - sizeof(*eth) + s->doff > s->length ||
        sizeof(*eth) + s->length > (__u64)(end - data)) {
        return NULL; /* tc counts it */
    }
    struct crab_vip *vip = crab_vip_of(s->daddr, s->dport);
    return vip && (vip->flags & (CRAB_VIP_BALANCE | CRAB_VIP_TUNNEL)) == CRAB_VIP_BALANCE ? vip : NULL;
}

static __always_inline int same_room(const __u8 *want, const __u8 *have)
{
    __u32 a[CRAB_OPTION_ROOM / 4], b[CRAB_OPTION_ROOM / 4], differs = 0;

    __builtin_memcpy(a, want, sizeof(a));
    __builtin_memcpy(b, have, sizeof(b));
#pragma unroll
    for (int i = 0; i < CRAB_OPTION_ROOM / 4; i++) {
        differs |= a[i] ^ b[i];
    }
    return !differs;
}

static __always_inline __s64 pseudo_sum(struct syn *s, crab_addr daddr)
{
    struct {
        crab_addr src, dst;
        __be32 len;
        __u8 zero[3], protocol;
    } pseudo = {s->saddr, daddr, bpf_htonl(s->length - (s->l4 - ETH_HLEN)), {0}, IPPROTO_TCP};
    return bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
}

static __always_inline void fill_fib(struct syn *s, crab_addr dip, struct bpf_fib_lookup *fib)
{
    fib->family = AF_INET6;
    fib->flowinfo = bpf_htonl((__u32)s->tos << 20);
    __builtin_memcpy(fib->ipv6_src, &s->saddr, sizeof(fib->ipv6_src));
    __builtin_memcpy(fib->ipv6_dst, &dip, sizeof(fib->ipv6_dst));
}

/* Ethernet and IP as the SYN leaves: next hop, server, one hop less. No checksum covers them. */
static __always_inline int patch_headers(struct xdp_md *xdp, struct bpf_fib_lookup *fib, crab_addr dip)
{
    void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
    struct ethhdr *eth = data;
    struct ipv6hdr *ip = data + sizeof(*eth);

    if ((void *)(ip + 1) > end) {
        return -1;
    }
    ip->hop_limit -= 1;
    __builtin_memcpy(&ip->daddr, &dip, sizeof(dip));
    __builtin_memcpy(eth->h_dest, fib->dmac, ETH_ALEN);
    __builtin_memcpy(eth->h_source, fib->smac, ETH_ALEN);
    return 0;
}
