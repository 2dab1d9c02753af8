/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* IPv4 in the XDP balancer; part of crab_lb.bpf.c. */
#include <linux/ip.h>

#ifndef AF_INET
#define AF_INET 2
#endif

#define SYN_STORAGE (&(struct syn){})

static __always_inline void find_option(struct syn *s)
{
    crab_option_find(&s->o);
}

CRAB_MAP(BPF_MAP_TYPE_PROG_ARRAY, crab_six_xdp, __u32, __u32, CRAB_SIX_ENTRIES);

/* A SYN to a VIP this host balances; its addresses and lengths are in s. */
static __always_inline struct crab_vip *syn_to_vip(struct xdp_md *xdp, struct syn *s, enum crab_six_entry six)
{
    void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = data + sizeof(*eth);

    if ((void *)(ip + 1) > end) {
        return NULL;
    }
    if (eth->h_proto != bpf_htons(ETH_P_IP)) {
        if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
            bpf_tail_call(xdp, &crab_six_xdp, six);
        }
        return NULL;
    }
    if (ip->protocol != IPPROTO_TCP || ip->version != 4 || ip->ihl < 5 || ip->frag_off & bpf_htons(0x3fff)) {
        return NULL;
    }
    s->l4 = sizeof(*eth) + ip->ihl * 4;
    struct tcphdr *tcp = data + (s->l4 & 0x7f);
    if ((void *)(tcp + 1) > end || (((__u8 *)tcp)[13] & SYN_FLAGS) != 0x02) {
        return NULL;
    }
    s->saddr = ip->saddr;
    s->daddr = ip->daddr;
    s->sport = tcp->source;
    s->dport = tcp->dest;
    s->iss = bpf_ntohl(tcp->seq);
    s->doff = tcp->doff * 4;
    s->length = bpf_ntohs(ip->tot_len);
    s->check = tcp->check;
    s->tos = ip->tos;
    s->ttl = ip->ttl;
    if (s->doff < sizeof(*tcp) || s->l4 - sizeof(*eth) + s->doff > s->length ||
        sizeof(*eth) + s->length > (__u64)(end - data)) {
        return NULL; /* tc counts it */
    }
    struct crab_vip *vip = crab_vip_of(s->daddr, s->dport);
    return vip && (vip->flags & (CRAB_VIP_BALANCE | CRAB_VIP_TUNNEL)) == CRAB_VIP_BALANCE ? vip : NULL;
}

static __always_inline int same_room(const __u8 *want, const __u8 *have)
{
    __u64 a, b;

    __builtin_memcpy(&a, want, sizeof(a));
    __builtin_memcpy(&b, have, sizeof(b));
    return a == b;
}

static __always_inline __s64 pseudo_sum(struct syn *s, __be32 daddr)
{
    struct {
        __be32 src, dst;
        __u8 zero, protocol;
        __be16 len;
    } pseudo = {s->saddr, daddr, 0, IPPROTO_TCP, bpf_htons(s->length - (s->l4 - ETH_HLEN))};
    return bpf_csum_diff(0, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
}

static __always_inline void fill_fib(struct syn *s, __be32 dip, struct bpf_fib_lookup *fib)
{
    fib->family = AF_INET;
    fib->tos = s->tos;
    fib->ipv4_src = s->saddr;
    fib->ipv4_dst = dip;
}

/* Ethernet and IP as the SYN leaves: next hop, server, one hop less. */
static __always_inline int patch_headers(struct xdp_md *xdp, struct bpf_fib_lookup *fib, __be32 dip)
{
    void *data = (void *)(long)xdp->data, *end = (void *)(long)xdp->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = data + sizeof(*eth);
    if ((void *)(ip + 1) > end) {
        return -1;
    }
    struct {
        __be32 ttl_word, addr;
    } old = {((__be32 *)ip)[2] & bpf_htonl(0xffff0000), ip->daddr}, fresh;
    ip->ttl -= 1;
    ip->daddr = dip;
    fresh.ttl_word = ((__be32 *)ip)[2] & bpf_htonl(0xffff0000);
    fresh.addr = dip;
    ip->check = ~fold(bpf_csum_diff((__be32 *)&old, sizeof(old), (__be32 *)&fresh, sizeof(fresh), (__u16)~ip->check));
    __builtin_memcpy(eth->h_dest, fib->dmac, ETH_ALEN);
    __builtin_memcpy(eth->h_source, fib->smac, ETH_ALEN);
    return 0;
}
