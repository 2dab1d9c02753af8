/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The short way of a packet whose connection has a recent answer (crab_recent.h): nothing is parsed, the frame's
 * words are compared with the answer's, and all that changes is written at once, from the first byte to TCP's checksum.
 *
 * How that checksum changes depends on whether the device has still to finish it. That is in the kernel's own
 * sk_buff, which is read through its type information (CO-RE). A kernel without it, and a packet whose device has
 * summed all of it (CHECKSUM_COMPLETE: that sum must follow), take the helper that knows.
 */
#ifndef CRAB_QUICK_H
#define CRAB_QUICK_H

#include "crab_recent.h"

/* This packet has to be parsed. */
#define CRAB_SLOW -2

#ifdef CRAB_SIX

#define crab_quick(skb, way, with_hop, reason) CRAB_SLOW
#define crab_is_nothing(skb, way)              0

#else

#include <bpf/bpf_core_read.h>

#define CRAB_SUM_COMPLETE 2 /* enum of the kernel's skbuff.h */
#define CRAB_SUM_PARTIAL  3

/* The one field we read; the loader finds where it is. */
struct sk_buff___crab {
    __u8 ip_summed : 2;
} __attribute__((preserve_access_index));

/* What the loader knows of it: BYTE_OFFSET, BYTE_SIZE, LSHIFT_U64, RSHIFT_U64. */
#define CRAB_KERNEL_FIELD(kernel, what)                                                                                \
    __builtin_preserve_field_info(((const struct sk_buff___crab *)(kernel))->ip_summed, BPF_FIELD_##what)

void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

static __always_inline __u32 crab_summed(struct __sk_buff *skb)
{
    if (!bpf_cast_to_kern_ctx) {
        return CRAB_SUM_COMPLETE;
    }
    const void *kernel = bpf_cast_to_kern_ctx(skb);
    if (CRAB_KERNEL_FIELD(kernel, BYTE_SIZE) != 1) {
        return CRAB_SUM_COMPLETE; /* not as we know it: the helper is always right */
    }
    __u64 byte = *(const __u8 *)(kernel + CRAB_KERNEL_FIELD(kernel, BYTE_OFFSET));
    return byte << CRAB_KERNEL_FIELD(kernel, LSHIFT_U64) >> CRAB_KERNEL_FIELD(kernel, RSHIFT_U64);
}

/* The frame's first bytes, up to TCP's checksum. */
struct crab_head {
    __u64 word[6];
    __u32 window_check;
};

#define CRAB_HEAD_SIZE  52
#define CRAB_HEAD_TAIL  3 /* the word that begins with IP's checksum; nothing before it changes but the hop */
#define CRAB_TCP_CHECK  50
#define CRAB_HEAD_FRAME 54 /* what must be there: Ethernet, IP and TCP without options */

static __always_inline __u32 crab_quick_slot(const void *frame, enum crab_direction way)
{
    return way == CRAB_OUT ? crab_port_slot(CRAB_AT(__be32, frame, 26), CRAB_AT(__be16, frame, 34))
                           : crab_port_slot(CRAB_AT(__be32, frame, 30), CRAB_AT(__be16, frame, 36));
}

/* Whether the maps knew nothing of this packet's connection, in this epoch and moment. */
static __always_inline int crab_quick_nothing(const void *frame, enum crab_direction way)
{
    __u32 slot = crab_quick_slot(frame, way);
    struct crab_nothing *n = crab_nothing_entry(slot, way);

    return n && n->addrs == CRAB_AT(__u64, frame, 26) && n->ports == CRAB_AT(__u32, frame, 34) &&
           n->seen == crab_recent_time(0) && n->epoch == crab_slot_epoch(slot);
}

/* The same of any packet. */
static __always_inline int crab_is_nothing(struct __sk_buff *skb, enum crab_direction way)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

    return data + CRAB_HEAD_FRAME <= end && crab_goes_on(data) && crab_quick_nothing(data, way);
}

