// SPDX-License-Identifier: Apache-2.0
// See laedge.h. Replicas are few, so that what is sought among them is sought one by one.
#include "laedge.h"

#include <string.h>

const char *sim_laedge_judge(enum sim_laedge_mode mode, uint32_t replicas, uint32_t capacity)
{
    if ((unsigned)mode >= SIM_LAEDGE_MODES) {
        return "mode must be Off, LoadAware, Cleanup, Preemptive or Idealized";
    }
    if (replicas < 1 || replicas > SIM_LAEDGE_REPLICAS_MAX) {
        return "replicas must be 1..16";
    }
    if (capacity == 0 || (capacity & (capacity - 1)) != 0) {
        return "capacity of the queue must be a power of two";
    }
    return NULL;
}

void sim_laedge_init(struct sim_laedge *h, enum sim_laedge_mode mode, uint32_t replicas, uint64_t *queue,
                     uint32_t capacity, uint64_t seed)
{
    memset(h, 0, sizeof *h);
    h->mode = mode;
    h->replicas = replicas;
    h->idle = (UINT32_C(1) << replicas) - 1;
    h->queue = queue;
    h->mask = capacity - 1;
    bt_rng_seed(&h->rng, seed);
}

/* --- the two things that are done to a replica ------------------------------------------------------------------ */

static void start(struct sim_laedge *h, uint32_t at, uint64_t request, uint64_t now, struct sim_laedge_steps *out)
{
    h->idle &= ~(UINT32_C(1) << at);
    h->replica[at] = (struct sim_laedge_replica){.request = request, .started = now, .twin = SIM_LAEDGE_NONE};
    h->stats.starts++;
    out->step[out->n++] = (struct sim_laedge_step){.request = request, .replica = at};
}

/* A hedged request for what runs, alone, at `of`. */
static void start_copy(struct sim_laedge *h, uint32_t at, uint32_t of, uint64_t now, struct sim_laedge_steps *out)
{
    start(h, at, h->replica[of].request, now, out);
    out->step[out->n - 1].copy = true;
    h->replica[at].twin = of;
    h->replica[of].twin = at;
    h->stats.copies++;
}

static void release(struct sim_laedge *h, uint32_t at)
{
    h->idle |= UINT32_C(1) << at;
}

static void cancel(struct sim_laedge *h, uint32_t at, struct sim_laedge_steps *out)
{
    release(h, at);
    out->step[out->n++] = (struct sim_laedge_step){.request = h->replica[at].request, .replica = at, .cancel = true};
}

/* --- choices ----------------------------------------------------------------------------------------------------- */

static bool is_idle(const struct sim_laedge *h, uint32_t at)
{
    return (h->idle >> at & 1) != 0;
}

/* One of the idle replicas, there is one, each as likely. */
static uint32_t any_idle(struct sim_laedge *h)
{
    uint32_t left = h->idle;
    uint32_t skip = bt_rng_below(&h->rng, (uint32_t)__builtin_popcount(left));
    while (skip-- > 0) {
        left &= left - 1;
    }
    return (uint32_t)__builtin_ctz(left);
}

/* Where the request runs that has waited longest with one copy and no answer: the one most probably stuck. */
static uint32_t oldest_single(const struct sim_laedge *h)
{
    uint32_t best = SIM_LAEDGE_NONE;
    for (uint32_t i = 0; i < h->replicas; i++) {
        const struct sim_laedge_replica *r = &h->replica[i];
        if (is_idle(h, i) || r->stale || r->twin != SIM_LAEDGE_NONE) {
            continue;
        }
        if (best == SIM_LAEDGE_NONE || r->started < h->replica[best].started) {
            best = i;
        }
    }
    return best;
}

/* How gladly the copy at `at` is given up, next to its live twin: the one that started last, or, for whoever
 * sees the future, the one that lasts longest beyond its twin. */
static int64_t weight_of(const struct sim_laedge *h, uint32_t at)
{
    const struct sim_laedge_replica *r = &h->replica[at];
    return (int64_t)(h->mode == SIM_LAEDGE_IDEALIZED ? r->ends - h->replica[r->twin].ends : r->started);
}

