// SPDX-License-Identifier: Apache-2.0
// The published figures of flow control by waiting time, and ours, from the product's objects in virtual time.
#ifndef BOBTAIL_SIM_FC_FIGURES_H
#define BOBTAIL_SIM_FC_FIGURES_H

#include <stdint.h>

struct sim_sched_figure;

/* The largest distance of F-3 from the published loads. */
double sim_fc_paper_load_error(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);
/* The longest p99 of the wait, in us: service all alike, exponential and bimodal, 1 and 16 cores a queue, as much asked
 * for as the cores can do and half more. */
double sim_fc_refined_wait(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);
/* Of the same runs: the load that was let in, over the one that meets the objective; that furthest from 1. */
double sim_fc_refined_load(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);
/* Group A has both replicas, group B one of them, 800,000 requests a second each: p99 of A in us; what the shared
 * replica serves, in thousands a second. */
double sim_fc_two_replicas(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);
double sim_fc_two_replicas_plain(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);
double sim_fc_two_replicas_shared(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);

/* Planted. */
double sim_fc_blind_load_error(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);
double sim_fc_published_wait(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);

#endif
