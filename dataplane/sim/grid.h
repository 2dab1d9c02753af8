// SPDX-License-Identifier: Apache-2.0
// The points of a scenario's grid, what became of each, and how they are written.
#ifndef BOBTAIL_SIM_GRID_H
#define BOBTAIL_SIM_GRID_H

#include <stdio.h>

#include "extras.h"

enum { SIM_POINTS_MAX = 20000 };

/* One run: where it stands on the grid, and its outcome. */
struct sim_grid_run {
    uint32_t policy, depth, workers;
    double load;
    uint64_t seed;
    struct sim_result result;
    struct sim_extras extras;
};

/* All runs of a scenario, the seeds of one point beside each other. */
struct sim_grid_runs {
    const struct sim_scenario *s; /* as the first seed drew it */
    uint32_t n, seeds;
    struct sim_grid_run *run;
    const int *signals; /* per run: the signal it died of, 0: none */
};

void sim_grid_table(FILE *f, const struct sim_grid_runs *g);
void sim_grid_csv(FILE *f, const struct sim_grid_runs *g);
void sim_grid_json(FILE *f, const struct sim_grid_runs *g);
/* One line per row of time. */
void sim_grid_series(FILE *f, const struct sim_grid_runs *g);
/* One ll7 histogram per point, seeds merged. */
void sim_grid_histograms(FILE *f, const struct sim_grid_runs *g);

#endif
