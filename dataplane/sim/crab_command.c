// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim crab`: p99 over load for every way CRAB may choose a server, beside the published order.
#include <stdio.h>

#include "commands.h"
#include "crab_model.h"
#include "option.h"
#include "options.h"
#include "parallel.h"
#include "report.h"

static const char usage_text[] =
    "usage: bobtail-sim crab [options]\n"
    "\n"
    "Connections of one request each, balanced by CRAB's policies over FCFS servers, without packets. Unit: the mean\n"
    "service time.\n"
    "\n"
    "  --clients=N --servers=N   (default 16, 16)\n"
    "  --loads=LIST              of a server (default 0.5,0.7,0.8,0.9,0.95)\n"
    "  --service=fixed|exp       (default fixed)\n"
    "  --report-every=T          between two reports of a server, for PowerOfTwo and Least (default 1)\n"
    "  --requests=N              per point (default 3000000); the first tenth is left out\n"
    "  --seed=N --jobs=N         (default 1, 2)\n"
    "  --json=FILE --measurements=FILE\n";

enum { LOADS_MAX = 32 };

struct ask {
    struct sim_crab_model m;
    double load[LOADS_MAX];
    uint32_t loads;
    unsigned jobs;
    const char *json, *measurements;
};

struct cell {
    struct sim_crab_point point;
    bool ran;
};

static const char *service_name(uint32_t i)
{
    return i == 0 ? "fixed" : "exp";
}

static void read_service(void *to, const char *option, const char *text)
{
    *(bool *)to = sim_option_named(option, text, service_name, 2) == 1;
}

static void run_cell(const void *ctx, uint32_t i, void *result)
{
    const struct ask *a = ctx;
    struct sim_crab_model m = a->m;
    struct cell *cell = result;
    m.load = a->load[i / SIM_CRAB_VARIANTS];
    cell->ran = sim_crab_run(&m, (enum sim_crab_variant)(i % SIM_CRAB_VARIANTS), &cell->point) == 0;
}

static void print_table(const struct ask *a, const struct cell *cells)
{
    printf("p99 of the sojourn, in mean service times; %u clients, %u servers, %s service\n%6s", a->m.clients,
           a->m.servers, a->m.exponential ? "exponential" : "fixed", "load");
    for (uint32_t v = 0; v < SIM_CRAB_VARIANTS; v++) {
        printf(" %10s", sim_crab_variant_name((enum sim_crab_variant)v));
    }
    for (uint32_t l = 0; l < a->loads; l++) {
        printf("\n%6.2f", a->load[l]);
        for (uint32_t v = 0; v < SIM_CRAB_VARIANTS; v++) {
            printf(" %10.2f", cells[l * SIM_CRAB_VARIANTS + v].point.p99);
        }
    }
    puts("");
}

/* C-RR below D-RR below random at every load. Counts where that is not so. */
static uint32_t out_of_order(const struct ask *a, const struct cell *cells)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < a->loads; l++) {
        const struct cell *row = &cells[l * SIM_CRAB_VARIANTS];
        n += !(row[SIM_CRAB_CENTRAL].point.p99 < row[SIM_CRAB_DISTRIBUTED].point.p99 &&
               row[SIM_CRAB_DISTRIBUTED].point.p99 < row[SIM_CRAB_RANDOM].point.p99);
    }
    return n;
}

static int write_json(const struct ask *a, const struct cell *cells)
{
    FILE *f = sim_option_open("--json", a->json);
    for (uint32_t l = 0; l < a->loads; l++) {
        fprintf(f, "%s{\"load\": %.9g", l == 0 ? "[" : ",\n ", a->load[l]);
        for (uint32_t v = 0; v < SIM_CRAB_VARIANTS; v++) {
            const struct sim_crab_point *p = &cells[l * SIM_CRAB_VARIANTS + v].point;
            fprintf(f, ", \"%s\": {\"p50\": %.9g, \"p99\": %.9g, \"imbalance\": %.9g}",
                    sim_crab_variant_name((enum sim_crab_variant)v), p->p50, p->p99, p->imbalance);
        }
        fputs("}", f);
    }
    fputs("]\n", f);
    return sim_option_close("--json", a->json, f);
}

static int command(const struct ask *a)
{
    static struct cell cells[LOADS_MAX * SIM_CRAB_VARIANTS];
    struct sim_measures measures;
    uint32_t n = a->loads * SIM_CRAB_VARIANTS;
    if (sim_measures_open(&measures, a->measurements) != 0) {
        return 2;
    }
    int lost = sim_parallel(a->jobs, &(struct sim_items){.n = n, .size = sizeof *cells, .fn = run_cell, .ctx = a},
                            cells, NULL);
    for (uint32_t i = 0; i < n && lost == 0; i++) {
        lost = !cells[i].ran;
    }
    if (lost != 0) {
        fprintf(stderr, "bobtail-sim: crab: points could not be run; is there memory?\n");
        return 1;
    }
    print_table(a, cells);
    uint32_t wrong = out_of_order(a, cells);
    printf("loads at which C-RR < D-RR < random does not hold: %u\n", wrong);
    sim_measure(&measures, "crab_sim_loads_out_of_order", wrong, "count");
    int code = a->json != NULL ? write_json(a, cells) : 0;
    return sim_measures_close(&measures) != 0 ? 2 : code != 0 ? code : wrong != 0;
}

int sim_command_crab(int argc, char **argv)
{
    struct ask a = {.m = {.clients = 16, .servers = 16, .report_every = 1, .requests = 3000000, .seed = 1},
                    .load = {0.5, 0.7, 0.8, 0.9, 0.95},
                    .loads = 5,
                    .jobs = 2};
    const struct sim_option rows[] = {
        {"clients", SIM_OPTION_U32, &a.m.clients, .least = 1, .most = SIM_CRAB_MOST},
        {"servers", SIM_OPTION_U32, &a.m.servers, .least = 1, .most = SIM_CRAB_MOST},
        {"loads", SIM_OPTION_LIST, a.load, .least = 0.001, .most = 0.999, .max = LOADS_MAX, .count = &a.loads},
        {"service", SIM_OPTION_OTHER, &a.m.exponential, .read = read_service},
        {"report-every", SIM_OPTION_NUMBER, &a.m.report_every, .least = 0.001, .most = 1e6},
        {"requests", SIM_OPTION_U64, &a.m.requests, .least = 1000, .most = 1e9},
        {"seed", SIM_OPTION_U64, &a.m.seed, .least = 1, .most = 9e12},
        {"jobs", SIM_OPTION_U32, &a.jobs, .least = 1, .most = 64},
        SIM_TEXT("json", &a.json),
        SIM_TEXT("measurements", &a.measurements),
    };
    int code = sim_options_only(SIM_OPTIONS("crab", usage_text, rows), argc, argv);
    return code >= 0 ? code : command(&a);
}
