// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim figures`: the JBSQ figures through real packets, judged by queueing.md §3 and §4.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "closed.h"
#include "commands.h"
#include "parallel.h"
#include "report.h"
#include "router/router_config.h"
#include "yaml_reader.h"

enum { CELLS_MAX = 128, CHECKS_MAX = 16 };
enum what { CELL, SATURATION, SAME };

/* One row of the expected table. */
struct cell {
    enum what what;
    uint32_t policy, n, dist, like_policy, like_n, late; /* late: only in the long variant */
    double load, p99, tolerance, dispatch_us, feedback_us;
    uint64_t requests;
    char like[SIM_NAME]; /* SAME: "central" for the pure model Q-1, or a policy */
};

struct figures {
    struct cell cell[CELLS_MAX];
    uint32_t cells;
};

/* One comparison inside a cell. */
struct comparison {
    char what[24];
    double got, want, tolerance;
    bool ok;
};

struct outcome {
    char name[SIM_NAME];
    struct comparison check[CHECKS_MAX];
    uint32_t checks;
    double mean, p99, wall;
    uint64_t packets;
    bool ok;
};

static const char *const short_policy[] = {"jbsq", "jsq", "p2c", "rr", "random"};
static const char *const same_names[] = {"central", "JSQ", NULL};
static const char *const dist_names[] = {"deterministic", "exponential", "bimodal1", NULL};

#define AT(m) offsetof(struct cell, m)
static const struct sim_field cell_fields[] = {
    {"policy", SIM_F_NAME, AT(policy), 0, 0, 0, sim_policy_names},
    {"n", SIM_F_U32, AT(n), 1, 64, 0, NULL},
    {"distribution", SIM_F_NAME, AT(dist), 0, 0, 0, dist_names},
    {"load", SIM_F_DOUBLE, AT(load), 0.01, 0.99, 0, NULL},
    {"p99", SIM_F_DOUBLE, AT(p99), 0, 1e6, 0, NULL},
    {"tolerance", SIM_F_DOUBLE, AT(tolerance), 0.001, 1, 0, NULL},
    {"requests", SIM_F_U64, AT(requests), 1000, 1e8, 0, NULL},
};
static const struct sim_field saturation_fields[] = {
    {"n", SIM_F_U32, AT(n), 1, 64, 0, NULL},
    {"dispatchMicroseconds", SIM_F_DOUBLE, AT(dispatch_us), 0, 1e6, 0, NULL},
    {"feedbackMicroseconds", SIM_F_DOUBLE, AT(feedback_us), 0, 1e6, 0, NULL},
    {"requests", SIM_F_U64, AT(requests), 1000, 1e8, 0, NULL},
};
static const struct sim_field same_fields[] = {
    {"policy", SIM_F_NAME, AT(policy), 0, 0, 0, sim_policy_names},
    {"n", SIM_F_U32, AT(n), 1, 64, 0, NULL},
    {"distribution", SIM_F_NAME, AT(dist), 0, 0, 0, dist_names},
    {"load", SIM_F_DOUBLE, AT(load), 0.01, 0.99, 0, NULL},
    {"as", SIM_F_NAME, AT(like_policy), 0, 0, 0, same_names},
    {"requests", SIM_F_U64, AT(requests), 1000, 1e8, 0, NULL},
};
#undef AT

static void read_list(struct sim_yaml *y, const char *section, enum what what, const struct sim_field *fields, size_t n,
                      struct figures *out)
{
    yaml_node_t *list = sim_yaml_get(y, yaml_document_get_root_node(y->doc), section), *item;
    for (size_t i = 0; (item = sim_yaml_item(y, list, i, section)) != NULL; i++) {
        char where[48];
        snprintf(where, sizeof where, "%s[%zu]", section, i);
        if (out->cells == CELLS_MAX) {
            sim_yaml_complain(y, item, where, "at most %d rows", CELLS_MAX);
            return;
        }
        struct cell *c = &out->cell[out->cells++];
        *c = (struct cell){.what = what, .n = 64, .load = 0.5, .tolerance = 0.05, .requests = 100000};
        sim_yaml_fields(y, item, where, fields, n, NULL, c);
        c->late = c->what == CELL && c->load > 0.9;
    }
}

