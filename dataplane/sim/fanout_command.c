// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim hedge`: the policies over loads, and with --cells where hedging pays, where it hurts, what a gate does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "fanout_cells.h"
#include "option.h"
#include "options.h"
#include "parallel.h"
#include "report.h"

static const char usage_text[] =
    "usage: bobtail-sim hedge [options]\n"
    "\n"
    "Hedged reads of a sharded, replicated service: the shipped load-aware policy beside others, without packets.\n"
    "A service takes P + J: P exponential, drawn once per request and shard; J once per execution. Unit: the mean of "
    "P.\n"
    "\n"
    "  --shards=N --replicas=K   every request asks N shards of K replicas (default 50, 2)\n"
    "  --p=P --d=D               J is D with probability P, else 0 (default 0.001, 15)\n"
    "  --loads=LIST              of the replicas, by P alone (default 0.02,0.05,0.1, ... 0.8)\n"
    "  --delay=D                 of delayed hedging (default 5)\n"
    "  --cleanup=WHAT            of its copies when the other was answered: All cancelled (default), those Waiting, "
    "None\n"
    "  --requests=N              per load (default 150000; --cells: 15000); the first tenth is left out\n"
    "  --cells                   instead: probabilities from 0.1 to 0.00001 by 16 loads; --p and --loads are not used\n"
    "  --probabilities=N         so many of them (default 11)\n"
    "  --seed=N --jobs=N         (default 1, 2)\n"
    "  --json=FILE --measurements=FILE\n";

enum { LOADS_MAX = 64 };

struct ask {
    struct sim_fanout_model m;
    double load[LOADS_MAX];
    uint32_t loads;
    unsigned jobs;
    uint32_t probabilities;
    bool cells, requests;
    const char *json, *measurements;
};

struct row {
    struct sim_fanout_point point[SIM_FANOUT_POLICIES];
};

static const char *cleanup_name(uint32_t i)
{
    static const char *const names[SIM_FANOUT_CLEANUPS] = {"All", "Waiting", "None"};
    return names[i];
}

/* Twins that made room, and how many of them were the right one: of all, by a hiccup together, later. */
static void json_chosen(FILE *f, const struct sim_fanout_point *p)
{
    for (uint32_t i = 0; i < SIM_FANOUT_VICTIMS && p->chosen[0].n > 0; i++) {
        fprintf(f, "%s[%llu, %llu]%s", i == 0 ? ", \"preempted\": [" : ", ", (unsigned long long)p->chosen[i].n,
                (unsigned long long)p->chosen[i].right, i + 1 == SIM_FANOUT_VICTIMS ? "]" : "");
    }
}

static void json_points(FILE *f, const struct sim_fanout_point *point)
{
    const char *between = "";
    for (uint32_t i = 0; i < SIM_FANOUT_POLICIES; i++) {
        const struct sim_fanout_point *p = &point[i];
        if (p->copies <= 0) { /* did not run */
            continue;
        }
        fprintf(f, "%s\n  \"%s\": {\"p50\": %.9g, \"p99\": %.9g, \"p999\": %.9g, \"copies\": %.9g, \"busy\": %.9g",
                between, sim_fanout_policy_name(i), p->p50, p->p99, p->p999, p->copies, p->busy);
        json_chosen(f, p);
        fputs("}", f);
        between = ",";
    }
}

/* --- over loads -------------------------------------------------------------------------------------------------- */

static void run_load(const void *ctx, uint32_t i, void *result)
{
    const struct ask *a = ctx;
    struct sim_fanout_model m = a->m;
    m.load = a->load[i];
    sim_fanout_run(&m, (1u << SIM_FANOUT_POLICIES) - 1, ((struct row *)result)->point);
}

static void print_table(const struct ask *a, const struct row *rows, const char *title, size_t offset)
{
    printf("%s\n%6s", title, "load");
    for (uint32_t i = 0; i < SIM_FANOUT_POLICIES; i++) {
        printf(" %9s", sim_fanout_policy_name(i));
    }
    for (uint32_t r = 0; r < a->loads; r++) {
        printf("\n%6.2f", a->load[r]);
        for (uint32_t i = 0; i < SIM_FANOUT_POLICIES; i++) {
            double v;
            memcpy(&v, (const char *)&rows[r].point[i] + offset, sizeof v);
            printf(" %9.2f", v);
        }
    }
    puts("");
}

static double right_percent(const struct sim_fanout_chosen *c)
{
    return c->n > 0 ? 100.0 * (double)c->right / (double)c->n : 100;
}

