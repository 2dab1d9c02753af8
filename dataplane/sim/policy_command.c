// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim policy`: runs the rows that were asked for, several at a time.
#include "policy_command.h"

#include <math.h>
#include <stdlib.h>

#include "commands.h"
#include "parallel.h"
#include "router/policy.h"

struct sim_policy_model sim_policy_model_of(const struct sim_policy_ask *a, const struct sim_policy_choice *c,
                                            double load, uint64_t seed)
{
    struct sim_policy_model m = a->base;
    m.kind = c->kind;
    m.policy = c->policy;
    m.depth = c->depth;
    m.load = load;
    m.seed = seed;
    return m;
}

const char *const sim_policy_kinds[SIM_POLICY_KINDS + 1] = {
    [SIM_POLICY_ROUTER] = "",
    [SIM_POLICY_SWITCH] = "Switch",
    [SIM_POLICY_DIRECT] = "Direct",
    [SIM_POLICY_CENTRAL] = "Central",
    [SIM_POLICY_STEAL] = "Steal",
    [SIM_POLICY_SJF] = "SJF",
    [SIM_POLICY_EDF] = "EDF",
    [SIM_POLICY_CSCQ] = "CSCQ",
    [SIM_POLICY_PS] = "PS",
    [SIM_POLICY_DIRECT_PS] = "DirectPS",
    [SIM_POLICY_RUN_TO_COMPLETION] = "RunToCompletion",
    [SIM_POLICY_WORK_STEALING] = "WorkStealing",
};

void sim_policy_choice_name(const struct sim_policy_choice *c, char *out, size_t n)
{
    const char *name = c->kind == SIM_POLICY_ROUTER ? bt_balancers[c->policy].name : sim_policy_kinds[c->kind];
    bool bounded = c->kind == SIM_POLICY_SWITCH || (c->kind == SIM_POLICY_ROUTER && bt_balancers[c->policy].bounded);
    if (bounded) {
        snprintf(out, n, "%s(%u)", name, c->depth);
    } else {
        snprintf(out, n, "%s", name);
    }
}

/* What one process computes for one row and one seed. */
struct item {
    struct sim_policy_result r;
    double slo_load, central_load;
    uint32_t least_workers;
};

static uint32_t columns(const struct sim_policy_ask *a)
{
    return a->question == SIM_POLICY_TABLE ? a->loads : a->question == SIM_POLICY_PLAN ? a->rates : 1;
}

static void one_item(const void *ctx, uint32_t i, void *out)
{
    const struct sim_policy_ask *a = ctx;
    struct item *o = out;
    uint32_t seed = i % a->seeds, row = i / a->seeds, column = row % columns(a);
    static const struct sim_policy_choice central = {SIM_POLICY_CENTRAL, 0, 1};
    /* in the SLO question the row behind the last is the single queue itself */
    const struct sim_policy_choice *c = row / columns(a) < a->choices ? &a->choice[row / columns(a)] : &central;
    struct sim_policy_model m = sim_policy_model_of(a, c, a->load[column % a->loads], a->base.seed + seed);
    double slo = a->slo_us * 1e3;
    if (a->question == SIM_POLICY_PLAN) {
        o->least_workers = sim_policy_least_workers(&m, a->rate[column], slo, a->percentile);
    } else if (a->question == SIM_POLICY_SLO) {
        o->slo_load = sim_policy_highest_load(&m, slo, a->percentile);
    } else {
        sim_policy_run(&m, &o->r);
    }
}