static int read_figures(const char *path, struct figures *out)
{
    char err[400];
    yaml_document_t *doc = sim_yaml_open(path, err, sizeof err);
    if (doc != NULL) {
        static const char *const sections[] = {"about", "cells", "saturation", "same", NULL};
        struct sim_yaml y = {.file = path, .doc = doc, .err = err, .err_n = sizeof err};
        sim_yaml_fields(&y, yaml_document_get_root_node(doc), "", NULL, 0, sections, NULL);
        read_list(&y, "cells", CELL, cell_fields, sizeof cell_fields / sizeof cell_fields[0], out);
        read_list(&y, "saturation", SATURATION, saturation_fields,
                  sizeof saturation_fields / sizeof saturation_fields[0], out);
        read_list(&y, "same", SAME, same_fields, sizeof same_fields / sizeof same_fields[0], out);
        bool ok = !y.failed && out->cells > 0;
        if (!y.failed && out->cells == 0)
            snprintf(err, sizeof err, "%s: no cells", path);
        yaml_document_delete(doc);
        free(doc);
        if (ok)
            return 0;
    }
    fprintf(stderr, "bobtail-sim: %s\n", err);
    return -1;
}

/* --- one cell ----------------------------------------------------------------------------------- */

static void scenario_of(const struct cell *c, uint64_t seed, struct sim_scenario *s)
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
    if (c->what == SATURATION) {
        s->service.kind = SIM_DIST_DETERMINISTIC;
        s->load = 1.2;
        s->policy = BT_ROUTER_JBSQ;
        s->delay.router_server_ns = (uint64_t)(c->dispatch_us * 1e3);
        s->delay.server_router_ns = (uint64_t)(c->feedback_us * 1e3);
        s->central_limit = 1024; /* overload: the rest gets DROP */
    }
}

static void compare(struct outcome *o, const char *what, double got, double want, double tolerance)
{
    if (o->checks == CHECKS_MAX)
        return;
    struct comparison *k = &o->check[o->checks++];
    snprintf(k->what, sizeof k->what, "%s", what);
    k->got = got;
    k->want = want;
    k->tolerance = tolerance;
    k->ok = fabs(got - want) <= tolerance * fabs(want) + 1e-12;
    o->ok = o->ok && k->ok;
}

static void at_most(struct outcome *o, const char *what, double got, double most)
{
    compare(o, what, got <= most ? 0 : got, 0, 0);
}

/* Q-61 against closed forms, where one exists: Random is 16 separate M/G/1, JBSQ(1) is M/G/16. */
static void compare_closed(struct outcome *o, const struct cell *c, const struct sim_dist *d)
{
    double load = c->load, mean_tol = load <= 0.8 ? 0.01 : load <= 0.9 ? 0.03 : 0.10;
    double tail_tol = load <= 0.8 ? 0.02 : load <= 0.9 ? 0.05 : 0.10;
    bool central = c->policy == BT_ROUTER_JBSQ && c->n == 1;
    if (c->policy == BT_ROUTER_RANDOM) {
        compare(o, "mean M/G/1", o->mean, 1 + sim_mg1_wait(load, sim_dist_c2(d)), mean_tol);
        if (d->kind == SIM_DIST_EXPONENTIAL)
            compare(o, "p99 M/M/1", o->p99, sim_mm1_quantile(load, 0.99), tail_tol);
        if (d->kind == SIM_DIST_DETERMINISTIC)
            compare(o, "p99 M/D/1", o->p99, sim_md1_quantile(load, 0.99), tail_tol);
        if (d->kind == SIM_DIST_BIMODAL1) {
            compare(o, "p99 M/B1/1", o->p99, sim_mg1_two_point_quantile(load, 0.99, 0.5, 5.5, 0.1), tail_tol);
        }
    } else if (central && d->kind == SIM_DIST_EXPONENTIAL) {
        compare(o, "mean M/M/16", o->mean, 1 + sim_mmn_wait(16, load), mean_tol);
        compare(o, "p99 M/M/16", o->p99, sim_mmn_quantile(16, load, 0.99), tail_tol);
    }
}

static uint64_t *words(size_t n)
{
    uint64_t *p = malloc((n > 0 ? n : 1) * sizeof *p);
    if (p == NULL)
        abort();
    return p;
}

static struct sim_trace new_trace(size_t n)
{
    struct sim_trace t = {malloc(n * sizeof(struct sim_job)), words(n), n};
    if (t.job == NULL)
        abort();
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
    for (size_t i = 0; i < t->n; i++)
        differ += model[i] != t->sojourn_ns[i];
    free(model);
    return differ;
}