/* R-246 kills what began last, knowing nothing of what will end later: how often that is the same. */
static void print_chosen(const struct ask *a, const struct row *rows)
{
    printf("\n%s: twins that made room for a newcomer, and of these the one that would have ended later, %%;\n"
           "the same where one of the two had a hiccup: begun together, the second copy begun later\n"
           "%6s %12s %9s %12s %9s %12s %9s",
           sim_fanout_policy_name(SIM_FANOUT_LAEDGE_CC_PC), "load", "twins", "right", "together", "right", "later",
           "right");
    for (uint32_t r = 0; r < a->loads; r++) {
        const struct sim_fanout_chosen *c = rows[r].point[SIM_FANOUT_LAEDGE_CC_PC].chosen;
        printf("\n%6.2f", a->load[r]);
        for (uint32_t i = 0; i < SIM_FANOUT_VICTIMS; i++) {
            printf(" %12llu %9.3f", (unsigned long long)c[i].n, right_percent(&c[i]));
        }
    }
    puts("");
}

/* p99 of LÆDGE above that of the bound: largest over all loads, mean over 0.05 to 0.5. */
static void gap_of(const struct ask *a, const struct row *rows, double *most, double *mean)
{
    double sum = 0;
    uint32_t n = 0;
    *most = 0;
    for (uint32_t r = 0; r < a->loads; r++) {
        double gap = rows[r].point[SIM_FANOUT_LAEDGE].p99 - rows[r].point[SIM_FANOUT_IDEALIZED].p99;
        *most = gap > *most ? gap : *most;
        if (a->load[r] >= 0.049 && a->load[r] <= 0.501) {
            sum += gap;
            n++;
        }
    }
    *mean = n > 0 ? sum / n : 0;
}

static int command_loads(const struct ask *a, struct sim_measures *measures)
{
    static struct row rows[LOADS_MAX];
    int crashed = sim_parallel(
        a->jobs, &(struct sim_items){.n = a->loads, .size = sizeof *rows, .fn = run_load, .ctx = a}, rows, NULL);
    if (crashed != 0) {
        fprintf(stderr, "bobtail-sim: hedge: %d loads could not be run\n", crashed);
        return 1;
    }
    double most, mean;
    gap_of(a, rows, &most, &mean);
    print_table(a, rows, "p99, in means of P", offsetof(struct sim_fanout_point, p99));
    print_table(a, rows, "\np50", offsetof(struct sim_fanout_point, p50));
    print_table(a, rows, "\nexecutions begun per request and shard", offsetof(struct sim_fanout_point, copies));
    print_chosen(a, rows);
    printf("\np99 of LoadAware above that of Idealized: largest %.2f, mean over loads 0.05 to 0.5 %.2f\n", most, mean);
    sim_measure(measures, "laedge_p99_gap_max", most, "meanP");
    sim_measure(measures, "laedge_p99_gap_mean", mean, "meanP");
    if (a->json == NULL) {
        return 0;
    }
    FILE *f = sim_option_open("--json", a->json);
    for (uint32_t r = 0; r < a->loads; r++) {
        fprintf(f, "%s{\"load\": %.9g,", r == 0 ? "[" : ",\n ", a->load[r]);
        json_points(f, rows[r].point);
        fputs("}", f);
    }
    fputs("]\n", f);
    return sim_option_close("--json", a->json, f);
}

/* --- cells ------------------------------------------------------------------------------------------------------- */

static void print_tally(enum sim_fanout_policy policy, const struct sim_fanout_tally *t, uint32_t n)
{
    double percent = 100.0 / n;
    printf("%-10s %6.1f %6.1f %6.1f %6u %6u %6u", sim_fanout_policy_name(policy), t->gain[0] * percent,
           t->gain[1] * percent, t->gain[2] * percent, t->p50, t->p99, t->harm);
    if (policy == SIM_FANOUT_IDEALIZED) {
        puts("");
        return;
    }
    printf(" %6u %8u   %u, %u, %u\n", t->on, t->on_harm, t->verdict[SIM_FANOUT_OVERLOADED],
           t->verdict[SIM_FANOUT_MEDIAN], t->verdict[SIM_FANOUT_TAIL]);
}

static int json_cells(const char *path, const struct sim_fanout_cell *cells, uint32_t n)
{
    FILE *f = sim_option_open("--json", path);
    for (uint32_t i = 0; i < n; i++) {
        fprintf(f, "%s{\"p\": %.9g, \"load\": %.9g, \"gate\": {", i == 0 ? "[" : ",\n ", cells[i].p, cells[i].load);
        for (uint32_t v = 0; v < SIM_FANOUT_VARIANTS; v++) {
            fprintf(f, "%s\"%s\": \"%s\"", v > 0 ? ", " : "", sim_fanout_policy_name(SIM_FANOUT_LAEDGE + v),
                    sim_fanout_verdict_name((enum sim_fanout_verdict)cells[i].verdict[v]));
        }
        fputs("},", f);
        json_points(f, cells[i].point);
        fputs("}", f);
    }
    fputs("]\n", f);
    return sim_option_close("--json", path, f);
}

