// SPDX-License-Identifier: Apache-2.0
// Poisson arrivals, exponential service of 10 µs, one request at a time per worker (see trace.h).
#include "trace.h"

#include <math.h>
#include <string.h>

#define SERVICE_NS 10000.0
#define LOAD       0.95

static uint64_t exponential(struct trace *t, double mean)
{
    return 1 + (uint64_t)(-mean * log(1.0 - bt_rng_unit(&t->rng)));
}

static void arrive_later(struct trace *t)
{
    t->next_arrival = t->now + exponential(t, SERVICE_NS / (LOAD * t->workers));
}

void trace_open(struct trace *t, uint32_t workers, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    bt_rng_seed(&t->rng, seed);
    t->workers = workers;
    t->now = UINT64_C(1000000000);
    arrive_later(t);
}

static void swap(struct trace *t, uint32_t i, uint32_t j)
{
    uint32_t w = t->heap[i];
    t->heap[i] = t->heap[j];
    t->heap[j] = w;
}

static bool earlier(const struct trace *t, uint32_t i, uint32_t j)
{
    return t->done_at[t->heap[i]] < t->done_at[t->heap[j]];
}

static void sift_up(struct trace *t, uint32_t i)
{
    for (; i > 0 && earlier(t, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(t, i, (i - 1) / 2);
}

static void sift_down(struct trace *t)
{
    for (uint32_t i = 0, least = 0;; i = least) {
        for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < t->heap_n; child++)
            least = earlier(t, child, least) ? child : least;
        if (least == i)
            return;
        swap(t, i, least);
    }
}

static void start(struct trace *t, uint32_t w)
{
    t->done_at[w] = t->now + exponential(t, SERVICE_NS);
}

void trace_give(struct trace *t, uint32_t w)
{
    if (t->queued[w]++ == 0) {
        start(t, w);
        t->heap[t->heap_n] = w;
        sift_up(t, t->heap_n++);
    }
}

bool trace_next(struct trace *t, uint32_t *worker)
{
    if (t->heap_n == 0 || t->next_arrival < t->done_at[t->heap[0]]) {
        t->now = t->next_arrival;
        arrive_later(t);
        return false;
    }
    uint32_t w = *worker = t->heap[0];
    t->now = t->done_at[w];
    if (--t->queued[w] > 0)
        start(t, w);
    else
        t->heap[0] = t->heap[--t->heap_n];
    sift_down(t);
    return true;
}
