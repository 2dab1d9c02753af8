/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A plain request on its way to a worker: longer by the option that names its
 * client and perhaps a tag, from the router's address to the worker's. The packet grows at
 * its end and its payload moves, because a sum that is not complete yet is
 * completed from the place where the UDP header stood.
 */
#ifndef JBSQ_REWRITE_H
#define JBSQ_REWRITE_H

#include "jbsq_packet.h"
#include "jbsq_tag.h"

#define JBSQ_HEADER 8 /* of R2P2 */
#define JBSQ_OPTION 8

/* Behind the Ethernet header, in this order. */
struct jbsq_front {
    struct iphdr ip;
    struct udphdr udp;
    __u8 r2p2[JBSQ_HEADER];
    __u8 kind, size; /* the option */
    __be16 port;
    __be32 client;
    __u8 tag_kind, tag_size, key_id, tag_flags; /* from here on only where the service has a key */
    __u64 tag;
} __attribute__((packed));

struct jbsq_way {
    __be32 from, to;
    __be16 from_port, to_port;
    struct bt_delegation_key key; /* id 0: none, no tag */
};

/* So many bytes are put in. */
static __always_inline __u64 jbsq_more(const struct jbsq_way *way)
{
    return way->key.id ? JBSQ_OPTION + JBSQ_TAG : JBSQ_OPTION;
}

static __always_inline void jbsq_fill(struct jbsq_front *f, const struct jbsq_packet *p, const struct jbsq_way *way)
{
    f->ip = p->ip;
    f->ip.tot_len = bpf_htons(p->l4 + jbsq_more(way) + sizeof(f->ip));
    f->ip.ttl = 64;
    f->ip.saddr = way->from;
    f->ip.daddr = way->to;
    f->ip.check = 0;
    struct iphdr ip = f->ip;
    f->ip.check = (__u16)~jbsq_fold(bpf_csum_diff(0, 0, (__be32 *)&ip, sizeof(ip), 0));
    f->udp.source = way->from_port;
    f->udp.dest = way->to_port;
    f->udp.len = bpf_htons(p->l4 + jbsq_more(way));
    f->udp.check = p->udp.check;
    f->kind = 1;
    f->size = JBSQ_OPTION;
    f->port = p->udp.source;
    f->client = p->ip.saddr;
    f->tag_kind = 2;
    f->tag_size = JBSQ_TAG;
    f->key_id = way->key.id;
    f->tag_flags = 0;
    f->tag = 0;
}

/* bt_tag_short of a request that has nothing but the two options. */
static __always_inline void jbsq_sign(struct jbsq_front *f, const struct jbsq_way *way)
{
    struct {
        __u8 head[JBSQ_HEADER + JBSQ_OPTION + JBSQ_TAG];
        struct jbsq_ends ends;
    } __attribute__((packed)) under;
    __u64 word[sizeof(under) / 8];
    _Static_assert(sizeof(under) == 64 && sizeof(word) == 64, "whole words");
    __builtin_memcpy(under.head, f->r2p2, sizeof(under.head));
    jbsq_fill_ends(&under.ends, way->from, way->from_port, way->to, way->to_port);
    __builtin_memcpy(word, &under, sizeof(word));
    f->tag = jbsq_siphash(word, 8, &way->key);
}

/* What changes in the datagram, and around it: the helper knows which of the two its sum covers by now. */
static __always_inline int jbsq_mend_sum(struct __sk_buff *skb, const struct jbsq_packet *p, const struct jbsq_front *f,
                                         const __u8 *r2p2, const struct jbsq_way *way)
{
    __be32 was[3], is[8] = {};
    __builtin_memcpy(was, &p->udp, 8);
    __builtin_memcpy(was + 2, r2p2, 4);
    __builtin_memcpy(is, &f->udp, 8);
    __builtin_memcpy(is + 2, f->r2p2, 4);
    __builtin_memcpy(is + 3, &f->kind, JBSQ_OPTION);
    if (way->key.id) {
        __builtin_memcpy(is + 5, &f->tag_kind, JBSQ_TAG);
    }
    ((__be16 *)was)[3] = 0; /* the sum itself */
    ((__be16 *)is)[3] = 0;
    __s64 own = bpf_csum_diff(was, sizeof(was), is, sizeof(is), 0);
    __be32 around_was[3] = {p->ip.saddr, p->ip.daddr, bpf_htonl(p->l4)};
    __be32 around_is[3] = {f->ip.saddr, f->ip.daddr, bpf_htonl(p->l4 + jbsq_more(way))};
    __s64 around = bpf_csum_diff(around_was, sizeof(around_was), around_is, sizeof(around_is), 0);
    const __u32 at = JBSQ_UDP + __builtin_offsetof(struct udphdr, check);
    return bpf_l4_csum_replace(skb, at, 0, (__u32)own, BPF_F_MARK_MANGLED_0) == 0 &&
           bpf_l4_csum_replace(skb, at, 0, (__u32)around, BPF_F_MARK_MANGLED_0 | BPF_F_PSEUDO_HDR) == 0;
}

static __always_inline int jbsq_store(struct __sk_buff *skb, const struct jbsq_front *f, const struct jbsq_way *way)
{
    return way->key.id ? bpf_skb_store_bytes(skb, JBSQ_IP, f, sizeof(*f), 0) == 0
                       : bpf_skb_store_bytes(skb, JBSQ_IP, f, sizeof(*f) - JBSQ_TAG, 0) == 0;
}

/* False: the packet is of no use any more. */
static __always_inline int jbsq_rewrite(struct __sk_buff *skb, const struct jbsq_packet *p, const __u8 *r2p2,
                                        const struct jbsq_way *way, struct jbsq_room *room)
{
    struct jbsq_front f;
    __u64 body = p->l4 - sizeof(struct udphdr) - JBSQ_HEADER, more = jbsq_more(way);
    jbsq_fill(&f, p, way);
    __builtin_memcpy(f.r2p2, r2p2, JBSQ_HEADER);
    f.r2p2[1] = JBSQ_HEADER + more;
    if (way->key.id) {
        jbsq_sign(&f, way);
    }
    if (body != 0 && bpf_skb_load_bytes(skb, JBSQ_R2P2 + JBSQ_HEADER, room->byte, JBSQ_SIZE(body, JBSQ_ROOM))) {
        return 0;
    }
    if (bpf_skb_change_tail(skb, JBSQ_UDP + p->l4 + more, 0)) {
        return 0;
    }
    if (!jbsq_store(skb, &f, way)) {
        return 0;
    }
    if (body != 0 &&
        bpf_skb_store_bytes(skb, JBSQ_R2P2 + JBSQ_HEADER + more, room->byte, JBSQ_SIZE(body, JBSQ_ROOM), 0)) {
        return 0;
    }
    return jbsq_mend_sum(skb, p, &f, r2p2, way);
}

#endif
