/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which addresses this host may have to balance, told at a glance. Every packet that is the balancer's business is
 * sent to such an address: a client's, a relayed server's, and an error about what came from there. On most nodes there
 * is none, and everywhere most packets are to others: those pass before anything is parsed.
 *
 * An address is a bit, which others may share: they are looked at as well. The agent sets the bit before the role of a
 * VIP, and takes it away when nobody has the role and nothing that was begun in it is left
 * (operator/internal/redirect/balanced.go). Common to both families.
 */
#ifndef CRAB_BALANCED_H
#define CRAB_BALANCED_H

#include "crab_skb.h"

#define CRAB_BALANCED_SHIFT 12 /* 4096 bits: 16 addresses make one other in 256 be looked at */
#define CRAB_BALANCED_WORDS ((1 << CRAB_BALANCED_SHIFT) / 64)

struct crab_balanced {
    __u64 word[CRAB_BALANCED_WORDS];
};

CRAB_MAP(BPF_MAP_TYPE_ARRAY, crab_balanced, __u32, struct crab_balanced, 1);

#ifdef CRAB_SIX

#define CRAB_GLANCE ETH_P_IPV6

static __always_inline __u32 crab_short_name(const void *addr)
{
    __u32 h = CRAB_AT(__u32, addr, 0) * 31 + CRAB_AT(__u32, addr, 4);

    return (h * 31 + CRAB_AT(__u32, addr, 8)) * 31 + CRAB_AT(__u32, addr, 12);
}

#else

#define CRAB_GLANCE ETH_P_IP

static __always_inline __u32 crab_short_name(const void *addr)
{
    return CRAB_AT(__u32, addr, 0);
}

#endif

/* It is to nobody we balance. What this says no to has to be parsed. */
static __always_inline int crab_for_others(struct __sk_buff *skb)
{
    const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    __u32 zero = 0;

    if (CRAB_RARELY(skb->protocol != bpf_htons(CRAB_GLANCE) || data + CRAB_IP_DADDR + sizeof(crab_addr) > end)) {
        return 0;
    }
    __u32 bit = crab_short_name(data + CRAB_IP_DADDR) * 0x9e3779b1U >> (32 - CRAB_BALANCED_SHIFT);
    struct crab_balanced *b = bpf_map_lookup_elem(&crab_balanced, &zero);
    return b && !(b->word[bit / 64] >> bit % 64 & 1);
}

#endif