static void run_cell(const struct cell *c, uint64_t seed, struct outcome *o)
{
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    if (s == NULL || r == NULL)
        abort();
    bool central = c->what == CELL && c->policy == BT_ROUTER_JBSQ && c->n == 1;
    struct sim_trace t = new_trace(c->requests);
    scenario_of(c, seed, s);
    sim_run(s, r, &t);
    o->packets = r->packets;
    o->mean = r->mean_ns / s->service.mean_ns;
    o->p99 = r->p99_ns / s->service.mean_ns;
    at_most(o, "invariants broken", sim_broken(&r->verdict), 0);
    if (c->what == SATURATION) {
        double cycle = 1 + (c->dispatch_us + c->feedback_us) / 1e3;
        compare(o, "throughput n/(S+d+f)", r->throughput, fmin(1, c->n / cycle), 0.01);
    } else {
        at_most(o, "requests not answered", (double)(c->requests - r->outcome[SIM_SUCCESS]), 0);
        if (c->p99 > 0)
            compare(o, "p99 table", o->p99, c->p99, c->tolerance);
        compare_closed(o, c, &s->service);
        at_most(o, "Little's law error", fabs(r->little_error), 0.01);
        if (central)
            at_most(o, "idle while waiting", r->idle_while_waiting_ns, 0);
        if (central)
            at_most(o, "unlike pure Q-1", (double)differences_from_central(&t), 0);
    }
    free_trace(&t);
    free(s);
    free(r);
}

/* two policies, or a policy and the pure model, agree on every single request. */
static void run_same(const struct cell *c, uint64_t seed, struct outcome *o)
{
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    if (s == NULL || r == NULL)
        abort();
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
        for (size_t i = 0; i < a.n; i++)
            differ += a.sojourn_ns[i] != b.sojourn_ns[i];
        at_most(o, "unlike JSQ", (double)differ, 0);
    }
    free_trace(&a);
    free_trace(&b);
    free(s);
    free(r);
}

static void name_cell(const struct cell *c, char *out, size_t n)
{
    char depth[8] = "";
    if (c->policy == BT_ROUTER_JBSQ)
        snprintf(depth, sizeof depth, "%u", c->n);
    if (c->what == SATURATION) {
        snprintf(out, n, "saturation_n%u_delay%g", c->n, (c->dispatch_us + c->feedback_us) / 1e3);
    } else {
        snprintf(out, n, "%s%s%s_%s_%g%s%s", c->what == SAME ? "same_" : "", short_policy[c->policy], depth,
                 dist_names[c->dist], c->load, c->what == SAME ? "_as_" : "",
                 c->what == SAME ? same_names[c->like_policy] : "");
    }
}

struct job {
    const struct figures *figures;
    const uint32_t *order; /* long cells first, so that no core idles at the end */
    const struct sim_options *o;
};

static void one_cell(const void *ctx, uint32_t i, void *out)
{
    const struct job *j = ctx;
    const struct cell *c = &j->figures->cell[j->order[i]];
    struct outcome *o = out;
    struct cell sized = *c;
    if (j->o->requests > 0)
        sized.requests = j->o->requests;
    double from = sim_wall_seconds();
    o->ok = true;
    name_cell(c, o->name, sizeof o->name);
    if (c->what == SAME) {
        run_same(&sized, j->o->seed, o);
    } else {
        run_cell(&sized, j->o->seed, o);
    }
    o->wall = sim_wall_seconds() - from;
}

/* --- orders between cells, and the report --------------------------------------------------------- */

static const struct outcome *find(const struct outcome *all, uint32_t n, const char *policy, const char *dist,
                                  double load)
{
    char name[SIM_NAME];
    snprintf(name, sizeof name, "%s_%s_%g", policy, dist, load);
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    }
    return NULL;
}

/* Returns the number of orders that do not hold; a missing cell is skipped (--only). */
static uint32_t check_orders(const struct outcome *all, uint32_t n, uint32_t *checked)
{
    static const struct {
        const char *less, *more;
        double slack; /* Q-63 writes <= for the first two: equal up to noise */
    } orders[] = {{"jbsq1", "jbsq2", 0.005}, {"jbsq2", "random", 0.005}, {"p2c", "random", 0}};
    const double loads[] = {0.5, 0.8, 0.9, 0.95};
    uint32_t wrong = 0;
    for (size_t d = 0; dist_names[d] != NULL; d++) {
        for (size_t l = 0; l < sizeof loads / sizeof loads[0]; l++) {
            for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
                const struct outcome *a = find(all, n, orders[k].less, dist_names[d], loads[l]);
                const struct outcome *b = find(all, n, orders[k].more, dist_names[d], loads[l]);
                if (a == NULL || b == NULL)
                    continue;
                ++*checked;
                if (a->p99 <= b->p99 * (1 + orders[k].slack))
                    continue;
                printf("order broken (Q-63): %s p99 %.3f, %s p99 %.3f\n", a->name, a->p99, b->name, b->p99);
                wrong++;
            }
        }
    }
    const struct outcome *a = find(all, n, "jbsq2", "bimodal1", 0.9), *b = find(all, n, "jsq", "bimodal1", 0.9);
    if (a != NULL && b != NULL) {
        ++*checked;
        if (a->p99 >= b->p99) {
            printf("order broken (Q-63): %s p99 %.3f, %s p99 %.3f\n", a->name, a->p99, b->name, b->p99);
            wrong++;
        }
    }
    return wrong;
}

