// SPDX-License-Identifier: Apache-2.0
// One run of a policy-only model: its trace, its engine, its figures.
#include "policy_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "router/policy.h"
#include "sample.h"
#include "sched/sched.h"

void sim_policy_defaults(struct sim_policy_model *m)
{
    *m = (struct sim_policy_model){
        .kind = SIM_POLICY_ROUTER,
        .policy = BT_ROUTER_JBSQ,
        .workers = 16,
        .depth = 2,
        .service = {SIM_DIST_EXPONENTIAL, 1e4, 1, 2, 4},
        .load = 0.5,
        .requests = 1000000,
        .warmup = 0.1,
        .seed = 1,
        .batch = 64,
        .pipeline = {.group = 16, .pass_ns = 500, .gap_ns = 7},
    };
}

static const char *refuse_service(const struct sim_policy_model *m)
{
    if (!(m->service.mean_ns >= 10 && m->service.mean_ns <= 1e10)) {
        return "mean must be 0.01 us to 10 s";
    }
    if ((m->service.kind == SIM_DIST_TRACE) != (m->times != NULL)) {
        return "a trace, and nothing else, needs its service times";
    }
    if (m->kind == SIM_POLICY_CSCQ && sim_dist_short_work(&m->service) <= 0) {
        return "CSCQ needs two kinds of requests: distribution bimodal1, bimodal2 or bimodal10";
    }
    return NULL;
}

static const char *refuse_server(const struct sim_policy_model *m)
{
    bool sched = m->kind == SIM_POLICY_RUN_TO_COMPLETION || m->kind == SIM_POLICY_WORK_STEALING;
    if (sched && (m->workers > BT_SCHED_CORES_MAX || m->batch < 1 || m->batch > BT_SCHED_BATCH_MAX)) {
        return "a server of src/sched has 1..64 cores (workers) and a batch of 1..1024";
    }
    return NULL;
}

const char *sim_policy_refuse(const struct sim_policy_model *m)
{
    if (m->workers < 1 || m->workers > SIM_POLICY_WORKERS_MAX) {
        return "workers must be 1..1024";
    }
    if (m->depth < 1 || m->depth > SIM_POLICY_DEPTH_MAX) {
        return "n must be 1..64 (R-117)";
    }
    if (m->kind >= SIM_POLICY_KINDS || m->policy >= BT_ROUTER_POLICIES) {
        return "policy is unknown";
    }
    if (!(m->load > 0 && m->load <= 10)) {
        return "load must be above 0 and at most 10";
    }
    if (m->requests < 1000 || m->requests > 100000000) {
        return "requests must be 1000..100000000";
    }
    if (m->kind == SIM_POLICY_SWITCH && (m->pipeline.group < 1 || m->pipeline.pass_ns < 1)) {
        return "a pipeline pass compares at least one server and takes at least 1 ns";
    }
    const char *why = refuse_server(m);
    return why != NULL ? why : refuse_service(m);
}

void sim_policy_jobs(const struct sim_policy_model *m, struct sim_job *job)
{
    struct bt_rng arrival, service;
    sim_stream_seed(&arrival, m->seed, SIM_STREAM_ARRIVAL);
    sim_stream_seed(&service, m->seed, SIM_STREAM_SERVICE);
    const struct sim_dist gap = {SIM_DIST_EXPONENTIAL, m->service.mean_ns / (m->workers * m->load), 0};
    uint64_t t = 0;
    for (uint64_t i = 0; i < m->requests; i++) {
        t += sim_dist_draw(&gap, &arrival);
        job[i] = (struct sim_job){t, m->times != NULL ? sim_times_draw(m->times, &service)
                                                      : sim_dist_draw(&m->service, &service)};
    }
}

/* The client draws a worker: a recursion for each. */
static void direct(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns)
{
    struct bt_rng choice;
    uint64_t *free_at = calloc(m->workers, sizeof *free_at);
    if (free_at == NULL) {
        abort();
    }
    sim_stream_seed(&choice, m->seed, SIM_STREAM_CHOICE);
    for (size_t i = 0; i < n; i++) {
        uint64_t *w = &free_at[bt_rng_below(&choice, m->workers)];
        uint64_t ready = job[i].arrival_ns + m->path.client_server_ns + m->path.confirm_ns;
        *w = (ready > *w ? ready : *w) + job[i].service_ns + m->overhead_ns;
        sojourn_ns[i] = *w + m->path.reply_ns - job[i].arrival_ns;
    }
    free(free_at);
}

