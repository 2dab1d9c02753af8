// SPDX-License-Identifier: Apache-2.0
// Poisson arrivals, whose rate changes when there are bursts, exponential service of 10 µs, one request at a time per
// worker (see trace.h).
#include "trace.h"

#include <math.h>
#include <string.h>

#define SERVICE_PS 10e6
#define LOAD       0.95
#define CALM       0.4 /* with BURST as long as that, 0.95 */
#define BURST      1.5
#define PHASE_PS   UINT64_C(52000000)
#define START_PS   (UINT64_C(1000000000) * 1000)

static uint64_t exponential(struct trace *t, double mean)
{
    return 1 + (uint64_t)(-mean * log(1.0 - bt_rng_unit(&t->rng)));
}

static uint64_t phase_of(uint64_t ps)
{
    return (ps - START_PS) / PHASE_PS;
}

static double load_at(const struct trace *t, uint64_t ps)
{
    if (!t->bursts) {
        return LOAD;
    }
    return phase_of(ps) % 2 == 0 ? CALM : BURST;
}

/* What has not come when the rate changes comes at the new rate: waiting has no memory. */
static void arrive_later(struct trace *t)
{
    uint64_t from = t->ps;
    for (;;) {
        uint64_t change = START_PS + (phase_of(from) + 1) * PHASE_PS;
        t->next_arrival = from + exponential(t, SERVICE_PS / (load_at(t, from) * t->workers));
        if (!t->bursts || t->next_arrival <= change) {
            return;
        }
        from = change;
    }
}

static void move(struct trace *t, uint64_t ps)
{
    t->ps = ps;
    t->now = ps / 1000;
}

void trace_open(struct trace *t, uint32_t workers, bool bursts, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    bt_rng_seed(&t->rng, seed);
    t->workers = workers;
    t->bursts = bursts;
    move(t, START_PS);
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
    for (; i > 0 && earlier(t, i, (i - 1) / 2); i = (i - 1) / 2) {
        swap(t, i, (i - 1) / 2);
    }
}

static void sift_down(struct trace *t)
{
    for (uint32_t i = 0, least = 0;; i = least) {
        for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < t->heap_n; child++) {
            least = earlier(t, child, least) ? child : least;
        }
        if (least == i) {
            return;
        }
        swap(t, i, least);
    }
}

static void start(struct trace *t, uint32_t w)
{
    t->done_at[w] = t->ps + exponential(t, SERVICE_PS);
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
        move(t, t->next_arrival);
        arrive_later(t);
        return false;
    }
    uint32_t w = *worker = t->heap[0];
    move(t, t->done_at[w]);
    if (--t->queued[w] > 0) {
        start(t, w);
    } else {
        t->heap[0] = t->heap[--t->heap_n];
    }
    sift_down(t);
    return true;
}
