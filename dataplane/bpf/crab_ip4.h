/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* TCP over IPv4 in tc programs; part of crab_skb.h. */
#include <linux/ip.h>

#include "crab_six.h"

#define CRAB_IP_LEN   (ETH_HLEN + 2)
#define CRAB_IP_TTL   (ETH_HLEN + 8)
#define CRAB_IP_CHECK (ETH_HLEN + 10)
#define CRAB_IP_SADDR (ETH_HLEN + 12)
#define CRAB_IP_DADDR (ETH_HLEN + 16)

CRAB_MAP(BPF_MAP_TYPE_PROG_ARRAY, crab_six, __u32, __u32, CRAB_SIX_ENTRIES);

/* Fill p from a TCP/IPv4 packet with its first byte in front of us; IPv6 goes to its own program, the rest is left
 * alone. */
static __always_inline int crab_parse(struct __sk_buff *skb, struct crab_packet *p, enum crab_six_entry six)
{
    if (skb->protocol != bpf_htons(ETH_P_IP)) {
        if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
            bpf_tail_call(skb, &crab_six, six);
        }
        return CRAB_OTHER;
    }
    if ((void *)(long)skb->data + ETH_HLEN + sizeof(struct iphdr) + sizeof(struct tcphdr) >
            (void *)(long)skb->data_end &&
        bpf_skb_pull_data(skb, ETH_HLEN + sizeof(struct iphdr) + sizeof(struct tcphdr))) {
        return CRAB_OTHER;
    }

    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct iphdr *ip = data + ETH_HLEN;
    if ((void *)(ip + 1) > end || ip->protocol != IPPROTO_TCP) {
        return CRAB_OTHER;
    }
    if (ip->frag_off & bpf_htons(0x3fff)) {
        crab_count(CRAB_FRAGMENT);
        return CRAB_OTHER;
    }
    __u8 version = ip->version;
    p->l4 = ETH_HLEN + ip->ihl * 4;
    p->saddr = ip->saddr;
    p->daddr = ip->daddr;
    p->tos = ip->tos;
    p->length = bpf_ntohs(ip->tot_len);
    if (ip->ihl > 5) {
        bpf_skb_pull_data(skb, p->l4 + sizeof(struct tcphdr));
    }
    data = (void *)(long)skb->data, end = (void *)(long)skb->data_end;
    struct tcphdr *tcp = data + (p->l4 & 0x7f);
    if (version != 4 || p->l4 < ETH_HLEN + sizeof(struct iphdr) || (void *)(tcp + 1) > end) {
        crab_count(CRAB_HEADER_MALFORMED);
        return CRAB_OTHER;
    }
    p->doff = tcp->doff * 4;
    p->sport = tcp->source;
    p->dport = tcp->dest;
    p->seq = bpf_ntohl(tcp->seq);
    p->ack = bpf_ntohl(tcp->ack_seq);
    p->flags = ((__u8 *)tcp)[13];
    return CRAB_TCP;
}

/*
 * A segment of an established connection over IPv4: no option of IP, no fragment, no flag that begins or ends
 * anything. Told with few instructions: where every packet comes by, code that is not in the cache is what costs.
 */
static __always_inline int crab_goes_on(const void *frame)
{
    return (CRAB_AT(__u32, frame, 12) & 0xffffff) == (0x45 << 16 | bpf_htons(ETH_P_IP)) &&
           (CRAB_AT(__u32, frame, 20) & (0xff000000 | bpf_htons(0x3fff))) == IPPROTO_TCP << 24 &&
           (CRAB_AT(__u8, frame, 47) & CRAB_STATE) == CRAB_ACK;
}

/* It carries data, too, told at a glance. What this says no to has to be parsed. */
static __always_inline int crab_is_data(struct __sk_buff *skb)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    const __u32 ip = sizeof(struct iphdr);

    if (data + ETH_HLEN + ip + sizeof(struct tcphdr) > end || !crab_goes_on(data)) {
        return 0;
    }
    return bpf_ntohs(CRAB_AT(__u16, data, 16)) > ip + (CRAB_AT(__u8, data, 46) >> 4) * 4;
}

/* What a sum gains when to takes the place of from. */
static __always_inline __u16 crab_sum_change(__be32 from, __be32 to)
{
    __u32 sum = (__u16)~from + (__u16) ~(from >> 16) + (to & 0xffff) + (to >> 16);

    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16)((sum & 0xffff) + (sum >> 16));
}

