// SPDX-License-Identifier: Apache-2.0
// See sched_elastic.h. Load is spread evenly over the threads of a configuration, so a few of them are played, turn by
// turn: a turn takes a batch of what has come, and lasts as long as that takes.
#include "sched_elastic.h"

#include <math.h>

#include "sched/sched.h"
#include "stream.h"

#define PEAK_RPS 6.2e6
/* 5.55 M a second are the most within the objective, of all cores and threads at the nominal clock. A queue of equal
 * services is there at 0.985 of what saturates it. */
#define NOMINAL_RPS (5.55e6 / 0.985)
#define NOISE_RPS   250e3
#define NOTICE_RPS  1e3 /* below it the load counts as none */
#define SECOND_NS   1e9
#define SAMPLE_NS   1e7

enum { PLAYED_MAX = 4, BATCH = 64, SECONDS = 240 };

/* The machine of the source; its turbo is what makes 6.2 M of 5.55 M. */
static const struct bt_machine machine = {8, 2, 1200, 2400, 100, 2681};

struct thread {
    double free_at; /* its turn ends */
    double last;    /* the turn before it began */
    double queue;   /* requests that wait */
    struct bt_meter meter;
    struct bt_measure measure;
};

struct loop {
    const struct sim_elastic_model *m;
    struct bt_rung rung[BT_LADDER_MAX];
    double capacity[BT_LADDER_MAX]; /* requests a second */
    struct bt_elastic elastic;
    struct thread thread[PLAYED_MAX];
    struct bt_rng rng;
    double noise;
    double served, late; /* of this second */
    uint32_t behind;     /* decisions since the capacity was last enough */
};

static double slope(double at)
{
    double half = SECONDS / 2.0;
    return PEAK_RPS * (at < half ? at / half : (SECONDS - at) / half);
}

static double step(double at)
{
    double half = SECONDS / 2.0, from = at < half ? at : SECONDS - at;
    return fmin(PEAK_RPS, 500e3 * floor(from / 10.0 + (at < half ? 0 : 1e-9)));
}

static double load_at(const struct loop *l, double at)
{
    double rps = l->m->pattern == SIM_ELASTIC_SLOPE ? slope(at)
                 : l->m->pattern == SIM_ELASTIC_STEP
                     ? step(at)
                     : (PEAK_RPS - NOISE_RPS) / 2 * (1 - cos(2 * M_PI * at / SECONDS)) + l->noise;
    return fmax(NOTICE_RPS, fmin(rps, PEAK_RPS));
}

/* Poisson; beyond 30 nearly normal. */
static double arrivals(struct loop *l, double mean)
{
    if (mean > 30) {
        double u = sim_uniform(&l->rng), v = sim_uniform(&l->rng);
        return fmax(0, floor(mean + sqrt(mean) * sqrt(-2 * log(u)) * cos(2 * M_PI * v) + 0.5));
    }
    double limit = exp(-mean), p = sim_uniform(&l->rng);
    uint32_t n = 0;
    while (p > limit) {
        p *= sim_uniform(&l->rng);
        n++;
    }
    return n;
}

static uint32_t threads_of(const struct loop *l)
{
    const struct bt_rung *r = &l->rung[l->elastic.rung];
    return r->cores * r->smt;
}

/* What came since the turn before this one began waited for a part of that; what did not fit into a batch, longer. */
static void count(struct loop *l, double batch, double behind, double since, double takes)
{
    double oldest = since + behind + takes, newest = behind + takes;
    double late = oldest <= l->m->slo_ns ? 0 : newest >= l->m->slo_ns ? 1 : (oldest - l->m->slo_ns) / (oldest - newest);
    l->served += batch;
    l->late += batch * late;
}

/* Turns of one thread until `end`. */
static void play(struct loop *l, struct thread *t, double rps, double end)
{
    double each = SECOND_NS * threads_of(l) / l->capacity[l->elastic.rung]; /* ns a request */
    double rate = rps / threads_of(l) / SECOND_NS;
    while (t->free_at < end) {
        double now = t->free_at, since = now - t->last;
        t->queue += arrivals(l, rate * since);
        if (t->queue < 1) {
            double gap = (double)sim_exponential(1 / rate, &l->rng);
            gap = fmin(gap, end - now + 1);
            bt_meter_turn(&t->meter, 0, 0, (uint64_t)gap);
            t->queue = now + gap <= end ? 1 : 0;
            t->free_at = t->last = now + gap;
            if (t->queue < 1) {
                return;
            }
            now = t->free_at;
            since = 0;
        }
        double batch = fmin(t->queue, BATCH), takes = batch * each;
        count(l, batch, (t->queue - batch) * each, since, takes);
        bt_meter_turn(&t->meter, (uint64_t)t->queue, (uint64_t)takes, 0);
        t->queue -= batch;
        t->last = now;
        t->free_at = now + takes;
    }
}