/* What was kept for this packet, when it is from this epoch and moment. */
static __always_inline struct crab_recent *crab_quick_answer(const void *frame, enum crab_direction way, int with_hop)
{
    __u32 slot = crab_quick_slot(frame, way);
    struct crab_recent *r = crab_recent_entry(slot, way);

    if (CRAB_LIKELY(r && r->addrs == CRAB_AT(__u64, frame, 26) && r->ports == CRAB_AT(__u32, frame, 34) &&
                    r->seen == crab_recent_time(with_hop) && r->epoch == crab_slot_epoch(slot))) {
        return r;
    }
    return NULL;
}

/* The other address into what was read, and IP's checksum. */
static __always_inline void crab_quick_rewrite(struct crab_head *h, const struct crab_recent *r,
                                               enum crab_direction way)
{
    __u16 check = (__u16)~crab_sum_add((__u16)~h->word[3], r->change);

    if (way == CRAB_OUT) {
        h->word[3] = check | (h->word[3] & 0xffffffff0000ULL) | (__u64)r->to << 48;
        h->word[4] = (h->word[4] & ~0xffffULL) | r->to >> 16;
    } else {
        h->word[3] = check | (__u64)r->to << 16 | (h->word[3] & 0xffffULL << 48);
    }
}

/* Write the frame's head, or only what IP ends with, up to size. */
static __always_inline int crab_quick_store(struct __sk_buff *skb, const struct crab_head *h, int with_hop,
                                            const __u32 size)
{
    const __u32 from = with_hop ? 0 : 8 * CRAB_HEAD_TAIL;

    if (CRAB_RARELY(bpf_skb_store_bytes(skb, from, (const void *)h + from, size - from, 0))) {
        return crab_write_failed();
    }
    return CRAB_NEXT;
}

/* Translate a packet that has an answer and count it, let one pass of which nothing is known; CRAB_SLOW: the maps have
 * to be asked, and it is as it was. */
static __always_inline int crab_quick(struct __sk_buff *skb, enum crab_direction way, int with_hop, __u32 reason)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct crab_head h;

    if (CRAB_RARELY(data + CRAB_HEAD_FRAME > end || !crab_goes_on(data))) {
        return CRAB_SLOW;
    }
    struct crab_recent *r = crab_quick_answer(data, way, with_hop);
    if (CRAB_RARELY(!r)) {
        return crab_quick_nothing(data, way) ? CRAB_NEXT : CRAB_SLOW;
    }
    for (int i = with_hop ? 0 : CRAB_HEAD_TAIL; i < 6; i++) {
        h.word[i] = CRAB_AT(__u64, data, 8 * i);
    }
    h.window_check = CRAB_AT(__u32, data, 48);
    __be32 from = CRAB_AT(__be32, data, way == CRAB_OUT ? 30 : 26);
    crab_quick_rewrite(&h, r, way);
    if (with_hop) {
        __builtin_memcpy(&h, r->hop, ETH_ALEN);
    }
    crab_count(reason);
    __u32 summed = crab_summed(skb);
    if (CRAB_LIKELY(summed != CRAB_SUM_COMPLETE)) {
        __u16 turn = summed == CRAB_SUM_PARTIAL ? 0 : 0xffff; /* unfinished: the sum of the pseudo header itself */
        __u16 check = crab_sum_add((__u16)(h.window_check >> 16) ^ turn, r->change) ^ turn;
        h.window_check = (__u16)h.window_check | (__u32)check << 16;
        return crab_quick_store(skb, &h, with_hop, CRAB_HEAD_SIZE);
    }
    if (bpf_l4_csum_replace(skb, CRAB_TCP_CHECK, from, r->to, BPF_F_PSEUDO_HDR | sizeof(from))) {
        return crab_write_failed();
    }
    return crab_quick_store(skb, &h, with_hop, CRAB_IP_DADDR + 4);
}

#endif

#endif
