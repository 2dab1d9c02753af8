// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim sched`: the product's scheduler of a server in virtual time: the published figures, or a sweep of seeds.
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "option.h"
#include "options.h"
#include "parallel.h"
#include "report.h"
#include "sched_figures.h"
#include "sched_sweep.h"

static const char usage_text[] =
    "usage: bobtail-sim sched figures|sweep [options]\n"
    "\n"
    "The scheduler that ships (src/sched) in virtual time.\n"
    "  figures   highest loads, steal rates and ladders, beside the published ones; judged\n"
    "  sweep     servers drawn from seeds: cores, mode, costs, lost hints, groups that move; nothing may be lost,\n"
    "            executed twice or out of a flow's order\n"
    "\n"
    "  --requests=N           figures: of a run (default 1000000)\n"
    "  --only=TEXT            figures: those whose name contains TEXT\n"
    "  --planted              figures: also from wrong servers, which a figure must notice\n"
    "  --seed=N               figures: (default 1)\n"
    "  --seeds=N --first=S    sweep: N seeds from S on (default 10000 from 1)\n"
    "  -j N, --jobs=N         processes (default 2)\n"
    "  --measurements=FILE    a JSON list of {name, value, unit}\n";

enum { FIGURES_MAX = 128, SHARES = 64 };

struct ask {
    uint64_t requests, seed, first, seeds;
    const char *only, *measurements;
    bool planted;
    unsigned jobs;
};

/* What is computed: the figures that were asked for, then the wrong servers of those. */
struct item {
    const struct sim_sched_figure *figure;
    const struct sim_sched_planted *planted; /* NULL: the right one */
};

struct items {
    const struct ask *a;
    struct item item[FIGURES_MAX];
    uint32_t n;
};

static const struct sim_sched_figure *figure_named(const char *name)
{
    for (uint32_t i = 0; i < sim_sched_figures_n; i++) {
        if (strcmp(sim_sched_figures[i].name, name) == 0) {
            return &sim_sched_figures[i];
        }
    }
    return NULL;
}

static void choose(struct items *all)
{
    for (uint32_t i = 0; i < sim_sched_figures_n; i++) {
        if (all->a->only == NULL || strstr(sim_sched_figures[i].name, all->a->only) != NULL) {
            all->item[all->n++] = (struct item){&sim_sched_figures[i], NULL};
        }
    }
    for (uint32_t i = 0; i < sim_sched_planted_n && all->a->planted; i++) {
        const struct sim_sched_figure *f = figure_named(sim_sched_planted[i].figure);
        if (all->a->only == NULL || strstr(f->name, all->a->only) != NULL) {
            all->item[all->n++] = (struct item){f, &sim_sched_planted[i]};
        }
    }
}

static void run_item(const void *ctx, uint32_t i, void *result)
{
    const struct items *all = ctx;
    const struct item *it = &all->item[i];
    double (*of)(const struct sim_sched_figure *, uint64_t, uint64_t) =
        it->planted != NULL ? it->planted->of : it->figure->of;
    *(double *)result = of(it->figure, all->a->requests, all->a->seed);
}

/* True: as it must be. */
static bool print_item(const struct item *it, double value)
{
    const struct sim_sched_figure *f = it->figure;
    bool within = value >= f->low && value <= f->high;
    if (it->planted != NULL) {
        printf("%-4s planted: %s: %s %.4f\n", within ? "FAIL" : "ok", it->planted->name, f->name, value);
        return !within;
    }
    printf("%-4s %-34s %8.4f  %.4g to %.4g  published %s\n", within ? "ok" : "FAIL", f->name, value, f->low, f->high,
           f->published);
    return within;
}

static int figures(const struct ask *a)
{
    struct items all = {.a = a};
    struct sim_measures measures;
    double value[FIGURES_MAX];
    uint32_t wrong = 0, uncaught = 0;
    choose(&all);
    if (all.n == 0) {
        fprintf(stderr, "bobtail-sim: sched: no figure's name contains %s\n", a->only);
        return 2;
    }
    if (sim_measures_open(&measures, a->measurements) != 0) {
        return 2;
    }
    if (sim_parallel(a->jobs, &(struct sim_items){.n = all.n, .size = sizeof *value, .fn = run_item, .ctx = &all},
                     value, NULL) != 0) {
        fprintf(stderr, "bobtail-sim: sched: figures could not be computed; is there memory?\n");
        return 1;
    }
    for (uint32_t i = 0; i < all.n; i++) {
        bool ok = print_item(&all.item[i], value[i]);
        wrong += !ok && all.item[i].planted == NULL;
        uncaught += !ok && all.item[i].planted != NULL;
        if (all.item[i].planted == NULL) {
            sim_measure(&measures, all.item[i].figure->name, value[i], all.item[i].figure->unit);
        }
    }
    if (a->planted) {
        sim_measure(&measures, "sched_figures_planted_uncaught", uncaught, "count");
    }
    return sim_measures_close(&measures) != 0 ? 2 : wrong + uncaught != 0;
}