static void mean_result(struct sim_policy_row *row, const struct item *item, uint32_t seeds)
{
    double v[SIM_POLICY_SEEDS_MAX], error = 0;
    struct sim_policy_result *r = &row->r;
    for (uint32_t s = 0; s < seeds; s++) {
        const struct sim_policy_result *x = &item[s].r;
        r->offered_rps += x->offered_rps / seeds;
        r->achieved_rps += x->achieved_rps / seeds;
        r->throughput += x->throughput / seeds;
        r->mean_ns += x->mean_ns / seeds;
        r->p50_ns += x->p50_ns / seeds;
        r->p999_ns += x->p999_ns / seeds;
        r->measured += x->measured;
        r->counts.dropped += x->counts.dropped;
        r->counts.held += x->counts.held;
        r->counts.passes += x->counts.passes;
        r->counts.stolen += x->counts.stolen;
        r->counts.most_held = x->counts.most_held > r->counts.most_held ? x->counts.most_held : r->counts.most_held;
        if (x->counts.most_outstanding > r->counts.most_outstanding) {
            r->counts.most_outstanding = x->counts.most_outstanding;
        }
        r->wall_seconds += x->wall_seconds;
        v[s] = x->p99_ns;
    }
    r->p99_ns = sim_policy_mean(v, seeds, &error);
    r->p99_error_ns = seeds > 1 ? error : item[0].r.p99_error_ns;
}

static void mean_slo(struct sim_policy_row *row, const struct item *item, const struct item *central, uint32_t seeds)
{
    double load[SIM_POLICY_SEEDS_MAX], bound[SIM_POLICY_SEEDS_MAX], share[SIM_POLICY_SEEDS_MAX], unused;
    for (uint32_t s = 0; s < seeds; s++) {
        load[s] = item[s].slo_load;
        bound[s] = central[s].slo_load;
        share[s] = bound[s] > 0 ? load[s] / bound[s] : 0;
    }
    row->slo_load = sim_policy_mean(load, seeds, &row->slo_load_error);
    row->central_load = sim_policy_mean(bound, seeds, &unused);
    row->share_of_central = sim_policy_mean(share, seeds, &row->share_error);
}

static void answer(const struct sim_policy_ask *a, const struct item *item, struct sim_policy_row *row, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        const struct item *mine = item + (size_t)i * a->seeds;
        uint32_t column = i % columns(a);
        row[i].choice = a->choice[i / columns(a)];
        row[i].workers = a->base.workers;
        if (a->question == SIM_POLICY_TABLE) {
            row[i].load = a->load[column];
            mean_result(&row[i], mine, a->seeds);
        } else if (a->question == SIM_POLICY_SLO) {
            mean_slo(&row[i], mine, item + (size_t)rows * a->seeds, a->seeds);
        } else {
            row[i].rate = a->rate[column];
            for (uint32_t s = 0; s < a->seeds; s++) { /* enough for every seed */
                if (s > 0 && row[i].least_workers == 0) {
                    continue;
                }
                uint32_t k = mine[s].least_workers;
                row[i].least_workers = k == 0 || k > row[i].least_workers ? k : row[i].least_workers;
            }
        }
    }
}

int sim_command_policy(int argc, char **argv)
{
    struct sim_policy_ask a;
    bool done;
    int code = sim_policy_options(argc, argv, &a, &done);
    if (done) {
        return code;
    }
    uint32_t rows = a.choices * columns(&a), extra = a.question == SIM_POLICY_SLO;
    uint32_t items = (rows + extra) * a.seeds;
    struct item *item = calloc(items, sizeof *item);
    struct sim_policy_row *row = calloc(rows, sizeof *row);
    if (item == NULL || row == NULL) {
        abort();
    }
    code = 2;
    if (sim_parallel(a.jobs, &(struct sim_items){.n = items, .size = sizeof *item, .fn = one_item, .ctx = &a}, item,
                     NULL) != 0) {
        fputs("bobtail-sim: a process of the simulation died; is there memory for 24 bytes a request and job?\n",
              stderr);
    } else {
        answer(&a, item, row, rows);
        sim_policy_print(stdout, &a, row, rows);
        code = sim_policy_write(&a, row, rows) == 0 ? 0 : 2;
    }
    free(item);
    free(row);
    sim_times_free(&a.times);
    return code;
}
