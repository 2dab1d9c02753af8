// SPDX-License-Identifier: Apache-2.0
// Runs independent items on several processes; a run that crashes loses itself, not the sweep.
#ifndef BOBTAIL_SIM_PARALLEL_H
#define BOBTAIL_SIM_PARALLEL_H

#include <stddef.h>
#include <stdint.h>

/* Computes item i into result (zeroed, plain data, no pointers that outlive the process). */
typedef void sim_item_fn(const void *ctx, uint32_t i, void *result);

/* Items 0…n−1, each with a result of `size` bytes. */
struct sim_items {
    uint32_t n;
    size_t size;
    sim_item_fn *fn;
    const void *ctx;
};

/*
 * Runs the items with up to `jobs` processes and collects their results in `results`
 * (n·size bytes). signals[i] (may be NULL) is 0 or the signal that killed item i; -1: not run.
 * Returns the number of items that crashed or were not run, or -1 when no process could be started.
 * The processes end with the caller's, however that ends.
 */
int sim_parallel(unsigned jobs, const struct sim_items *items, void *results, int *signals);

/* Zeroed memory that forked processes share; NULL when there is none. */
void *sim_shared(size_t bytes);

#endif
