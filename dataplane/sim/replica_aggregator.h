/* SPDX-License-Identifier: Apache-2.0 */
// The aggregator of HovercRaft++ in the simulated world: the shipped object, with faults of its own.
#ifndef BOBTAIL_SIM_REPLICA_AGGREGATOR_H
#define BOBTAIL_SIM_REPLICA_AGGREGATOR_H

#include "replica_world.h"

/* Empty; nothing when it is up. */
void replica_aggregator_start(struct replica_world *w);

/* It is gone with all it knew, at times only for a moment. */
void replica_aggregator_crash(struct replica_world *w);

/* Its registers are lost, and its table of the members is not. */
void replica_aggregator_forget(struct replica_world *w);

/* A message for it; freed. */
void replica_aggregator_event(struct replica_world *w, const struct sim_event *ev);

#endif
