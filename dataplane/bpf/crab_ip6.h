/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * TCP over IPv6 in tc programs; part of crab_skb.h. The header has no checksum of
 * its own, so what changes in it is told to the checksum of the whole packet that
 * a device may have taken (BPF_F_RECOMPUTE_CSUM), beside that of TCP.
 */
#include <linux/ipv6.h>

#include "crab_six.h"

#define CRAB_IP_LEN   (ETH_HLEN + 4)
#define CRAB_IP_TTL   (ETH_HLEN + 7)
#define CRAB_IP_SADDR (ETH_HLEN + 8)
#define CRAB_IP_DADDR (ETH_HLEN + 24)

#define CRAB_HEADER_FRAGMENT 44

/* Header that stands between IPv6 and TCP. */
static __always_inline int crab_is_extension(__u8 header)
{
    return header == 0 || header == 43 || header == 51 || header == 60 || header == 135 || header == 139 ||
           header == 140;
}

/* Fill p from a packet whose TCP header follows that of IPv6; anything else is left alone (C-9). */
static __always_inline int crab_parse(struct __sk_buff *skb, struct crab_packet *p, enum crab_six_entry six)
{
    const __u32 need = ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct tcphdr);

    (void)six;
    if (skb->protocol != bpf_htons(ETH_P_IPV6)) {
        return CRAB_OTHER;
    }
    if ((void *)(long)skb->data + need > (void *)(long)skb->data_end && bpf_skb_pull_data(skb, need)) {
        return CRAB_OTHER;
    }

    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct ipv6hdr *ip = data + ETH_HLEN;
    struct tcphdr *tcp = (void *)(ip + 1);
    if ((void *)(tcp + 1) > end) {
        return CRAB_OTHER;
    }
    if (ip->nexthdr != IPPROTO_TCP) {
        if (ip->nexthdr == CRAB_HEADER_FRAGMENT) {
            crab_count(CRAB_FRAGMENT);
        } else if (crab_is_extension(ip->nexthdr)) {
            crab_count(CRAB_EXTENSION_HEADER);
        }
        return CRAB_OTHER;
    }
    if (ip->version != 6) {
        crab_count(CRAB_HEADER_MALFORMED);
        return CRAB_OTHER;
    }
    p->l4 = ETH_HLEN + sizeof(*ip);
    __builtin_memcpy(&p->saddr, &ip->saddr, sizeof(p->saddr));
    __builtin_memcpy(&p->daddr, &ip->daddr, sizeof(p->daddr));
    p->tos = ip->priority << 4 | ip->flow_lbl[0] >> 4;
    p->length = sizeof(*ip) + bpf_ntohs(ip->payload_len);
    p->doff = tcp->doff * 4;
    p->sport = tcp->source;
    p->dport = tcp->dest;
    p->seq = bpf_ntohl(tcp->seq);
    p->ack = bpf_ntohl(tcp->ack_seq);
    p->flags = ((__u8 *)tcp)[13];
    return CRAB_TCP;
}

/* A segment of an established connection that carries data, told at a glance; see crab_ip4.h. */
static __always_inline int crab_is_data(struct __sk_buff *skb)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct ipv6hdr *ip = data + ETH_HLEN;
    struct tcphdr *tcp = (void *)(ip + 1);

    if (skb->protocol != bpf_htons(ETH_P_IPV6) || (void *)(tcp + 1) > end) {
        return 0;
    }
    return ip->version == 6 && ip->nexthdr == IPPROTO_TCP && (((__u8 *)tcp)[13] & CRAB_STATE) == CRAB_ACK &&
           bpf_ntohs(ip->payload_len) > tcp->doff * 4;
}

/* The sum of what comes minus that of what goes, as the checksum helpers want a difference. */
static __always_inline __u32 crab_addr_diff(crab_addr from, crab_addr to)
{
    __u64 sum = 0;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum += (__u64)(__u32)~from.word[i] + to.word[i];
    }
    sum = (sum & 0xffffffff) + (sum >> 32);
    return (__u32)((sum & 0xffffffff) + (sum >> 32));
}

/* Put to in the place of from, which stands at offset at; TCP's pseudo header follows. */
static __always_inline int crab_set_addr(struct __sk_buff *skb, struct crab_packet *p, __u32 at, crab_addr from,
                                         crab_addr to)
{
    if (bpf_l4_csum_replace(skb, p->l4 + __builtin_offsetof(struct tcphdr, check), 0, crab_addr_diff(from, to),
                            BPF_F_PSEUDO_HDR)) {
        return -1;
    }
    return bpf_skb_store_bytes(skb, at, &to, sizeof(to), BPF_F_RECOMPUTE_CSUM);
}

/* The destination and the next hop of the frame; a function of its own, since the address takes room on the stack. */
CRAB_PART int crab_set_daddr_and_hop(struct __sk_buff *skb, struct crab_packet *p, crab_addr *to, const __u8 *hop)
{
    return crab_set_addr(skb, p, CRAB_IP_DADDR, p->daddr, *to) || bpf_skb_store_bytes(skb, 0, hop, ETH_ALEN, 0);
}

/* Account for more bytes behind the IP header. */
static __always_inline int crab_grow_ip(struct __sk_buff *skb, struct crab_packet *p, const __u32 more)
{
    __be16 len = bpf_htons(p->length - sizeof(struct ipv6hdr) + more);

    return bpf_skb_store_bytes(skb, CRAB_IP_LEN, &len, 2, BPF_F_RECOMPUTE_CSUM);
}

/* A router's duty (C-23); without it a VIP that is announced by mistake would make packets circle. */
static __always_inline int crab_age(struct __sk_buff *skb)
{
    __u8 hops;

    if (bpf_skb_load_bytes(skb, CRAB_IP_TTL, &hops, 1) || hops <= 1) {
        return -1;
    }
    hops -= 1;
    return bpf_skb_store_bytes(skb, CRAB_IP_TTL, &hops, 1, BPF_F_RECOMPUTE_CSUM);
}
