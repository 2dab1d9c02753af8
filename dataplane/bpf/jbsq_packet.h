/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * UDP over IPv4 as the socket layer would take it: reading, and the checksums it
 * would verify. Nothing here changes a packet.
 */
#ifndef JBSQ_PACKET_H
#define JBSQ_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define JBSQ_IP      ETH_HLEN
#define JBSQ_UDP     (ETH_HLEN + 20)
#define JBSQ_R2P2    (JBSQ_UDP + 8)
#define JBSQ_ROOM    2048 /* bytes of a packet that are ever copied */
#define JBSQ_AT_ONCE 512  /* bytes one call of bpf_csum_diff sums up on every kernel */

/*
 * n, which is 1 to most (a power of two), said so that every verifier believes it. What older ones know of a number is
 * lost where the compiler compares a copy of it, and a helper's size must be known; Linux 6.12 is such a one for a
 * loader without CAP_PERFMON.
 */
#define JBSQ_SIZE(n, most)                                                                                             \
    ({                                                                                                                 \
        __u64 size_ = (n);                                                                                             \
        asm volatile("" : "+r"(size_));                                                                                \
        ((size_ - 1) & ((most) - 1)) + 1;                                                                              \
    })

struct jbsq_packet {
    struct iphdr ip;
    struct udphdr udp;
    __u32 l4; /* bytes of UDP header and payload */
};

struct jbsq_room {
    __u8 byte[JBSQ_ROOM];
};

static __always_inline __u16 jbsq_fold(__s64 sum)
{
    __u64 s = (__u64)sum;
    s = (s & 0xffffffff) + (s >> 32);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    return (__u16)((s & 0xffff) + (s >> 16));
}

/* What UDP's checksum covers apart from the datagram. */
static __always_inline __s64 jbsq_pseudo(__be32 from, __be32 to, __u32 l4)
{
    __be32 word[3] = {from, to, bpf_htonl((IPPROTO_UDP << 16) + l4)};
    return bpf_csum_diff(0, 0, word, sizeof(word), 0);
}

/* An unfragmented UDP datagram without IP options for us, whole. */
static __always_inline int jbsq_parse(struct __sk_buff *skb, struct jbsq_packet *p)
{
    if (skb->protocol != bpf_htons(ETH_P_IP) || skb->pkt_type != PACKET_HOST) {
        return 0;
    }
    if ((void *)(long)skb->data + JBSQ_R2P2 > (void *)(long)skb->data_end && bpf_skb_pull_data(skb, JBSQ_R2P2)) {
        return 0;
    }
    void *data = (void *)(long)skb->data;
    if (data + JBSQ_R2P2 > (void *)(long)skb->data_end) {
        return 0;
    }
    __builtin_memcpy(&p->ip, data + JBSQ_IP, sizeof(p->ip));
    __builtin_memcpy(&p->udp, data + JBSQ_UDP, sizeof(p->udp));
    p->l4 = bpf_ntohs(p->udp.len);
    return p->ip.version == 4 && p->ip.ihl == 5 && p->ip.protocol == IPPROTO_UDP &&
           !(p->ip.frag_off & bpf_htons(0x3fff)) && bpf_ntohs(p->ip.tot_len) == p->l4 + sizeof(struct iphdr) &&
           p->l4 >= sizeof(struct udphdr) && JBSQ_UDP + p->l4 <= skb->len && p->l4 < JBSQ_ROOM - JBSQ_AT_ONCE;
}

/* The datagram's own sum, by pieces. The room behind it is cleared, since sums are of whole words. */
static __always_inline int jbsq_sum_holds(struct __sk_buff *skb, const struct jbsq_packet *p, struct jbsq_room *room,
                                          __s64 sum)
{
    __u32 l4 = p->l4 & (JBSQ_ROOM - 1);
    if (l4 == 0 || l4 > JBSQ_ROOM - JBSQ_AT_ONCE ||
        bpf_skb_load_bytes(skb, JBSQ_UDP, room->byte, JBSQ_SIZE(l4, JBSQ_ROOM))) {
        return 0;
    }
    *(__u32 *)(room->byte + (l4 & ~3u)) &= bpf_htonl(~(0xffffffffu >> 8 * (l4 & 3)));
    for (__u32 at = 0; at < JBSQ_ROOM - JBSQ_AT_ONCE; at += JBSQ_AT_ONCE) {
        __u32 left = at < l4 ? (l4 - at + 3) & ~3u : 0;
        left = left < JBSQ_AT_ONCE ? left : JBSQ_AT_ONCE;
        if (left == 0) {
            break;
        }
        sum = bpf_csum_diff(0, 0, (__be32 *)(room->byte + at), JBSQ_SIZE(left, JBSQ_AT_ONCE), (__u32)sum);
    }
    return jbsq_fold(sum) == 0xffff;
}

/*
 * Both checksums, as the socket path would verify them further on. UDP's may be absent, already verified by the device,
 * or not yet complete (of a sender on this host): then it is the sum of the pseudo header so far.
 */
static __always_inline int jbsq_intact(struct __sk_buff *skb, const struct jbsq_packet *p, struct jbsq_room *room)
{
    struct iphdr ip = p->ip;
    if (jbsq_fold(bpf_csum_diff(0, 0, (__be32 *)&ip, sizeof(ip), 0)) != 0xffff) {
        return 0;
    }
    if (p->udp.check == 0 || bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0) {
        return 1;
    }
    __s64 pseudo = jbsq_pseudo(ip.saddr, ip.daddr, p->l4);
    return jbsq_fold(pseudo) == p->udp.check || jbsq_sum_holds(skb, p, room, pseudo);
}

#endif