void sim_policy_play(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                     struct sim_policy_counts *counts)
{
    *counts = (struct sim_policy_counts){0};
    switch (m->kind) {
    case SIM_POLICY_SWITCH:
        sim_policy_switch(m, job, n, sojourn_ns, counts);
        break;
    case SIM_POLICY_DIRECT:
        direct(m, job, n, sojourn_ns);
        break;
    case SIM_POLICY_CENTRAL:
        sim_oracle_central(job, n, m->workers, sojourn_ns);
        break;
    case SIM_POLICY_STEAL:
        sim_policy_steal(m, job, n, sojourn_ns, counts);
        break;
    case SIM_POLICY_RUN_TO_COMPLETION:
    case SIM_POLICY_WORK_STEALING:
        sim_policy_sched(m, job, n, sojourn_ns, counts);
        break;
    case SIM_POLICY_SJF:
    case SIM_POLICY_EDF:
        sim_policy_ordered(m, job, n, sojourn_ns, counts);
        break;
    case SIM_POLICY_CSCQ:
        sim_policy_cscq(m, job, n, sojourn_ns, counts);
        break;
    case SIM_POLICY_PS:
    case SIM_POLICY_DIRECT_PS:
        sim_policy_ps(m, job, n, sojourn_ns, counts);
        break;
    default:
        sim_policy_router(m, job, n, sojourn_ns, counts);
        break;
    }
}

/* A run's arrays: 24 bytes a request. */
struct trace {
    struct sim_job *job;
    uint64_t *sojourn;
};

static struct trace play(const struct sim_policy_model *m, struct sim_policy_counts *counts)
{
    struct trace t = {malloc(m->requests * sizeof *t.job), malloc(m->requests * sizeof *t.sojourn)};
    if (t.job == NULL || t.sojourn == NULL) {
        abort();
    }
    sim_policy_jobs(m, t.job);
    sim_policy_play(m, t.job, m->requests, t.sojourn, counts);
    return t;
}

static void release(struct trace *t)
{
    free(t->job);
    free(t->sojourn);
}

/* Answered in the window from the first measured arrival to the last one. */
static void rates(const struct sim_policy_model *m, const struct trace *t, uint64_t first,
                  struct sim_policy_result *out)
{
    uint64_t n = m->requests, from = t->job[first].arrival_ns, to = t->job[n - 1].arrival_ns, done = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t end = t->job[i].arrival_ns + t->sojourn[i];
        done += t->sojourn[i] != SIM_POLICY_DROPPED && end > from && end <= to;
    }
    double span = (double)(to - from);
    if (span <= 0) {
        return;
    }
    out->offered_rps = (double)(n - 1 - first) * 1e9 / span;
    out->achieved_rps = (double)done * 1e9 / span;
    out->throughput = out->achieved_rps * m->service.mean_ns / 1e9 / m->workers;
}

/* 95 % interval of the p99 from the p99 of consecutive batches, which are nearly independent: t(19) = 2.093. */
static double batch_error(const struct sim_samples *s)
{
    double sum = 0, square = 0;
    size_t each = s->n / SIM_POLICY_BATCHES;
    if (each < 100) {
        return NAN;
    }
    for (size_t b = 0; b < SIM_POLICY_BATCHES; b++) {
        struct sim_samples part = {s->v + b * each, each, each};
        double p99 = (double)sim_samples_percentile(&part, 99);
        sum += p99;
        square += p99 * p99;
    }
    double mean = sum / SIM_POLICY_BATCHES;
    double variance = (square - sum * mean) / (SIM_POLICY_BATCHES - 1);
    return 2.093 * sqrt((variance > 0 ? variance : 0) / SIM_POLICY_BATCHES);
}

void sim_policy_run(const struct sim_policy_model *m, struct sim_policy_result *out)
{
    *out = (struct sim_policy_result){0};
    double from = sim_wall_seconds();
    struct trace t = play(m, &out->counts);
    uint64_t first = (uint64_t)((double)m->requests * m->warmup);
    struct sim_samples s;
    rates(m, &t, first, out);
    sim_samples_init(&s, m->requests - first);
    for (uint64_t i = first; i < m->requests; i++) {
        if (t.sojourn[i] != SIM_POLICY_DROPPED) { /* counted, and shown beside the percentiles */
            s.v[s.n++] = t.sojourn[i];
        }
    }
    out->measured = s.n;
    out->mean_ns = sim_samples_mean(&s);
    const double p[] = {50, 99, 99.9};
    uint64_t q[3];
    out->p99_error_ns = batch_error(&s);
    sim_samples_percentiles(&s, p, 3, q);
    out->p50_ns = (double)q[0];
    out->p99_ns = (double)q[1];
    out->p999_ns = (double)q[2];
    sim_samples_free(&s);
    release(&t);
    out->wall_seconds = sim_wall_seconds() - from;
}

double sim_policy_late(const struct sim_policy_model *m, double limit_ns, double enough)
{
    struct sim_policy_counts counts;
    struct sim_policy_model own = *m;
    uint64_t first = (uint64_t)((double)m->requests * m->warmup), late = 0;
    double measured = (double)(m->requests - first);
    own.patience = (struct sim_policy_patience){(uint64_t)limit_ns, (uint64_t)(enough * measured), first};
    struct trace t = play(&own, &counts);
    for (uint64_t i = first; i < m->requests; i++) {
        late += (double)t.sojourn[i] > limit_ns; /* dropped: later than any limit */
    }
    release(&t);
    return (double)late / measured;
}
