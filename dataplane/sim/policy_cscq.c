// SPDX-License-Identifier: Apache-2.0
// Cycle stealing with central queues: one server whose workers are dealt to two kinds of requests by the share
// of the work that each kind makes. Fast workers serve only fast requests; slow ones serve both, slow first, and so
// lend what they do not need. A fast worker may be idle while slow requests wait, never while a fast one does.
#include <stdlib.h>

#include "buffers.h"
#include "policy_model.h"
#include "policy_notices.h"

enum { FAST, SLOW, KINDS };

/* First come first served; jobs arrive in order, so an array that is never reused will do. */
struct fifo {
    uint32_t *job;
    size_t head, tail;
};

struct engine {
    const struct sim_policy_model *m;
    const struct sim_job *job;
    uint64_t *sojourn;
    struct sim_notices running;
    struct fifo waiting[KINDS];
    uint16_t *idle[KINDS]; /* by kind of worker; workers below `fast` are fast */
    uint32_t idle_n[KINDS], fast;
};

static void start(struct engine *e, size_t n)
{
    uint32_t k = e->m->workers;
    e->fast = (uint32_t)(k * sim_dist_short_work(&e->m->service) + 1e-9); /* */
    sim_notices_init(&e->running, k);
    for (int kind = 0; kind < KINDS; kind++) {
        e->waiting[kind].job = sim_zeroed(n * sizeof(uint32_t));
        e->idle[kind] = sim_zeroed(k * sizeof(uint16_t));
    }
    for (uint32_t w = 0; w < k; w++) {
        int kind = w < e->fast ? FAST : SLOW;
        e->idle[kind][e->idle_n[kind]++] = (uint16_t)w;
    }
}

static void stop(struct engine *e)
{
    sim_notices_free(&e->running);
    for (int kind = 0; kind < KINDS; kind++) {
        free(e->waiting[kind].job);
        free(e->idle[kind]);
    }
}

static void run(struct engine *e, uint32_t w, uint32_t i, uint64_t now)
{
    uint64_t end = now + e->m->overhead_ns + e->job[i].service_ns;
    e->sojourn[i] = end + e->m->path.reply_ns - e->job[i].arrival_ns;
    sim_notices_push(&e->running, w, end);
}

static bool run_next(struct engine *e, int kind, uint32_t w, uint64_t now)
{
    struct fifo *q = &e->waiting[kind];
    if (q->head == q->tail) {
        return false;
    }
    run(e, w, q->job[q->head++], now);
    return true;
}

static void finished(struct engine *e)
{
    uint64_t now = sim_notices_next(&e->running);
    uint32_t w = sim_notices_pop(&e->running);
    int kind = w < e->fast ? FAST : SLOW;
    if ((kind == SLOW && run_next(e, SLOW, w, now)) || run_next(e, FAST, w, now)) {
        return;
    }
    e->idle[kind][e->idle_n[kind]++] = (uint16_t)w;
}

static void arrive(struct engine *e, uint32_t i, uint64_t now, struct sim_policy_counts *counts)
{
    /* there are two service times, and their mean is between them */
    int kind = (double)e->job[i].service_ns < e->m->service.mean_ns ? FAST : SLOW;
    int at = kind == FAST && e->idle_n[FAST] > 0 ? FAST : SLOW; /* */
    if (e->idle_n[at] > 0) {
        run(e, e->idle[at][--e->idle_n[at]], i, now);
        return;
    }
    size_t held = 0;
    for (int k = 0; k < KINDS; k++) {
        held += e->waiting[k].tail - e->waiting[k].head;
    }
    if (e->m->central_limit != 0 && held >= e->m->central_limit) {
        e->sojourn[i] = SIM_POLICY_DROPPED;
        counts->dropped++;
        return;
    }
    e->waiting[kind].job[e->waiting[kind].tail++] = i;
    counts->held++;
    if (held + 1 > counts->most_held) {
        counts->most_held = held + 1;
    }
}

void sim_policy_cscq(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                     struct sim_policy_counts *counts)
{
    struct engine e = {.m = m, .job = job, .sojourn = sojourn_ns};
    start(&e, n);
    for (size_t i = 0; i < n; i++) {
        uint64_t now = job[i].arrival_ns + m->path.client_server_ns + m->path.confirm_ns;
        while (sim_notices_next(&e.running) <= now) {
            finished(&e);
        }
        arrive(&e, (uint32_t)i, now, counts);
    }
    while (sim_notices_next(&e.running) != SIM_NOTICE_NEVER) {
        finished(&e);
    }
    stop(&e);
}
