/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The maps all programs of a node share; pinned by name. Bounds marked (*) are set by the loader. */
#ifndef CRAB_MAPS_H
#define CRAB_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "crab_layout.h"

/* Keeps clang from moving a bound to a register the verifier does not look at. */
#define CRAB_OPAQUE(x) __asm__ volatile("" : "+r"(x))

/* Where the compiler puts what seldom runs: out of the way, since code that is not in the cache is what costs. */
#define CRAB_LIKELY(x) __builtin_expect(!!(x), 1)
#define CRAB_RARELY(x) __builtin_expect(!!(x), 0)

#define CRAB_MAP(kind, name, key_type, value_type, entries)                                                            \
    struct {                                                                                                           \
        __uint(type, kind);                                                                                            \
        __type(key, key_type);                                                                                         \
        __type(value, value_type);                                                                                     \
        __uint(max_entries, entries);                                                                                  \
        __uint(pinning, LIBBPF_PIN_BY_NAME);                                                                           \
    } name SEC(".maps")

/* A hash that is empty on most nodes and that only the agent writes: its entries take memory when they come. */
#define CRAB_MAP_SPARSE(name, key_type, value_type, entries)                                                           \
    struct {                                                                                                           \
        __uint(type, BPF_MAP_TYPE_HASH);                                                                               \
        __uint(map_flags, BPF_F_NO_PREALLOC);                                                                          \
        __type(key, key_type);                                                                                         \
        __type(value, value_type);                                                                                     \
        __uint(max_entries, entries);                                                                                  \
        __uint(pinning, LIBBPF_PIN_BY_NAME);                                                                           \
    } name SEC(".maps")

CRAB_MAP(BPF_MAP_TYPE_ARRAY, crab_meta, __u32, struct crab_meta, 1);
CRAB_MAP(BPF_MAP_TYPE_PERCPU_ARRAY, crab_counters, __u32, __u64, CRAB_COUNTERS);
CRAB_MAP(BPF_MAP_TYPE_HASH, crab_vips, struct crab_vip_key, struct crab_vip, CRAB_MAX_VIPS);

static __always_inline void crab_count(__u32 reason)
{
    __u64 *n = bpf_map_lookup_elem(&crab_counters, &reason);
    if (CRAB_LIKELY(n)) {
        *n += 1; /* per CPU; tc and XDP of one CPU do not interrupt each other */
    }
}

static __always_inline struct crab_vip *crab_vip_of(crab_addr addr, __be16 port)
{
    struct crab_vip_key key = {.addr = addr, .port = port};
    return bpf_map_lookup_elem(&crab_vips, &key);
}

#endif
