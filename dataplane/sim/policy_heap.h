// SPDX-License-Identifier: Apache-2.0
// Jobs by a key, the smallest first and of equal ones the earlier arrival.
#ifndef BOBTAIL_SIM_POLICY_HEAP_H
#define BOBTAIL_SIM_POLICY_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct sim_heap_item {
    uint64_t key;
    uint32_t job;
};

struct sim_heap {
    struct sim_heap_item *v; /* v[0]: the first; NULL when nothing was ever in it */
    size_t n, cap;
};

void sim_heap_push(struct sim_heap *h, uint64_t key, uint32_t job);
/* Takes the first; there is one. Returns its job. */
uint32_t sim_heap_pop(struct sim_heap *h);
void sim_heap_free(struct sim_heap *h);

#endif
