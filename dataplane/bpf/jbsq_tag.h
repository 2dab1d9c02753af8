/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Tags of control packets: SipHash-2-4 over the packet's header, options
 * and control payload with the tag itself zero, and both endpoints. Lengths are
 * constants here, so that everything stands in registers and on the stack.
 */
#ifndef JBSQ_TAG_H
#define JBSQ_TAG_H

#include <linux/types.h>
#include <bpf/bpf_endian.h>

#include "router/delegation_layout.h"

#define JBSQ_TAG 12 /* bytes of the option; the tag is the last 8 */

struct jbsq_sip {
    __u64 v0, v1, v2, v3;
};

static __always_inline __u64 jbsq_turn(__u64 x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static __always_inline void jbsq_sip_round(struct jbsq_sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = jbsq_turn(s->v1, 13) ^ s->v0;
    s->v3 = jbsq_turn(s->v3, 16) ^ s->v2;
    s->v0 = jbsq_turn(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = jbsq_turn(s->v1, 17) ^ s->v2;
    s->v3 = jbsq_turn(s->v3, 21) ^ s->v0;
    s->v2 = jbsq_turn(s->v2, 32);
}

static __always_inline void jbsq_sip_word(struct jbsq_sip *s, __u64 word)
{
    s->v3 ^= word;
    jbsq_sip_round(s);
    jbsq_sip_round(s);
    s->v0 ^= word;
}

#define JBSQ_SIP_WORDS_MOST 11

/*
 * Of 8 or 11 whole words, a constant; as little-endian numbers, which is how they lie in memory here. Without a loop:
 * the stack may not be indexed by a loader without CAP_PERFMON.
 */
static __always_inline __u64 jbsq_siphash(const __u64 *at, int words, const struct bt_delegation_key *key)
{
    __u64 k0 = key->half[0], k1 = key->half[1];
    struct jbsq_sip s = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                         k1 ^ 0x7465646279746573};
    jbsq_sip_word(&s, at[0]);
    jbsq_sip_word(&s, at[1]);
    jbsq_sip_word(&s, at[2]);
    jbsq_sip_word(&s, at[3]);
    jbsq_sip_word(&s, at[4]);
    jbsq_sip_word(&s, at[5]);
    jbsq_sip_word(&s, at[6]);
    jbsq_sip_word(&s, at[7]);
    if (words == JBSQ_SIP_WORDS_MOST) {
        jbsq_sip_word(&s, at[8]);
        jbsq_sip_word(&s, at[9]);
        jbsq_sip_word(&s, at[10]);
    }
    jbsq_sip_word(&s, (__u64)words * 8 << 56);
    s.v2 ^= 0xff;
    jbsq_sip_round(&s);
    jbsq_sip_round(&s);
    jbsq_sip_round(&s);
    jbsq_sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* The two endpoints as they stand under a tag. */
struct jbsq_ends {
    __u64 zero0;
    __u16 zero1, ones1;
    __be32 from;
    __be16 from_port;
    __u16 zero2[5], ones2;
    __be32 to;
    __be16 to_port;
} __attribute__((packed));

static __always_inline void jbsq_fill_ends(struct jbsq_ends *e, __be32 from, __be16 from_port, __be32 to,
                                           __be16 to_port)
{
    __builtin_memset(e, 0, sizeof(*e));
    e->ones1 = e->ones2 = 0xffff;
    e->from = from;
    e->from_port = from_port;
    e->to = to;
    e->to_port = to_port;
}

#endif