static uint32_t played(const struct loop *l)
{
    uint32_t n = threads_of(l);
    return n < PLAYED_MAX ? n : PLAYED_MAX;
}

/* A new configuration shares what waits out; threads that begin to be played are as the first. */
static void reshape(struct loop *l, uint32_t before)
{
    double waiting = 0;
    uint32_t was = before < PLAYED_MAX ? before : PLAYED_MAX;
    for (uint32_t i = 0; i < was; i++) {
        waiting += l->thread[i].queue;
    }
    for (uint32_t i = 0; i < played(l); i++) {
        if (i >= was) {
            l->thread[i] = l->thread[0];
        }
        l->thread[i].queue = floor(waiting / was * before / threads_of(l));
    }
}

static void decide(struct loop *l, double rps)
{
    double delay = 0, idle = 0;
    uint32_t before = threads_of(l), n = played(l);
    l->behind = l->capacity[l->elastic.rung] < rps ? l->behind + 1u : 0;
    for (uint32_t i = 0; i < n; i++) {
        delay = fmax(delay, bt_measure_delay_ns(&l->thread[i].measure, BT_SPEED_FAST, BATCH));
        idle += l->thread[i].measure.idle[BT_SPEED_SLOW] / n;
    }
    if (bt_elastic_tick(&l->elastic, delay, idle) != BT_STEP_NONE && threads_of(l) != before) {
        reshape(l, before);
    }
}

void sim_elastic_defaults(struct sim_elastic_model *m, enum sim_elastic_pattern pattern, uint64_t seed)
{
    *m = (struct sim_elastic_model){pattern, 15e3, 500e3, 100, 5, BT_OBJECTIVE_ENERGY, seed};
}

static void start(struct loop *l)
{
    uint32_t rungs = bt_ladder(&machine, l->m->objective, l->rung, BT_LADDER_MAX);
    const struct bt_rung all = {.cores = machine.cores, .smt = machine.smt, .mhz = machine.mhz_nominal};
    for (uint32_t i = 0; i < rungs; i++) {
        l->capacity[i] = NOMINAL_RPS * bt_rung_capacity(&l->rung[i]) / bt_rung_capacity(&all);
    }
    bt_elastic_init(&l->elastic,
                    &(struct bt_elastic_setup){.capacity = l->capacity,
                                               .rungs = rungs,
                                               .delay_bound_ns = l->m->delay_bound_ns,
                                               .margin = 0.1,
                                               .hold_off = l->m->hold_off},
                    0);
    sim_stream_seed(&l->rng, l->m->seed, SIM_STREAM_ARRIVAL);
}

double sim_elastic_watts(const struct bt_rung *rung)
{
    double core = 6.0 * (rung->smt > 1 ? 1.15 : 1.0) * pow(rung->mhz / 2400.0, 2.2);
    return 20.0 + rung->cores * core;
}

/* The background job scales with its cores, and gains nothing from second threads or turbo (Z-16). */
static void account(const struct loop *l, struct sim_elastic_result *out)
{
    const struct bt_rung *now = &l->rung[l->elastic.rung], *highest = &l->rung[l->elastic.setup.rungs - 1u];
    out->power_saved += (1.0 - sim_elastic_watts(now) / sim_elastic_watts(highest)) / SECONDS;
    out->background_share += (double)now->background / machine.cores / SECONDS;
}

static void end_of_second(struct loop *l, struct sim_elastic_result *out)
{
    account(l, out);
    out->seconds++;
    out->violations += l->late > 0.01 * l->served;
    out->mean_rung += (l->elastic.rung + 1.0) / SECONDS;
    l->served = l->late = 0;
}

void sim_elastic_run(const struct sim_elastic_model *m, struct sim_elastic_result *out)
{
    struct loop l = {.m = m};
    *out = (struct sim_elastic_result){0};
    start(&l);
    for (uint32_t sample = 0; sample < SECONDS * 100u; sample++) {
        double at = sample / 100.0;
        if (m->pattern == SIM_ELASTIC_SINE && sample % 500u == 0) {
            l.noise = (2 * sim_uniform(&l.rng) - 1) * NOISE_RPS;
        }
        double rps = load_at(&l, at);
        for (uint32_t i = 0; i < played(&l); i++) {
            play(&l, &l.thread[i], rps, (sample + 1.0) * SAMPLE_NS);
            bt_measure_take(&l.thread[i].measure, &l.thread[i].meter);
        }
        if ((sample + 1u) % (m->tick_ms / 10u) == 0) {
            decide(&l, rps);
            out->most_ticks = l.behind > out->most_ticks ? l.behind : out->most_ticks;
        }
        if ((sample + 1u) % 100u == 0) {
            end_of_second(&l, out);
        }
    }
}
