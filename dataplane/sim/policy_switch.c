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
    int32_t delta;
    struct sim_pipeline_loop request;
};

/* In order of `at`: every pass takes equally long. */
struct ring {
    struct loop *p;
    size_t head, n, cap;
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
    bool lost; /* the patience has ended */
    /* The port's two queues: FEEDBACK goes first. */
    struct ring requests, credits;
    uint64_t port_free; /* the recirculation port takes the next request */
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
    e->requests = e->credits = (struct ring){.cap = 64};
    e->requests.p = sim_zeroed(e->requests.cap * sizeof *e->requests.p);
    e->credits.p = sim_zeroed(e->credits.cap * sizeof *e->credits.p);
}

static void stop(struct engine *e)
{
    sim_notices_free(&e->notices);
    free(e->free_at);
    free(e->served);
    free(e->worker);
    free(e->requests.p);
    free(e->credits.p);
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

static void push(struct ring *r, struct loop p)
{
    if (r->n == r->cap) {
        struct loop *bigger = sim_zeroed(r->cap * 2 * sizeof *bigger);
        for (size_t i = 0; i < r->n; i++) {
            bigger[i] = r->p[(r->head + i) & (r->cap - 1)];
        }
        free(r->p);
        *r = (struct ring){bigger, 0, r->n, r->cap * 2};
    }
    r->p[(r->head + r->n++) & (r->cap - 1)] = p;
}

static struct loop pop(struct ring *r)
{
    struct loop p = r->p[r->head];
    r->head = (r->head + 1) & (r->cap - 1);
    r->n--;
    return p;
}

static uint64_t next(const struct ring *r)
{
    return r->n > 0 ? r->p[r->head].at : SIM_NOTICE_NEVER;
}

/* A request goes round, behind those that do already. */
static void recirculate(struct engine *e, struct loop p)
{
    p.at += e->m->pipeline.pass_ns;
    p.at = p.at > e->port_free ? p.at : e->port_free;
    e->port_free = p.at + e->m->pipeline.gap_ns;
    push(&e->requests, p);
    if (e->pipeline.held > e->counts->most_held) {
        e->counts->most_held = e->pipeline.held;
    }
}

/* W-3: a FEEDBACK sets what was served; its second pass goes round, in front of the requests, which wait for it. */
static void heard(struct engine *e)
{
    uint64_t at = sim_notices_next(&e->notices) + e->m->pipeline.pass_ns;
    uint32_t w = sim_notices_pop(&e->notices);
    e->served[w]++;
    push(&e->credits, (struct loop){.at = at, .worker = w, .delta = report(e, w)});
    e->port_free += e->m->pipeline.gap_ns;
}

static void drop(struct engine *e, size_t job)
{
    e->sojourn[job] = SIM_POLICY_DROPPED;
    e->counts->dropped++;
}

/* The request that came round passes again. */
static void pass(struct engine *e)
{
    struct loop p = pop(&e->requests);
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

static void credit(struct engine *e)
{
    struct loop p = pop(&e->credits);
    sim_pipeline_credit(&e->pipeline, p.worker, LIFE, p.delta);
}

/* Everything that happens up to and including now: FEEDBACK before a request's pass of the same instant. */
static void advance(struct engine *e, uint64_t now)
{
    for (;;) {
        uint64_t notice = sim_notices_next(&e->notices), change = next(&e->credits), turn = next(&e->requests);
        uint64_t first = notice < change ? notice : change;
        if ((first < turn ? first : turn) > now) {
            return;
        }
        if (notice <= change && notice <= turn) {
            heard(e);
        } else if (change <= turn) {
            credit(e);
        } else {
            pass(e);
        }
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
    while (e.requests.n > 0 && !e.lost) {
        advance(&e, next(&e.requests));
    }
    while (e.requests.n > 0) {
        sojourn_ns[pop(&e.requests).job] = SIM_POLICY_DROPPED;
    }
    for (; i < n; i++) {
        sojourn_ns[i] = SIM_POLICY_DROPPED;
    }
    stop(&e);
}