static __always_inline __u16 crab_sum_add(__u16 sum, __u16 change)
{
    __u32 all = (__u32)sum + change;

    return (__u16)((all & 0xffff) + (all >> 16));
}

/* The IP header's checksum after an address in it has changed. */
static __always_inline __u16 crab_ip_sum(__u16 check, __be32 from, __be32 to)
{
    return (__u16)~crab_sum_add((__u16)~check, crab_sum_change(from, to));
}

/* Checksum and addresses as they end the header: two writes to the stack, whatever is read of them at once. */
struct crab_ip_tail {
    __u64 check_to_daddr; /* little-endian, as the objects are */
    __u16 daddr_end;
};

#define CRAB_IP_TAIL 10 /* its bytes in the packet */

static __always_inline struct crab_ip_tail crab_ip_tail(__u16 check, __be32 saddr, __be32 daddr)
{
    return (struct crab_ip_tail){.check_to_daddr = check | (__u64)saddr << 16 | (__u64)daddr << 48,
                                 .daddr_end = daddr >> 16};
}

/* The TCP checksum's part of an address that changes: it covers the pseudo header. */
static __always_inline int crab_tcp_sum(struct __sk_buff *skb, struct crab_packet *p, __be32 from, __be32 to)
{
    return bpf_l4_csum_replace(skb, p->l4 + __builtin_offsetof(struct tcphdr, check), from, to,
                               BPF_F_PSEUDO_HDR | sizeof(to));
}

/*
 * Put to in the place of from, which stands at offset at; TCP's pseudo header follows. Checksum and addresses
 * of IP lie together: every packet of a connection comes by here, and one write costs half of two.
 */
static __always_inline int crab_set_addr(struct __sk_buff *skb, struct crab_packet *p, __u32 at, __be32 from, __be32 to)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct iphdr *ip = data + ETH_HLEN;

    if ((void *)(ip + 1) > end) {
        return -1;
    }
    struct crab_ip_tail fresh = crab_ip_tail(crab_ip_sum(ip->check, from, to), at == CRAB_IP_SADDR ? to : ip->saddr,
                                             at == CRAB_IP_DADDR ? to : ip->daddr);
    if (crab_tcp_sum(skb, p, from, to)) {
        return -1;
    }
    return bpf_skb_store_bytes(skb, CRAB_IP_CHECK, &fresh, CRAB_IP_TAIL, 0);
}

/* The destination and the next hop of the frame together, in one write. */
CRAB_PART int crab_set_daddr_and_hop(struct __sk_buff *skb, struct crab_packet *p, __be32 *to, const __u8 *hop)
{
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct iphdr *ip = data + ETH_HLEN;
    struct {
        __u64 front[3]; /* Ethernet's header, and IP's up to the checksum */
        struct crab_ip_tail tail;
    } fresh;

    if ((void *)(ip + 1) > end) {
        return -1;
    }
    __builtin_memcpy(fresh.front, __builtin_assume_aligned(data, 8), sizeof(fresh.front));
    __builtin_memcpy(fresh.front, hop, ETH_ALEN);
    fresh.tail = crab_ip_tail(crab_ip_sum(ip->check, p->daddr, *to), ip->saddr, *to);
    if (crab_tcp_sum(skb, p, p->daddr, *to)) {
        return -1;
    }
    return bpf_skb_store_bytes(skb, 0, &fresh, CRAB_IP_CHECK + CRAB_IP_TAIL, 0);
}

/* Account for more bytes behind the IP header. */
static __always_inline int crab_grow_ip(struct __sk_buff *skb, struct crab_packet *p, const __u32 more)
{
    __be16 old_len = bpf_htons(p->length), new_len = bpf_htons(p->length + more);

    return bpf_l3_csum_replace(skb, CRAB_IP_CHECK, old_len, new_len, 2) ||
           bpf_skb_store_bytes(skb, CRAB_IP_LEN, &new_len, 2, 0);
}

/* A router's duty (C-23); without it a VIP that is announced by mistake would make packets circle. */
static __always_inline int crab_age(struct __sk_buff *skb)
{
    __be16 old, fresh;

    if (bpf_skb_load_bytes(skb, CRAB_IP_TTL, &old, 2) || (bpf_ntohs(old) >> 8) <= 1) {
        return -1;
    }
    fresh = bpf_htons(bpf_ntohs(old) - 0x0100);
    return bpf_l3_csum_replace(skb, CRAB_IP_CHECK, old, fresh, 2) ||
           bpf_skb_store_bytes(skb, CRAB_IP_TTL, &fresh, 2, 0);
}
