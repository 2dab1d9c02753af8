/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Whose connections fall back, and from which VIP: counters do not tell, and there are too many clients to count each.
 * The last few on each CPU are remembered, in a map whose entries need no room on the stack.
 */
#ifndef CRAB_FALLEN_H
#define CRAB_FALLEN_H

#include "crab_maps.h"

CRAB_MAP(BPF_MAP_TYPE_PERCPU_ARRAY, crab_fallen, __u32, struct crab_fallen, 1);

/* who dialled falls back, for that reason. */
static __always_inline void crab_fell_back(const struct crab_tuple *who, __u32 reason)
{
    __u32 zero = 0;
    struct crab_fallen *fallen = bpf_map_lookup_elem(&crab_fallen, &zero);

    crab_count(reason);
    if (!fallen) {
        return;
    }
    struct crab_fell *one = &fallen->last[fallen->next & (CRAB_FALLEN_KEPT - 1)];
    fallen->next += 1;
    one->at_ns = bpf_ktime_get_ns();
    one->who = *who;
    one->reason = reason;
}

#endif
