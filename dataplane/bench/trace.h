// SPDX-License-Identifier: Apache-2.0
// The trace every router benchmark runs over: an M/M/k queue at load 0.95, the same on every machine. The benchmark
// says which worker takes a request; the trace says when requests come and when workers finish.
#ifndef BOBTAIL_BENCH_TRACE_H
#define BOBTAIL_BENCH_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

#define TRACE_WORKERS_MAX 1024u

struct trace {
    struct bt_rng rng;
    uint32_t workers;
    uint64_t now; /* ns */
    uint64_t next_arrival;
    uint32_t queued[TRACE_WORKERS_MAX];       /* requests at the worker, the one in execution included */
    uint64_t done_at[TRACE_WORKERS_MAX];      /* when a busy worker finishes */
    uint32_t heap[TRACE_WORKERS_MAX], heap_n; /* busy workers, the first to finish in front */
};

/* What happens next: a request arrives (false), or *worker finishes one (true). now moves there. */
void trace_open(struct trace *t, uint32_t workers, uint64_t seed);
bool trace_next(struct trace *t, uint32_t *worker);

/* Worker w was given a request now. */
void trace_give(struct trace *t, uint32_t w);

#endif
