// SPDX-License-Identifier: Apache-2.0
// What the figure run says: a line per cell, the orders between cells, measurements.
#include "figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

static const struct sim_cell_outcome *find(const struct sim_cell_outcome *all, uint32_t n, const char *policy,
                                           const char *dist, double load)
{
    char name[SIM_NAME];
    snprintf(name, sizeof name, "%s_%s_%g", policy, dist, load);
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

/* What high variance turns round: a bound on the queue of a worker beats none; of what else one may do about
 * long requests sharing is best, then workers of their own for the short ones, then the shortest first (Q-3, Q-20 to
 * */
static uint32_t check_reversals(const struct sim_cell_outcome *all, uint32_t n, uint32_t *checked)
{
    static const struct {
        const char *less, *more, *dist;
        double load;
    } orders[] = {{"jbsq2", "jsq", "bimodal1", 0.9},
                  {"ps", "cscq", "bimodal2", 0.8},
                  {"cscq", "sjf", "bimodal2", 0.8},
                  {"cscq", "edf", "bimodal2", 0.8}};
    uint32_t wrong = 0;
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
        const struct sim_cell_outcome *a = find(all, n, orders[k].less, orders[k].dist, orders[k].load);
        const struct sim_cell_outcome *b = find(all, n, orders[k].more, orders[k].dist, orders[k].load);
        if (a == NULL || b == NULL) {
            continue;
        }
        ++*checked;
        if (a->p99 < b->p99) {
            continue;
        }
        printf("order broken (Q-63): %s p99 %.3f, %s p99 %.3f\n", a->name, a->p99, b->name, b->p99);
        wrong++;
    }
    return wrong;
}

/* Returns the number of orders that do not hold; a missing cell is skipped (--only). */
static uint32_t check_orders(const struct sim_cell_outcome *all, uint32_t n, uint32_t *checked)
{
    static const struct {
        const char *less, *more;
        double slack; /* Q-63 writes <= for the first two: equal up to noise */
    } orders[] = {{"jbsq1", "jbsq2", 0.005}, {"jbsq2", "random", 0.005}, {"p2c", "random", 0}};
    const double loads[] = {0.5, 0.8, 0.9, 0.95};
    uint32_t wrong = 0;
    for (size_t d = 0; sim_figure_dists[d] != NULL; d++) {
        for (size_t l = 0; l < sizeof loads / sizeof loads[0]; l++) {
            for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
                const struct sim_cell_outcome *a = find(all, n, orders[k].less, sim_figure_dists[d], loads[l]);
                const struct sim_cell_outcome *b = find(all, n, orders[k].more, sim_figure_dists[d], loads[l]);
                if (a == NULL || b == NULL) {
                    continue;
                }
                ++*checked;
                if (a->p99 <= b->p99 * (1 + orders[k].slack)) {
                    continue;
                }
                printf("order broken (Q-63): %s p99 %.3f, %s p99 %.3f\n", a->name, a->p99, b->name, b->p99);
                wrong++;
            }
        }
    }
    return wrong + check_reversals(all, n, checked);
}

static void print_cell(const struct sim_cell_outcome *o)
{
    printf("%-28s %9.4f %9.4f  ", o->name, o->mean, o->p99);
    for (uint32_t i = 0; i < o->checks; i++) {
        const struct sim_comparison *k = &o->check[i];
        if (k->want == 0 && k->ok) {
            continue; /* "must not happen", and did not */
        }
        if (k->want == 0) {
            printf("%s %.4g! ", k->what, k->got);
        } else {
            printf("%s %.4f (%+.2f%% of %.0f%%)%s ", k->what, k->want, 100 * (k->got / k->want - 1), 100 * k->tolerance,
                   k->ok ? "" : "!");
        }
    }
    printf(" %s\n", o->ok ? "ok" : "OUT OF BOUNDS");
}

int sim_figures_report(const struct sim_options *opt, const struct sim_cell_outcome *all, const int *signals,
                       uint32_t n, double wall)
{
    struct sim_measures m;
    uint32_t good = 0, orders = 0;
    uint64_t packets = 0;
    if (sim_measures_open(&m, opt->measurements) != 0) {
        return 2;
    }
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
        bool figure = strncmp(all[i].name, "same_", 5) != 0 && strncmp(all[i].name, "saturation_", 11) != 0;
        if (figure) {
            snprintf(name, sizeof name, "sim_p99_%s", all[i].name);
            sim_measure(&m, name, all[i].p99, "S");
        }
        for (uint32_t k = 0; k < all[i].checks; k++) {
            if (strncmp(all[i].check[k].what, "p99 table", 9) != 0) {
                continue;
            }
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
    if (sim_measures_close(&m) != 0) {
        return 2;
    }
    return good != n || wrong > 0;
}
