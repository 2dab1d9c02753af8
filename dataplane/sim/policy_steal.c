// SPDX-License-Identifier: Apache-2.0
// Work stealing inside one server (spec ix-zygos.md, model Q5 and its variant with interrupts): a request arrives at a
// random home core. An idle home core runs it; otherwise it waits in that core's NIC queue. A core that finishes makes
// its NIC queue visible, runs its own oldest request, and else takes the oldest visible one of a random other core.
// With interrupts an idle core gets what waits in a NIC queue at once. The overhead per request is the model's.
#include <stdlib.h>

#include "buffers.h"
#include "policy_model.h"
#include "policy_notices.h"

struct core {
    uint32_t *queue; /* ring of jobs, oldest at head; the first `visible` may be stolen */
    uint32_t head, n, visible, cap;
};

struct engine {
    const struct sim_policy_model *m;
    const struct sim_job *job;
    uint64_t *sojourn;
    struct sim_policy_counts *counts;
    struct sim_notices running; /* when each busy core finishes */
    struct core *core;
    uint16_t *idle; /* idle cores, in no order */
    uint16_t *place;
    uint32_t idle_n;
    struct bt_rng choice;
};

static void start(struct engine *e)
{
    uint32_t k = e->m->workers;
    sim_notices_init(&e->running, k);
    sim_stream_seed(&e->choice, e->m->seed, SIM_STREAM_CHOICE);
    e->core = sim_zeroed(k * sizeof *e->core);
    e->idle = sim_zeroed(k * sizeof *e->idle);
    e->place = sim_zeroed(k * sizeof *e->place);
    for (uint32_t c = 0; c < k; c++) {
        e->core[c].cap = 64;
        e->core[c].queue = sim_zeroed(64 * sizeof(uint32_t));
        e->idle[e->idle_n++] = (uint16_t)c;
        e->place[c] = (uint16_t)c;
    }
}

static void stop(struct engine *e)
{
    for (uint32_t c = 0; c < e->m->workers; c++) {
        free(e->core[c].queue);
    }
    sim_notices_free(&e->running);
    free(e->core);
    free(e->idle);
    free(e->place);
}

static bool is_idle(const struct engine *e, uint32_t c)
{
    return e->place[c] < e->idle_n && e->idle[e->place[c]] == c;
}

static void wake(struct engine *e, uint32_t c)
{
    uint16_t last = e->idle[--e->idle_n];
    e->idle[e->place[c]] = last;
    e->place[last] = e->place[c];
}

static void sleep_core(struct engine *e, uint32_t c)
{
    e->place[c] = (uint16_t)e->idle_n;
    e->idle[e->idle_n++] = (uint16_t)c;
}

static void enqueue(struct core *c, uint32_t job)
{
    if (c->n == c->cap) {
        uint32_t *bigger = sim_zeroed((size_t)c->cap * 2 * sizeof *bigger);
        for (uint32_t i = 0; i < c->n; i++) {
            bigger[i] = c->queue[(c->head + i) & (c->cap - 1u)];
        }
        free(c->queue);
        c->queue = bigger;
        c->head = 0;
        c->cap *= 2;
    }
    c->queue[(c->head + c->n++) & (c->cap - 1u)] = job;
}

static uint32_t dequeue(struct core *c)
{
    uint32_t job = c->queue[c->head];
    c->head = (c->head + 1u) & (c->cap - 1u);
    c->n--;
    c->visible -= c->visible > 0;
    return job;
}

static void run(struct engine *e, uint32_t c, uint32_t i, uint64_t now)
{
    uint64_t end = now + e->m->overhead_ns + e->job[i].service_ns;
    e->sojourn[i] = end + e->m->path.reply_ns - e->job[i].arrival_ns;
    sim_notices_push(&e->running, c, end);
}

/* The first core with something to take, beginning at a random one (Z-24). */
static uint32_t victim(struct engine *e)
{
    uint32_t k = e->m->workers, c = bt_rng_below(&e->choice, k);
    for (uint32_t tried = 0; tried < k; tried++) {
        if (e->core[c].visible > 0 || (e->m->interrupts && e->core[c].n > 0)) {
            return c;
        }
        c = c + 1u < k ? c + 1u : 0;
    }
    return UINT32_MAX;
}

static void steal(struct engine *e, uint32_t thief, uint32_t from, uint64_t now)
{
    e->counts->stolen++;
    run(e, thief, dequeue(&e->core[from]), now);
}

static void finished(struct engine *e, uint64_t now)
{
    uint32_t c = sim_notices_pop(&e->running);
    struct core *own = &e->core[c];
    own->visible = own->n;
    if (own->n > 0) {
        run(e, c, dequeue(own), now);
    } else {
        uint32_t from = victim(e);
        if (from == UINT32_MAX) {
            sleep_core(e, c);
            return;
        }
        steal(e, c, from, now);
    }
    while (own->visible > 0 && e->idle_n > 0) {
        uint32_t thief = e->idle[bt_rng_below(&e->choice, e->idle_n)];
        wake(e, thief);
        steal(e, thief, c, now);
    }
}

static void arrive(struct engine *e, uint32_t i, uint64_t now)
{
    uint32_t home = bt_rng_below(&e->choice, e->m->workers);
    if (is_idle(e, home)) {
        wake(e, home);
        run(e, home, i, now);
        return;
    }
    enqueue(&e->core[home], i);
    if (e->m->interrupts && e->idle_n > 0) {
        uint32_t thief = e->idle[bt_rng_below(&e->choice, e->idle_n)];
        wake(e, thief);
        steal(e, thief, home, now);
    }
}

void sim_policy_steal(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                      struct sim_policy_counts *counts)
{
    struct engine e = {.m = m, .job = job, .sojourn = sojourn_ns, .counts = counts};
    start(&e);
    for (size_t i = 0; i < n; i++) {
        uint64_t now = job[i].arrival_ns + m->path.client_server_ns;
        while (sim_notices_next(&e.running) <= now) {
            finished(&e, sim_notices_next(&e.running));
        }
        arrive(&e, (uint32_t)i, now);
    }
    while (sim_notices_next(&e.running) != SIM_NOTICE_NEVER) {
        finished(&e, sim_notices_next(&e.running));
    }
    stop(&e);
}
