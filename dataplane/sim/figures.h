// SPDX-License-Identifier: Apache-2.0
// The figure table: its rows, what became of each, and how both are named.
#ifndef BOBTAIL_SIM_FIGURES_H
#define BOBTAIL_SIM_FIGURES_H

#include "commands.h"
#include "scenario.h"

enum { SIM_CELLS_MAX = 128, SIM_CHECKS_MAX = 16 };
enum sim_cell_kind { SIM_CELL_PLAIN, SIM_CELL_SATURATION, SIM_CELL_SAME, SIM_CELL_DISCIPLINE };

/* One row of the expected table. */
struct sim_cell {
    enum sim_cell_kind what;
    uint32_t policy, n, dist, late; /* late: only in the long variant */
    uint32_t like_policy;           /* SIM_CELL_SAME: 0 the pure model Q-1, 1 JSQ */
    uint32_t discipline, workers;   /* SIM_CELL_DISCIPLINE: enum sim_policy_kind less SIM_POLICY_SJF */
    double load, p99, tolerance, dispatch_us, feedback_us;
    uint64_t requests;
};

struct sim_figures {
    struct sim_cell cell[SIM_CELLS_MAX];
    uint32_t cells;
};

/* One comparison inside a cell. */
struct sim_comparison {
    char what[24];
    double got, want, tolerance;
    bool ok;
};

struct sim_cell_outcome {
    char name[SIM_NAME];
    struct sim_comparison check[SIM_CHECKS_MAX];
    uint32_t checks;
    double mean, p99, wall;
    uint64_t packets;
    bool ok;
};

extern const char *const sim_figure_dists[];

/* Reads the table; 0, or -1 with a message on stderr. */
int sim_figures_read(const char *path, struct sim_figures *out);
/* "jbsq2_exponential_0.9", "saturation_n2_delay1.5", "same_rr_deterministic_0.9_as_central", "ps_bimodal1_0.8",
 * "sjf1_exponential_0.8": one worker. */
void sim_cell_name(const struct sim_cell *c, char *out, size_t n);
/* Notes that got is to be want, within tolerance (relative). */
void sim_cell_compare(struct sim_cell_outcome *o, const char *what, double got, double want, double tolerance);
/* How far off Q-61 lets a mean be at this load. */
double sim_mean_tolerance(double load);
/* Runs a cell of a discipline: no packets. */
void sim_cell_discipline(const struct sim_cell *c, uint64_t seed, struct sim_cell_outcome *o);
/* Prints every cell and the orders of Q-63, writes the measurements; the exit code of the command. */
int sim_figures_report(const struct sim_options *opt, const struct sim_cell_outcome *all, const int *signals,
                       uint32_t n, double wall);

#endif
