/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * State in LRU maps, with its births and deaths counted: a map does not tell whom it pushed out, so the agent finds
 * out by what was made, removed and expired, and what is left (operator/internal/redirect/evict.go).
 */
#ifndef CRAB_KEPT_H
#define CRAB_KEPT_H

#include "crab_maps.h"

/* Put an entry or replace it; made is counted when it is a new one. */
static __always_inline long crab_keep(void *map, const void *key, const void *value, __u32 made)
{
    if (bpf_map_update_elem(map, key, value, BPF_NOEXIST)) {
        return bpf_map_update_elem(map, key, value, BPF_ANY);
    }
    crab_count(made);
    return 0;
}

/* Remove an entry, if there is one; 0: there was, and removed is counted. */
static __always_inline long crab_drop(void *map, const void *key, __u32 removed)
{
    long ret = bpf_map_delete_elem(map, key);

    if (!ret) {
        crab_count(removed);
    }
    return ret;
}

#endif
