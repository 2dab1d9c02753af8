// SPDX-License-Identifier: Apache-2.0
// One server whose k workers share a queue that is not first come first served: SJF takes the shortest service,
// EDF the earliest deadline, which is five times the request's own service after its arrival. Service times are
// known beforehand, nobody is interrupted, and no worker is idle while a request waits.
#include <stdlib.h>

#include "buffers.h"
#include "policy_heap.h"
#include "policy_model.h"
#include "policy_notices.h"
#include "scenario.h"

struct engine {
    const struct sim_policy_model *m;
    const struct sim_job *job;
    uint64_t *sojourn;
    struct sim_notices running; /* when each busy worker finishes */
    struct sim_heap waiting;
    uint16_t *idle;
    uint32_t idle_n;
};

static void start(struct engine *e)
{
    sim_notices_init(&e->running, e->m->workers);
    e->idle = sim_zeroed(e->m->workers * sizeof *e->idle);
    for (uint32_t w = 0; w < e->m->workers; w++) {
        e->idle[e->idle_n++] = (uint16_t)w;
    }
}

static void stop(struct engine *e)
{
    sim_notices_free(&e->running);
    sim_heap_free(&e->waiting);
    free(e->idle);
}

static uint64_t key(const struct engine *e, uint32_t i)
{
    const struct sim_job *j = &e->job[i];
    return e->m->kind == SIM_POLICY_EDF ? j->arrival_ns + SIM_DEADLINE * j->service_ns : j->service_ns;
}

static void run(struct engine *e, uint32_t w, uint32_t i, uint64_t now)
{
    uint64_t end = now + e->m->overhead_ns + e->job[i].service_ns;
    e->sojourn[i] = end + e->m->path.reply_ns - e->job[i].arrival_ns;
    sim_notices_push(&e->running, w, end);
}

static void finished(struct engine *e)
{
    uint64_t now = sim_notices_next(&e->running);
    uint32_t w = sim_notices_pop(&e->running);
    if (e->waiting.n > 0) {
        run(e, w, sim_heap_pop(&e->waiting), now);
    } else {
        e->idle[e->idle_n++] = (uint16_t)w;
    }
}

static void arrive(struct engine *e, uint32_t i, uint64_t now, struct sim_policy_counts *counts)
{
    if (e->idle_n > 0) {
        run(e, e->idle[--e->idle_n], i, now);
        return;
    }
    if (e->m->central_limit != 0 && e->waiting.n >= e->m->central_limit) {
        e->sojourn[i] = SIM_POLICY_DROPPED;
        counts->dropped++;
        return;
    }
    sim_heap_push(&e->waiting, key(e, i), i);
    counts->held++;
    if (e->waiting.n > counts->most_held) {
        counts->most_held = e->waiting.n;
    }
}

void sim_policy_ordered(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                        struct sim_policy_counts *counts)
{
    struct engine e = {.m = m, .job = job, .sojourn = sojourn_ns};
    start(&e);
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
