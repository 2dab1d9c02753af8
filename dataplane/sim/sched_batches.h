// SPDX-License-Identifier: Apache-2.0
// What batches are worth to completion, and when that beats stealing (Z-04): three servers of 16 cores, the highest
// load within an objective each. A core pays for each look at its network and for each request; both are inputs, found
// again from what was published of two systems, and not measured here. Replies of a batch leave when it is done (Z-03).
#ifndef BOBTAIL_SIM_SCHED_BATCHES_H
#define BOBTAIL_SIM_SCHED_BATCHES_H

#include "sched_figures.h"

#define SIM_BATCH_FIGURE(name) double name(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)

/* Batches of 16 over those of one, short requests; and of 64 over 16. */
SIM_BATCH_FIGURE(sim_batch_gain);
SIM_BATCH_FIGURE(sim_batch_beyond_16);
/* Batches of one over the same without costs. */
SIM_BATCH_FIGURE(sim_batch_share);
/* At 10 times the mean: stealing over batches of one, those over batches of 64. */
SIM_BATCH_FIGURE(sim_batch_tight_stealing);
SIM_BATCH_FIGURE(sim_batch_tight_batches);
/* At 100 times the mean: batches of 64 over stealing. */
SIM_BATCH_FIGURE(sim_batch_loose);

/* Wrong ones. */
SIM_BATCH_FIGURE(sim_batch_gain_wrong);
SIM_BATCH_FIGURE(sim_batch_share_wrong);
SIM_BATCH_FIGURE(sim_batch_tight_batches_wrong);
SIM_BATCH_FIGURE(sim_batch_loose_wrong);

#endif
