// SPDX-License-Identifier: Apache-2.0
// The trace every router benchmark runs over: a queue with exponential service at load 0.95, the same on every machine.
// The benchmark says which worker takes a request; the trace says when requests come and when workers finish. Requests
// come at random, or in bursts: with many workers no request would ever wait if they came at random.
#ifndef BOBTAIL_BENCH_TRACE_H
#define BOBTAIL_BENCH_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

#define TRACE_WORKERS_MAX 1024u

struct trace {
    struct bt_rng rng;
    uint32_t workers;
    bool bursts;
    uint64_t now;          /* ns */
    uint64_t ps;           /* the same; 1,024 workers take a request every 10 ns, which whole ns would falsify */
    uint64_t next_arrival; /* ps */
    uint32_t queued[TRACE_WORKERS_MAX];       /* requests at the worker, the one in execution included */
    uint64_t done_at[TRACE_WORKERS_MAX];      /* ps, when a busy worker finishes */
    uint32_t heap[TRACE_WORKERS_MAX], heap_n; /* busy workers, the first to finish in front */
};

/* bursts: loads of 0.4 and 1.5 take turns, for long enough that every place at every worker is taken. */
void trace_open(struct trace *t, uint32_t workers, bool bursts, uint64_t seed);

/* What happens next: a request arrives (false), or *worker finishes one (true). now moves there. */
bool trace_next(struct trace *t, uint32_t *worker);

/* Worker w was given a request now. */
void trace_give(struct trace *t, uint32_t w);

#endif
