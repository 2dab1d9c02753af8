// SPDX-License-Identifier: Apache-2.0
// Where hedging pays and where it hurts: fanout_model.h over a grid of loads and hiccup probabilities, and what a gate
// says of each cell that has seen nothing but another run of the model.
#ifndef BOBTAIL_SIM_FANOUT_CELLS_H
#define BOBTAIL_SIM_FANOUT_CELLS_H

#include "fanout_model.h"

/* What the gate says of a policy in front of a service. */
enum sim_fanout_verdict {
    SIM_FANOUT_PAYS,
    SIM_FANOUT_OVERLOADED, /* without copies, replicas are busy all the time already */
    SIM_FANOUT_MEDIAN,     /* typical requests would wait behind copies */
    SIM_FANOUT_TAIL,       /* the tail would not get shorter by enough */
    SIM_FANOUT_VERDICTS
};

enum { SIM_FANOUT_VARIANTS = 3, SIM_FANOUT_CELLS_MAX = 4096, SIM_FANOUT_PROBABILITIES = 11, SIM_FANOUT_LOADS = 16 };

struct sim_fanout_cell {
    double p, load;
    struct sim_fanout_point point[SIM_FANOUT_POLICIES]; /* PSQ, load-aware ones, Idealized */
    uint8_t verdict[SIM_FANOUT_VARIANTS];               /* LAEDGE + 0, 1, 2: enum sim_fanout_verdict of the other run */
};

/* Of one policy, over all cells. */
struct sim_fanout_tally {
    uint32_t gain[3];        /* cells whose p99 is more than 20, 30, 40 % below that of PSQ */
    uint32_t p50, p99, harm; /* cells above 1.05 × PSQ: at p50, at p99, at either */
    uint32_t on, on_harm;    /* cells the gate lets through; of them, harmed */
    uint32_t verdict[SIM_FANOUT_VERDICTS];
};

const char *sim_fanout_verdict_name(enum sim_fanout_verdict verdict);
/* The gate: what the model says of the policy next to what it says of PSQ. */
enum sim_fanout_verdict sim_fanout_gate(const struct sim_fanout_point *psq, const struct sim_fanout_point *hedged);
/* True when p50 or p99 is above 1.05 × that of PSQ. */
int sim_fanout_harms(const struct sim_fanout_point *psq, const struct sim_fanout_point *hedged);

/* So many probabilities from 0.1 to 0.00001, evenly on a log axis, by 16 loads from 0.05 to 0.80; returns how many
 * cells. The published grid is not stated. */
uint32_t sim_fanout_cells_lay(struct sim_fanout_cell *cells, uint32_t probabilities);
/* Runs m in each cell, on `jobs` processes; returns 0, or -1 with a message on stderr. */
int sim_fanout_cells_run(const struct sim_fanout_model *m, unsigned jobs, struct sim_fanout_cell *cells, uint32_t n);
void sim_fanout_cells_tally(const struct sim_fanout_cell *cells, uint32_t n, enum sim_fanout_policy policy,
                            struct sim_fanout_tally *out);

#endif
