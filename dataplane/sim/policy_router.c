// SPDX-License-Identifier: Apache-2.0
// The software router without packets: shipped policy, shipped load index, central FIFO, and a worker
// that is a recursion on the time it is free again.
#include <stdlib.h>

#include "buffers.h"
#include "policy_model.h"
#include "policy_notices.h"
#include "router/policy.h"

struct engine {
    const struct sim_policy_model *m;
    const struct sim_job *job;
    uint64_t *sojourn;
    struct sim_policy_counts *counts;
    const struct bt_balancer *balancer;
    struct bt_load load;
    struct sim_notices notices;
    struct worker {
        uint64_t free_at;
        uint32_t outstanding; /* as the router counts: sent − told done */
    } *worker;
    bool lost;               /* the patience has ended */
    size_t held_first, held; /* the FIFO: held jobs from held_first on, dropped ones between them not counted */
};

static void start(struct engine *e)
{
    const struct sim_policy_model *m = e->m;
    struct bt_rng choice;
    sim_stream_seed(&choice, m->seed, SIM_STREAM_CHOICE);
    e->balancer = &bt_balancers[m->policy];
    e->worker = sim_zeroed(m->workers * sizeof *e->worker);
    bt_load_init(&e->load, bt_rng_next(&choice));
    bt_load_bound(&e->load, e->balancer->bounded);
    for (uint32_t w = 0; w < m->workers; w++) {
        bt_load_set(&e->load, w, 0, m->depth);
    }
    sim_notices_init(&e->notices, m->workers);
}

static void stop(struct engine *e)
{
    sim_notices_free(&e->notices);
    free(e->worker);
}

static inline void dispatch(struct engine *e, size_t i, uint32_t w, uint64_t now)
{
    const struct sim_policy_path *path = &e->m->path;
    struct worker *worker = &e->worker[w];
    uint64_t ready = now + path->dispatch_ns + path->confirm_ns;
    uint64_t begin = ready > worker->free_at ? ready : worker->free_at;
    worker->free_at = begin + e->job[i].service_ns + e->m->overhead_ns;
    e->sojourn[i] = worker->free_at + path->reply_ns - e->job[i].arrival_ns;
    e->lost |= sim_policy_impatient(e->m, e->counts, i, e->sojourn[i]);
    sim_notices_push(&e->notices, w, worker->free_at + path->feedback_ns);
    if (++worker->outstanding > e->counts->most_outstanding) {
        e->counts->most_outstanding = worker->outstanding;
    }
    bt_load_push(&e->load, w);
}

/* The oldest held job that was not dropped. */
static size_t take_held(struct engine *e)
{
    while (e->sojourn[e->held_first] == SIM_POLICY_DROPPED) {
        e->held_first++;
    }
    e->held--;
    return e->held_first++;
}

/* A FEEDBACK came: its worker has a credit more, and what is held may leave. */
static inline void heard(struct engine *e)
{
    uint64_t now = sim_notices_next(&e->notices);
    uint32_t w = sim_notices_pop(&e->notices);
    bt_load_move(&e->load, w, --e->worker[w].outstanding);
    while (e->held > 0) {
        uint32_t to = e->balancer->pick(&e->load);
        if (to == BT_NO_WORKER) {
            return;
        }
        dispatch(e, take_held(e), to, now);
    }
}

static inline void decide(struct engine *e, size_t i, uint64_t now)
{
    uint32_t w = e->held == 0 ? e->balancer->pick(&e->load) : BT_NO_WORKER; /* nobody overtakes */
    if (w != BT_NO_WORKER) {
        dispatch(e, i, w, now);
        return;
    }
    if (e->m->central_limit != 0 && e->held >= e->m->central_limit) {
        e->sojourn[i] = SIM_POLICY_DROPPED;
        e->counts->dropped++;
        return;
    }
    e->sojourn[i] = 0;
    if (e->held++ == 0) {
        e->held_first = i;
    }
    e->counts->held++;
    if (e->held > e->counts->most_held) {
        e->counts->most_held = e->held;
    }
}

void sim_policy_router(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                       struct sim_policy_counts *counts)
{
    struct engine e = {.m = m, .job = job, .sojourn = sojourn_ns, .counts = counts};
    uint64_t router_free = 0;
    start(&e);
    size_t i = 0;
    for (; i < n && !e.lost; i++) {
        uint64_t now = job[i].arrival_ns + m->path.client_router_ns;
        if (m->path.router_ns != 0) {
            now = (now > router_free ? now : router_free) + m->path.router_ns;
            router_free = now;
        }
        while (sim_notices_next(&e.notices) <= now) { /* FEEDBACK first */
            heard(&e);
        }
        decide(&e, i, now);
    }
    while (e.held > 0 && !e.lost) {
        heard(&e);
    }
    while (e.held > 0) {
        sojourn_ns[take_held(&e)] = SIM_POLICY_DROPPED;
    }
    for (; i < n; i++) {
        sojourn_ns[i] = SIM_POLICY_DROPPED;
    }
    stop(&e);
}