static void print_cell(const struct outcome *o)
{
    printf("%-28s %9.4f %9.4f  ", o->name, o->mean, o->p99);
    for (uint32_t i = 0; i < o->checks; i++) {
        const struct comparison *k = &o->check[i];
        if (k->want == 0 && k->ok)
            continue; /* "must not happen", and did not */
        if (k->want == 0) {
            printf("%s %.4g! ", k->what, k->got);
        } else {
            printf("%s %.4f (%+.2f%% of %.0f%%)%s ", k->what, k->want, 100 * (k->got / k->want - 1), 100 * k->tolerance,
                   k->ok ? "" : "!");
        }
    }
    printf(" %s\n", o->ok ? "ok" : "OUT OF BOUNDS");
}

static int report(const struct sim_options *opt, const struct outcome *all, const int *signals, uint32_t n, double wall)
{
    struct sim_measures m;
    uint32_t good = 0, orders = 0;
    uint64_t packets = 0;
    if (sim_measures_open(&m, opt->measurements) != 0)
        return 2;
    printf("%-28s %9s %9s  compared with (deviation of tolerance)\n", "cell", "mean", "p99");
    for (uint32_t i = 0; i < n; i++) {
        char name[SIM_NAME + 32];
        if (signals[i] != 0) {
            printf("cell %u was killed by signal %d\n", i, signals[i]);
            continue;
        }
        print_cell(&all[i]);
        good += all[i].ok;
        packets += all[i].packets;
        snprintf(name, sizeof name, "sim_p99_%s", all[i].name);
        sim_measure(&m, name, all[i].p99, "S");
        for (uint32_t k = 0; k < all[i].checks; k++) {
            if (strncmp(all[i].check[k].what, "p99 table", 9) != 0)
                continue;
            snprintf(name, sizeof name, "sim_p99_error_%s", all[i].name);
            sim_measure(&m, name, all[i].check[k].got / all[i].check[k].want - 1, "ratio");
        }
    }
    uint32_t wrong = check_orders(all, n, &orders);
    printf("%u of %u cells in bounds, %u of %u orders hold (Q-63); seed %llu, %llu packets, %.1f s\n", good, n,
           orders - wrong, orders, (unsigned long long)opt->seed, (unsigned long long)packets, wall);
    sim_measure(&m, "sim_cells", n, "count");
    sim_measure(&m, "sim_cells_in_bounds", good, "count");
    sim_measure(&m, "sim_cells_in_bounds_share", (double)good / n, "ratio");
    sim_measure(&m, "sim_orders_broken", wrong, "count");
    sim_measure(&m, "sim_figures_seconds", wall, "s");
    if (sim_measures_close(&m) != 0)
        return 2;
    return good != n || wrong > 0;
}

static uint32_t choose(const struct figures *f, const struct sim_options *o, uint32_t *order)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->cells; i++) {
        char name[SIM_NAME];
        name_cell(&f->cell[i], name, sizeof name);
        if (f->cell[i].late && !o->long_run)
            continue;
        if (o->only == NULL || strstr(name, o->only) != NULL)
            order[n++] = i;
    }
    return n;
}

int sim_command_figures(const struct sim_options *o)
{
    struct figures *f = calloc(1, sizeof *f);
    uint32_t order[CELLS_MAX];
    int signals[CELLS_MAX] = {0}, code = 2;
    struct sim_options own = *o;
    if (f == NULL)
        abort();
    if (own.seed == 0)
        own.seed = 1;
    uint32_t n = read_figures(o->file[0], f) == 0 ? choose(f, o, order) : 0;
    struct outcome *all = calloc(n + 1, sizeof *all);
    struct job job = {f, order, &own};
    if (all == NULL)
        abort();
    double from = sim_wall_seconds();
    if (n == 0) {
        fprintf(stderr, "bobtail-sim: no cell to run\n");
    } else if (sim_parallel(o->jobs, n, sizeof *all, one_cell, &job, all, signals) >= 0) {
        code = report(&own, all, signals, n, sim_wall_seconds() - from);
    }
    free(all);
    free(f);
    return code;
}
