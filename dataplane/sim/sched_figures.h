// SPDX-License-Identifier: Apache-2.0
// The published figures of run to completion and work stealing, from the product's scheduler in virtual time.
#ifndef BOBTAIL_SIM_SCHED_FIGURES_H
#define BOBTAIL_SIM_SCHED_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

struct sim_sched_figure {
    const char *name, *unit;
    double low, high;      /* what it must be between */
    const char *published; /* beside which it stands */
    /* Requests a run: the more, the finer. */
    double (*of)(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);
    uint32_t distribution; /* enum sim_dist_kind */
    double mean_us, overhead_us, slo_us;
};

extern const struct sim_sched_figure sim_sched_figures[];
extern const uint32_t sim_sched_figures_n;

/* Mistakes that a figure must notice: what the figure of that name is when the server is the wrong one. */
struct sim_sched_planted {
    const char *name, *figure;
    double (*of)(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);
};

extern const struct sim_sched_planted sim_sched_planted[];
extern const uint32_t sim_sched_planted_n;

#endif