struct part {
    struct sim_sched_verdict sum;
    uint64_t failed, first_failed;
};

static void run_part(const void *ctx, uint32_t i, void *result)
{
    const struct ask *a = ctx;
    struct part *p = result;
    for (uint64_t k = i; k < a->seeds; k += SHARES) {
        struct sim_sched_verdict v;
        sim_sched_seed(a->first + k, &v);
        sim_sched_add(&p->sum, &v);
        if (sim_sched_broken(&v) != 0) {
            p->failed++;
            p->first_failed = p->first_failed == 0 ? a->first + k : p->first_failed;
        }
    }
}

static void print_seed(uint64_t seed)
{
    struct sim_sched_verdict v;
    sim_sched_seed(seed, &v);
    printf("seed %lu: lost %u, doubled %u, reordered %u, together %u, astray %u, unmoved %u\n", (unsigned long)seed,
           v.lost, v.doubled, v.reordered, v.together, v.astray, v.unmoved);
}

static int sweep(const struct ask *a)
{
    static struct part part[SHARES];
    static int signals[SHARES];
    struct part all = {0};
    struct sim_measures measures;
    if (sim_measures_open(&measures, a->measurements) != 0) {
        return 2;
    }
    int lost = sim_parallel(a->jobs, &(struct sim_items){.n = SHARES, .size = sizeof *part, .fn = run_part, .ctx = a},
                            part, signals);
    for (uint32_t i = 0; i < SHARES; i++) {
        sim_sched_add(&all.sum, &part[i].sum);
        all.failed += part[i].failed + (signals[i] != 0);
        if (part[i].failed != 0) {
            print_seed(part[i].first_failed);
        } else if (signals[i] != 0) {
            printf("seeds %lu, %lu, ...: killed by signal %d\n", (unsigned long)(a->first + i),
                   (unsigned long)(a->first + i + SHARES), signals[i]);
        }
    }
    const struct sim_sched_verdict *v = &all.sum;
    printf("%lu seeds, %lu failed; %lu requests, %lu stolen, %lu networks borrowed, %lu migrations\n",
           (unsigned long)a->seeds, (unsigned long)all.failed, (unsigned long)v->requests, (unsigned long)v->stolen,
           (unsigned long)v->borrowed, (unsigned long)v->moves);
    bool tried = v->stolen != 0 && v->borrowed != 0 && v->moves != 0;
    sim_measure(&measures, "sched_sweep_seeds", (double)a->seeds, "count");
    sim_measure(&measures, "sched_sweep_failed", (double)all.failed + (lost < 0), "count");
    return sim_measures_close(&measures) != 0 ? 2 : all.failed != 0 || lost != 0 || !tried;
}

int sim_command_sched(int argc, char **argv)
{
    struct ask a = {.requests = 1000000, .seed = 1, .first = 1, .seeds = 10000, .jobs = 2};
    const struct sim_option rows[] = {
        {"requests", SIM_OPTION_U64, &a.requests, .least = 1000, .most = 1e8},
        SIM_TEXT("only", &a.only),
        SIM_FLAG("planted", &a.planted),
        {"seed", SIM_OPTION_U64, &a.seed, .least = 1, .most = 9e12},
        {"seeds", SIM_OPTION_U64, &a.seeds, .least = 1, .most = 1e8},
        {"first", SIM_OPTION_U64, &a.first, .least = 1, .most = 9e12},
        {"jobs", SIM_OPTION_U32, &a.jobs, .least = 1, .most = 64},
        SIM_TEXT("measurements", &a.measurements),
    };
    int code = sim_options_read(SIM_OPTIONS("sched", usage_text, rows), argc, argv);
    if (code >= 0) {
        return code;
    }
    if (optind + 1 == argc && strcmp(argv[optind], "figures") == 0) {
        return figures(&a);
    }
    if (optind + 1 == argc && strcmp(argv[optind], "sweep") == 0) {
        return sweep(&a);
    }
    fprintf(stderr, "bobtail-sim: sched takes figures or sweep, then options; see bobtail-sim sched --help\n");
    return 2;
}