/* The live twin to give up, or SIM_LAEDGE_NONE; among equals, each as likely. */
static uint32_t victim(struct sim_laedge *h)
{
    uint32_t best = SIM_LAEDGE_NONE, equals = 0;
    for (uint32_t i = 0; i < h->replicas; i++) {
        if (is_idle(h, i) || h->replica[i].twin == SIM_LAEDGE_NONE) {
            continue;
        }
        int64_t more = best == SIM_LAEDGE_NONE ? 1 : weight_of(h, i) - weight_of(h, best);
        equals = more > 0 ? 1 : more == 0 ? equals + 1 : equals;
        if (more > 0 || (more == 0 && bt_rng_below(&h->rng, equals) == 0)) {
            best = i;
        }
    }
    return best;
}

/* --- the queue --------------------------------------------------------------------------------------------------- */

static bool enqueue(struct sim_laedge *h, uint64_t request)
{
    if (h->queued > h->mask) {
        return false;
    }
    h->queue[(h->head + h->queued++) & h->mask] = request;
    return true;
}

static uint64_t dequeue(struct sim_laedge *h)
{
    uint64_t request = h->queue[h->head];
    h->head = (h->head + 1) & h->mask;
    h->queued--;
    return request;
}

/* --- arrivals ---------------------------------------------------------------------------------------------------- */

static void arrive_idle(struct sim_laedge *h, uint64_t request, uint64_t now, struct sim_laedge_steps *out)
{
    uint32_t first = any_idle(h);
    start(h, first, request, now, out);
    if (h->mode != SIM_LAEDGE_OFF && h->idle != 0) {
        start_copy(h, any_idle(h), first, now, out);
    }
}

bool sim_laedge_arrive(struct sim_laedge *h, uint64_t request, uint64_t now, struct sim_laedge_steps *out)
{
    out->n = 0;
    if (h->idle != 0) {
        arrive_idle(h, request, now, out);
    } else {
        uint32_t at = h->mode >= SIM_LAEDGE_PREEMPTIVE ? victim(h) : SIM_LAEDGE_NONE;
        if (at != SIM_LAEDGE_NONE) {
            h->replica[h->replica[at].twin].twin = SIM_LAEDGE_NONE;
            h->stats.preemptions++;
            cancel(h, at, out);
            start(h, at, request, now, out);
        } else if (!enqueue(h, request)) {
            h->stats.refused++;
            return false;
        }
    }
    h->stats.arrivals++;
    return true;
}

/* --- replies ----------------------------------------------------------------------------------------------------- */

/* A replica is free: the head of the queue, or else a hedged request for what has run longest. */
static void refill(struct sim_laedge *h, uint32_t at, uint64_t now, struct sim_laedge_steps *out)
{
    if (h->queued > 0) {
        start(h, at, dequeue(h), now, out);
        return;
    }
    uint32_t of = h->mode != SIM_LAEDGE_OFF ? oldest_single(h) : SIM_LAEDGE_NONE;
    if (of != SIM_LAEDGE_NONE) {
        start_copy(h, at, of, now, out);
    }
}

/* Two replicas are free. One request waiting: what runs alone elsewhere is older, and gets its copy first. */
static void refill_both(struct sim_laedge *h, uint32_t at, uint32_t twin, uint64_t now, struct sim_laedge_steps *out)
{
    uint32_t of = h->queued == 1 ? oldest_single(h) : SIM_LAEDGE_NONE;
    if (of != SIM_LAEDGE_NONE) {
        start(h, twin, dequeue(h), now, out);
        start_copy(h, at, of, now, out);
        return;
    }
    refill(h, at, now, out); /* waiting alone with nothing else to copy, it is what the other one copies */
    refill(h, twin, now, out);
}

enum sim_laedge_reply sim_laedge_respond(struct sim_laedge *h, uint32_t replica, uint64_t request, uint64_t now,
                                         struct sim_laedge_steps *out)
{
    out->n = 0;
    if (replica >= h->replicas || is_idle(h, replica) || h->replica[replica].request != request) {
        h->stats.unknown++;
        return SIM_LAEDGE_UNKNOWN;
    }
    uint32_t twin = h->replica[replica].twin;
    bool late = h->replica[replica].stale;
    h->stats.late += late;
    h->stats.first += !late;
    release(h, replica);
    if (twin != SIM_LAEDGE_NONE && h->mode >= SIM_LAEDGE_CLEANUP) {
        h->stats.cleanups++;
        cancel(h, twin, out);
        refill_both(h, replica, twin, now, out);
        return SIM_LAEDGE_FIRST;
    }
    if (twin != SIM_LAEDGE_NONE) {
        h->replica[twin].stale = true;
        h->replica[twin].twin = SIM_LAEDGE_NONE;
    }
    refill(h, replica, now, out);
    return late ? SIM_LAEDGE_LATE : SIM_LAEDGE_FIRST;
}
