// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim figures`: the JBSQ figures through real packets, judged by queueing.md §3 and §4.
#include "figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "closed.h"
#include "parallel.h"
#include "report.h"
#include "router/router_config.h"

static void scenario_of(const struct sim_cell *c, uint64_t seed, struct sim_scenario *s)
{
    sim_scenario_defaults(s);
    s->seed = seed;
    s->requests = c->requests;
    s->workers = 16;
    s->clients = 16;
    s->depth = c->n;
    s->policy = c->policy;
    s->service = (struct sim_dist){(enum sim_dist_kind)c->dist, 1e6, 0};
    s->load = c->load;
    s->settle_ms = 0;
    s->tagged = false; /* tags change no decision; the fault scenarios carry them */
    s->central_limit = 1048576;
    if (c->what == SIM_CELL_SATURATION) {
        s->service.kind = SIM_DIST_DETERMINISTIC;
        s->load = 1.2;
        s->policy = BT_ROUTER_JBSQ;
        s->delay.router_server_ns = (uint64_t)(c->dispatch_us * 1e3);
        s->delay.server_router_ns = (uint64_t)(c->feedback_us * 1e3);
        s->central_limit = 1024; /* overload: the rest gets DROP */
    }
}

void sim_cell_compare(struct sim_cell_outcome *o, const char *what, double got, double want, double tolerance)
{
    if (o->checks == SIM_CHECKS_MAX) {
        return;
    }
    struct sim_comparison *k = &o->check[o->checks++];
    snprintf(k->what, sizeof k->what, "%s", what);
    k->got = got;
    k->want = want;
    k->tolerance = tolerance;
    k->ok = fabs(got - want) <= tolerance * fabs(want) + 1e-12;
    o->ok = o->ok && k->ok;
}

static void at_most(struct sim_cell_outcome *o, const char *what, double got, double most)
{
    sim_cell_compare(o, what, got <= most ? 0 : got, 0, 0);
}

double sim_mean_tolerance(double load)
{
    return load <= 0.8 ? 0.01 : load <= 0.9 ? 0.03 : 0.10;
}

/* Q-61 against closed forms, where one exists: Random is 16 separate M/G/1, JBSQ(1) is M/G/16. */
static void compare_closed(struct sim_cell_outcome *o, const struct sim_cell *c, const struct sim_dist *d)
{
    double load = c->load, mean_tol = sim_mean_tolerance(load);
    double tail_tol = load <= 0.8 ? 0.02 : load <= 0.9 ? 0.05 : 0.10;
    bool central = c->policy == BT_ROUTER_JBSQ && c->n == 1;
    if (c->policy == BT_ROUTER_RANDOM) {
        sim_cell_compare(o, "mean M/G/1", o->mean, 1 + sim_mg1_wait(load, sim_dist_c2(d)), mean_tol);
        if (d->kind == SIM_DIST_EXPONENTIAL) {
            sim_cell_compare(o, "p99 M/M/1", o->p99, sim_mm1_quantile(load, 0.99), tail_tol);
        }
        if (d->kind == SIM_DIST_DETERMINISTIC) {
            sim_cell_compare(o, "p99 M/D/1", o->p99, sim_md1_quantile(load, 0.99), tail_tol);
        }
        if (d->kind == SIM_DIST_BIMODAL1) {
            sim_cell_compare(o, "p99 M/B1/1", o->p99, sim_mg1_two_point_quantile(load, 0.99, 0.5, 5.5, 0.1), tail_tol);
        }
    } else if (central && d->kind == SIM_DIST_EXPONENTIAL) {
        sim_cell_compare(o, "mean M/M/16", o->mean, 1 + sim_mmn_wait(16, load), mean_tol);
        sim_cell_compare(o, "p99 M/M/16", o->p99, sim_mmn_quantile(16, load, 0.99), tail_tol);
    }
}

static uint64_t *words(size_t n)
{
    uint64_t *p = malloc((n > 0 ? n : 1) * sizeof *p);
    if (p == NULL) {
        abort();
    }
    return p;
}

static struct sim_trace new_trace(size_t n)
{
    struct sim_trace t = {malloc(n * sizeof(struct sim_job)), words(n), n};
    if (t.job == NULL) {
        abort();
    }
    return t;
}

static void free_trace(struct sim_trace *t)
{
    free(t->job);
    free(t->sojourn_ns);
}

/* How many sojourns differ from the pure central-queue model; 0 is the identity of Q-62. */
static uint64_t differences_from_central(const struct sim_trace *t)
{
    uint64_t *model = words(t->n), differ = 0;
    sim_oracle_central(t->job, t->n, 16, model);
    for (size_t i = 0; i < t->n; i++) {
        differ += model[i] != t->sojourn_ns[i];
    }
    free(model);
    return differ;
}

