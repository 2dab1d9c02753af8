// SPDX-License-Identifier: Apache-2.0
// What is done to a replication group: crashes, cuts, pauses, skewed clocks, transfers, changes of membership.
#ifndef BOBTAIL_SIM_REPLICA_FAULTS_H
#define BOBTAIL_SIM_REPLICA_FAULTS_H

#include "replica_world.h"

/* One fault, and when the next one comes. */
void replica_fault(struct replica_world *w);
/* A member crashes and is back at once. */
void replica_blink(struct replica_world *w, uint16_t id);
/* The leadership goes to one who had it before. */
void replica_back(struct replica_world *w, uint16_t id);
void replica_restart(struct replica_world *w, uint16_t id);

/* A learner is added, a learner promoted or a member removed, by the leader; true when it began. */
bool replica_change_something(struct replica_world *w);

/* Faults are over: all members are up and reach one another. */
void replica_faults_over(struct replica_world *w);

#endif
