// SPDX-License-Identifier: Apache-2.0
// A switch pipeline (switch_pipeline.h) under the policy simulation's load: passes take time, and share a recirculation
// port that bounds the queue. What goes round is the queue, and the second passes of FEEDBACK.
#include <stdlib.h>

#include "buffers.h"
#include "policy_model.h"
#include "policy_notices.h"
#include "switch_pipeline.h"

enum { LIFE = 1 }; /* nobody restarts */

/* What goes round: a request, or a change of a worker's credits. */
struct loop {
    uint64_t at; /* its next pass */
    uint32_t job, worker;
    int32_t delta; /* 0: a request */
    struct sim_pipeline_loop request;
};

struct engine {
    const struct sim_policy_model *m;
    const struct sim_job *job;
    uint64_t *sojourn;
    struct sim_policy_counts *counts;
    struct sim_notices notices;
    uint64_t *free_at;
    struct sim_pipeline pipeline;
    struct sim_pipeline_worker *worker;
    uint32_t *served;
    bool lost;         /* the patience has ended */
    struct loop *ring; /* in order of `at`: every pass takes equally long */
    size_t head, n, cap;
    size_t requests;    /* of those in the ring */
    uint64_t port_free; /* the recirculation port takes the next packet */
};

/* Nothing is lost, late or restarted here: a FEEDBACK tells of one more that was served. */
static int32_t report(struct engine *e, uint32_t w)
{
    int32_t delta = 0;
    struct sim_pipeline_report r = {e->m->depth, LIFE, e->served[w], e->served[w], false};
    sim_pipeline_report(&e->pipeline, 0, w, &r, &delta);
    return delta;
}

static void start(struct engine *e)
{
    const struct sim_policy_model *m = e->m;
    struct sim_pipeline_config c = {.workers = m->workers,
                                    .depth = m->depth,
                                    .group = m->pipeline.group,
                                    .limit = m->central_limit != 0 ? m->central_limit : UINT32_MAX,
                                    .patience = INT32_MAX,
                                    .loss = INT32_MAX};
    sim_notices_init(&e->notices, m->workers);
    e->free_at = sim_zeroed(m->workers * sizeof *e->free_at);
    e->served = sim_zeroed(m->workers * sizeof *e->served);
    e->worker = sim_zeroed(m->workers * sizeof *e->worker);
    sim_pipeline_init(&e->pipeline, &c, e->worker);
    for (uint32_t w = 0; w < m->workers; w++) {
        sim_pipeline_credit(&e->pipeline, w, LIFE, report(e, w));
    }
    e->cap = 64;
    e->ring = sim_zeroed(e->cap * sizeof *e->ring);
}

static void stop(struct engine *e)
{
    sim_notices_free(&e->notices);
    free(e->free_at);
    free(e->served);
    free(e->worker);
    free(e->ring);
}

static void dispatch(struct engine *e, size_t i, uint32_t w, uint64_t now)
{
    const struct sim_policy_path *path = &e->m->path;
    uint64_t ready = now + path->dispatch_ns + path->confirm_ns;
    uint64_t begin = ready > e->free_at[w] ? ready : e->free_at[w];
    e->free_at[w] = begin + e->job[i].service_ns + e->m->overhead_ns;
    e->sojourn[i] = e->free_at[w] + path->reply_ns - e->job[i].arrival_ns;
    e->lost |= sim_policy_impatient(e->m, e->counts, i, e->sojourn[i]);
    sim_notices_push(&e->notices, w, e->free_at[w] + path->feedback_ns);
    uint64_t outstanding = e->m->depth - (uint64_t)(int64_t)e->worker[w].credits;
    if (outstanding > e->counts->most_outstanding) {
        e->counts->most_outstanding = outstanding;
    }
}

static void recirculate(struct engine *e, struct loop p)
{
    if (e->n == e->cap) {
        struct loop *bigger = sim_zeroed(e->cap * 2 * sizeof *bigger);
        for (size_t i = 0; i < e->n; i++) {
            bigger[i] = e->ring[(e->head + i) & (e->cap - 1)];
        }
        free(e->ring);
        e->ring = bigger;
        e->head = 0;
        e->cap *= 2;
    }
    p.at += e->m->pipeline.pass_ns;
    p.at = p.at > e->port_free ? p.at : e->port_free;
    e->port_free = p.at + e->m->pipeline.gap_ns;
    e->ring[(e->head + e->n++) & (e->cap - 1)] = p;
    e->requests += p.delta == 0;
    if (e->pipeline.held > e->counts->most_held) {
        e->counts->most_held = e->pipeline.held;
    }
}

/* W-3: a FEEDBACK sets what was served; its second pass goes round. */
static void heard(struct engine *e)
{
    uint64_t at = sim_notices_next(&e->notices);
    uint32_t w = sim_notices_pop(&e->notices);
    e->served[w]++;
    recirculate(e, (struct loop){.at = at, .worker = w, .delta = report(e, w)});
}

static void drop(struct engine *e, size_t job)
{
    e->sojourn[job] = SIM_POLICY_DROPPED;
    e->counts->dropped++;
}

/* What came round passes again. */
static void pass(struct engine *e, struct loop p)
{
    if (p.delta != 0) {
        sim_pipeline_credit(&e->pipeline, p.worker, LIFE, p.delta);
        return;
    }
    e->requests--;
    uint32_t w = sim_pipeline_again(&e->pipeline, 0, &p.request);
    if (w == SIM_PIPELINE_WAITS) {
        e->counts->passes++;
        recirculate(e, p);
    } else if (w == SIM_PIPELINE_FULL) {
        drop(e, p.job);
    } else {
        dispatch(e, p.job, w, p.at);
    }
}

/* Everything that happens up to and including now: FEEDBACK before a pass of the same instant. */
static void advance(struct engine *e, uint64_t now)
{
    for (;;) {
        uint64_t notice = sim_notices_next(&e->notices), turn = e->n > 0 ? e->ring[e->head].at : SIM_NOTICE_NEVER;
        if (notice > now && turn > now) {
            return;
        }
        if (notice <= turn) {
            heard(e);
            continue;
        }
        struct loop p = e->ring[e->head];
        e->head = (e->head + 1) & (e->cap - 1);
        e->n--;
        pass(e, p);
    }
}

void sim_policy_switch(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                       struct sim_policy_counts *counts)
{
    struct engine e = {.m = m, .job = job, .sojourn = sojourn_ns, .counts = counts};
    size_t i = 0;
    start(&e);
    for (; i < n && !e.lost; i++) {
        uint64_t now = job[i].arrival_ns + m->path.client_router_ns;
        advance(&e, now);
        struct loop p = {.at = now, .job = (uint32_t)i};
        uint32_t w = sim_pipeline_first(&e.pipeline, 0, &p.request);
        if (w != SIM_PIPELINE_WAITS) {
            dispatch(&e, i, w, now);
            continue;
        }
        counts->passes++;
        counts->held += p.request.admitted;
        recirculate(&e, p);
    }
    while (e.requests > 0 && !e.lost) {
        advance(&e, e.ring[e.head].at);
    }
    for (; e.n > 0; e.n--) {
        struct loop p = e.ring[e.head++ & (e.cap - 1)];
        if (p.delta == 0) {
            sojourn_ns[p.job] = SIM_POLICY_DROPPED;
        }
    }
    for (; i < n; i++) {
        sojourn_ns[i] = SIM_POLICY_DROPPED;
    }
    stop(&e);
}