static void run_cell(const struct sim_cell *c, uint64_t seed, struct sim_cell_outcome *o)
{
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    if (s == NULL || r == NULL) {
        abort();
    }
    bool central = c->what == SIM_CELL_PLAIN && c->policy == BT_ROUTER_JBSQ && c->n == 1;
    struct sim_trace t = new_trace(c->requests);
    scenario_of(c, seed, s);
    sim_run(s, r, &t);
    o->packets = r->packets;
    o->mean = r->mean_ns / s->service.mean_ns;
    o->p99 = r->p99_ns / s->service.mean_ns;
    at_most(o, "invariants broken", sim_broken(&r->verdict), 0);
    if (c->what == SIM_CELL_SATURATION) {
        double cycle = 1 + (c->dispatch_us + c->feedback_us) / 1e3;
        sim_cell_compare(o, "throughput n/(S+d+f)", r->throughput, fmin(1, c->n / cycle), 0.01);
    } else {
        at_most(o, "requests not answered", (double)(c->requests - r->outcome[SIM_SUCCESS]), 0);
        if (c->p99 > 0) {
            sim_cell_compare(o, "p99 table", o->p99, c->p99, c->tolerance);
        }
        compare_closed(o, c, &s->service);
        at_most(o, "Little's law error", fabs(r->little_error), 0.01);
        if (central) {
            at_most(o, "idle while waiting", r->idle_while_waiting_ns, 0);
        }
        if (central) {
            at_most(o, "unlike pure Q-1", (double)differences_from_central(&t), 0);
        }
    }
    free_trace(&t);
    free(s);
    free(r);
}

/* two policies, or a policy and the pure model, agree on every single request. */
static void run_same(const struct sim_cell *c, uint64_t seed, struct sim_cell_outcome *o)
{
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    if (s == NULL || r == NULL) {
        abort();
    }
    struct sim_trace a = new_trace(c->requests), b = new_trace(c->requests);
    scenario_of(c, seed, s);
    sim_run(s, r, &a);
    o->packets = r->packets;
    o->mean = r->mean_ns / s->service.mean_ns;
    o->p99 = r->p99_ns / s->service.mean_ns;
    at_most(o, "requests not answered", (double)(c->requests - r->outcome[SIM_SUCCESS]), 0);
    if (c->like_policy == 0) {
        at_most(o, "unlike pure Q-1", (double)differences_from_central(&a), 0);
    } else {
        s->policy = BT_ROUTER_JSQ;
        sim_run(s, r, &b);
        uint64_t differ = 0;
        for (size_t i = 0; i < a.n; i++) {
            differ += a.sojourn_ns[i] != b.sojourn_ns[i];
        }
        at_most(o, "unlike JSQ", (double)differ, 0);
    }
    free_trace(&a);
    free_trace(&b);
    free(s);
    free(r);
}

struct job {
    const struct sim_figures *figures;
    const uint32_t *order; /* long cells first, so that no core idles at the end */
    const struct sim_options *o;
};

static void one_cell(const void *ctx, uint32_t i, void *out)
{
    const struct job *j = ctx;
    const struct sim_cell *c = &j->figures->cell[j->order[i]];
    struct sim_cell_outcome *o = out;
    struct sim_cell sized = *c;
    if (j->o->requests > 0) {
        sized.requests = j->o->requests;
    }
    double from = sim_wall_seconds();
    o->ok = true;
    sim_cell_name(c, o->name, sizeof o->name);
    if (c->what == SIM_CELL_SAME) {
        run_same(&sized, j->o->seed, o);
    } else if (c->what == SIM_CELL_DISCIPLINE) {
        sim_cell_discipline(&sized, j->o->seed, o);
    } else {
        run_cell(&sized, j->o->seed, o);
    }
    o->wall = sim_wall_seconds() - from;
}

static uint32_t choose(const struct sim_figures *f, const struct sim_options *o, uint32_t *order)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->cells; i++) {
        char name[SIM_NAME];
        sim_cell_name(&f->cell[i], name, sizeof name);
        if (f->cell[i].late && !o->long_run) {
            continue;
        }
        if (o->only == NULL || strstr(name, o->only) != NULL) {
            order[n++] = i;
        }
    }
    return n;
}

int sim_command_figures(const struct sim_options *o)
{
    struct sim_figures *f = calloc(1, sizeof *f);
    uint32_t order[SIM_CELLS_MAX];
    int signals[SIM_CELLS_MAX] = {0}, code = 2;
    struct sim_options own = *o;
    if (f == NULL) {
        abort();
    }
    if (own.seed == 0) {
        own.seed = 1;
    }
    uint32_t n = sim_figures_read(o->file[0], f) == 0 ? choose(f, o, order) : 0;
    struct sim_cell_outcome *all = calloc(n + 1, sizeof *all);
    struct job job = {f, order, &own};
    if (all == NULL) {
        abort();
    }
    double from = sim_wall_seconds();
    if (n == 0) {
        fprintf(stderr, "bobtail-sim: no cell to run\n");
    } else if (sim_parallel(o->jobs, &(struct sim_items){.n = n, .size = sizeof *all, .fn = one_cell, .ctx = &job}, all,
                            signals) >= 0) {
        code = sim_figures_report(&own, all, signals, n, sim_wall_seconds() - from);
    }
    free(all);
    free(f);
    return code;
}
