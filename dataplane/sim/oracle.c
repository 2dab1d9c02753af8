// SPDX-License-Identifier: Apache-2.0
// Reference models without packets, credits or timers; integer ns, so equality can be exact.
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t *free_times(unsigned k)
{
    uint64_t *f = calloc(k, sizeof *f);
    if (f == NULL) {
        fprintf(stderr, "bobtail-sim: out of memory for %u workers\n", k);
        abort();
    }
    return f;
}

/* Restores the heap after the root grew: the root is the worker that is free first. */
static void sift_root(uint64_t *f, unsigned k)
{
    uint64_t x = f[0];
    unsigned i = 0;
    for (;;) {
        unsigned c = 2 * i + 1;
        if (c >= k) {
            break;
        }
        if (c + 1 < k && f[c + 1] < f[c]) {
            c++;
        }
        if (f[c] >= x) {
            break;
        }
        f[i] = f[c];
        i = c;
    }
    f[i] = x;
}

void sim_oracle_central(const struct sim_job *jobs, size_t n, unsigned k, uint64_t *sojourn_ns)
{
    uint64_t *f = free_times(k);
    for (size_t i = 0; i < n; i++) {
        uint64_t start = f[0] > jobs[i].arrival_ns ? f[0] : jobs[i].arrival_ns;
        f[0] = start + jobs[i].service_ns;
        sojourn_ns[i] = f[0] - jobs[i].arrival_ns;
        sift_root(f, k);
    }
    free(f);
}

void sim_oracle_partitioned(const struct sim_job *jobs, const uint16_t *choice, size_t n, unsigned k,
                            uint64_t *sojourn_ns)
{
    uint64_t *f = free_times(k);
    for (size_t i = 0; i < n; i++) {
        uint64_t *w = &f[choice[i] % k];
        uint64_t start = *w > jobs[i].arrival_ns ? *w : jobs[i].arrival_ns;
        *w = start + jobs[i].service_ns;
        sojourn_ns[i] = *w - jobs[i].arrival_ns;
    }
    free(f);
}
