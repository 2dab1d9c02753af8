/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which IP a program is for. One text makes both: without CRAB_SIX the IPv4
 * programs, which must not pay for the other family, with it those for IPv6, on
 * maps of their own (same names, "6" behind them) whose addresses have 16 bytes.
 * Counters, and what the node is told of itself (crab_meta), are common.
 */
#ifndef CRAB_FAMILY_H
#define CRAB_FAMILY_H

#include <linux/types.h>

#define CRAB_INLINE static inline __attribute__((always_inline))

#ifdef CRAB_SIX

struct crab_in6 {
    __be32 word[4];
};
typedef struct crab_in6 crab_addr;

/* A function of its own, with a stack frame of its own: 16-byte addresses fill 512 bytes soon. */
#define CRAB_PART        static __attribute__((noinline, unused))
#define CRAB_NAME(name)  name##6
#define crab_vips        crab_vips6
#define crab_pools       crab_pools6
#define crab_syns        crab_syns6
#define crab_loads       crab_loads6
#define crab_rr          crab_rr6
#define crab_rr_cpu      crab_rr_cpu6
#define crab_prefixes    crab_prefixes6
#define crab_pending     crab_pending6
#define crab_connects    crab_connects6
#define crab_fallen      crab_fallen6
#define crab_flows_out   crab_flows_out6
#define crab_flows_in    crab_flows_in6
#define crab_opening     crab_opening6
#define crab_dsr         crab_dsr6
#define crab_later       crab_later6
#define crab_allowed     crab_allowed6
#define crab_relays      crab_relays6
#define crab_relays_back crab_relays_back6
#define crab_watched     crab_watched6
#define crab_conns       crab_conns6
#define crab_errors      crab_errors6
#define crab_tunnels     crab_tunnels6
#define crab_tun_ends    crab_tun_ends6

CRAB_INLINE int crab_addr_same(crab_addr a, crab_addr b)
{
    return ((a.word[0] ^ b.word[0]) | (a.word[1] ^ b.word[1]) | (a.word[2] ^ b.word[2]) | (a.word[3] ^ b.word[3])) == 0;
}

CRAB_INLINE int crab_addr_none(crab_addr a)
{
    return (a.word[0] | a.word[1] | a.word[2] | a.word[3]) == 0;
}

#else

typedef __be32 crab_addr;

#define CRAB_PART       CRAB_INLINE
#define CRAB_NAME(name) name

CRAB_INLINE int crab_addr_same(crab_addr a, crab_addr b)
{
    return a == b;
}

CRAB_INLINE int crab_addr_none(crab_addr a)
{
    return a == 0;
}

#endif

CRAB_INLINE __u32 crab_mix(__u32 h, __u32 v)
{
    h ^= v;
    h *= 0x85ebca6b;
    h ^= h >> 13;
    h *= 0xc2b2ae35;
    return h ^ h >> 16;
}

/* The words as they lie in memory: balancers of one VIP are of one byte order. */
CRAB_INLINE __u32 crab_mix_addr(__u32 h, crab_addr a)
{
#ifdef CRAB_SIX
    h = crab_mix(h, a.word[0]);
    h = crab_mix(h, a.word[1]);
    h = crab_mix(h, a.word[2]);
    return crab_mix(h, a.word[3]);
#else
    return crab_mix(h, a);
#endif
}

#endif