static int command_cells(const struct ask *a, struct sim_measures *measures)
{
    static struct sim_fanout_cell cells[SIM_FANOUT_CELLS_MAX];
    uint32_t n = sim_fanout_cells_lay(cells, a->probabilities), on_harm = 0;
    if (sim_fanout_cells_run(&a->m, a->jobs, cells, n) != 0) {
        return 1;
    }
    printf("%u cells; cells with p99 more than 20, 30, 40 %% below PSQ, in %%; cells above 1.05 x PSQ;\n"
           "what the gate lets through, and of that, harmed; refused: overloaded, median, tail\n"
           "%-10s %6s %6s %6s %6s %6s %6s %6s %8s   %s\n",
           n, "", ">20", ">30", ">40", "p50", "p99", "either", "on", "on, harm", "refused");
    for (uint32_t policy = SIM_FANOUT_LAEDGE; policy <= SIM_FANOUT_IDEALIZED; policy++) {
        struct sim_fanout_tally t;
        sim_fanout_cells_tally(cells, n, (enum sim_fanout_policy)policy, &t);
        print_tally((enum sim_fanout_policy)policy, &t, n);
        on_harm += t.on_harm;
        if (policy == SIM_FANOUT_LAEDGE) {
            sim_measure(measures, "laedge_harm_cells", t.harm, "count");
        }
    }
    sim_measure(measures, "laedge_auto_harm_cells", on_harm, "count");
    return a->json != NULL ? json_cells(a->json, cells, n) : 0;
}

static int run(const struct ask *a)
{
    struct sim_measures measures;
    if (sim_measures_open(&measures, a->measurements) != 0) {
        return 2;
    }
    printf("%u shards of %u replicas, hiccups of %g, ", a->m.shards, a->m.replicas, a->m.d);
    if (!a->cells) {
        printf("probability %g, second copies delayed by %g, ", a->m.p, a->m.delay);
    }
    printf("%u requests, seed %llu\n", a->m.requests, (unsigned long long)a->m.seed);
    int code = a->cells ? command_cells(a, &measures) : command_loads(a, &measures);
    return sim_measures_close(&measures) == 0 ? code : 2;
}

int sim_command_hedge(int argc, char **argv)
{
    struct ask a = {.load = {0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8},
                    .loads = 15,
                    .probabilities = SIM_FANOUT_PROBABILITIES,
                    .jobs = 2};
    sim_fanout_defaults(&a.m);
    struct sim_fanout_model *m = &a.m;
    const double most_probabilities = SIM_FANOUT_CELLS_MAX / SIM_FANOUT_LOADS;
    const struct sim_option rows[] = {
        {"shards", SIM_OPTION_U32, &m->shards, .least = 1, .most = 1000},
        {"replicas", SIM_OPTION_U32, &m->replicas, .least = 1, .most = 16},
        {"p", SIM_OPTION_NUMBER, &m->p, .least = 0, .most = 1},
        {"d", SIM_OPTION_NUMBER, &m->d, .least = 0, .most = 10000},
        {"loads", SIM_OPTION_LIST, a.load, .least = 0.001, .most = 2, .max = LOADS_MAX, .count = &a.loads},
        {"delay", SIM_OPTION_NUMBER, &m->delay, .least = 0, .most = 10000},
        {"cleanup", SIM_OPTION_NAME, &m->cleanup, .max = SIM_FANOUT_CLEANUPS, .name_of = cleanup_name},
        SIM_FLAG("cells", &a.cells),
        {"probabilities", SIM_OPTION_U32, &a.probabilities, .least = 2, .most = most_probabilities},
        {"requests", SIM_OPTION_U32, &m->requests, .least = 1000, .most = 1e7, .given = &a.requests},
        {"seed", SIM_OPTION_U64, &m->seed, .least = 1, .most = 9e12},
        {"jobs", SIM_OPTION_U32, &a.jobs, .least = 1, .most = 64},
        SIM_TEXT("json", &a.json),
        SIM_TEXT("measurements", &a.measurements),
    };
    int code = sim_options_only(SIM_OPTIONS("hedge", usage_text, rows), argc, argv);
    if (code >= 0) {
        return code;
    }
    if (a.cells && !a.requests) {
        a.m.requests = 15000;
    }
    const char *why = sim_fanout_refuse(&a.m);
    if (why != NULL) {
        fprintf(stderr, "bobtail-sim: %s\n", why);
        return 2;
    }
    return run(&a);
}
