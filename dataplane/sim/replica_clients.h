// SPDX-License-Identifier: Apache-2.0
// Clients of a replication group: each has one write outstanding, and every write is another one, so that what is in
// the committed order twice was ordered twice. A write without an answer may or may not have happened.
#ifndef BOBTAIL_SIM_REPLICA_CLIENTS_H
#define BOBTAIL_SIM_REPLICA_CLIENTS_H

#include "replica_world.h"

void replica_clients_start(struct replica_world *w);

/* Time for the next write, which takes the place of one that had no answer; false: an old alarm. */
bool replica_client_wake(struct replica_world *w, const struct sim_event *ev);

/* A member's answers, on their way. */
void replica_client_answer(struct replica_world *w, uint32_t client, uint64_t op, const struct replica_did *did);
void replica_client_refused(struct replica_world *w, uint32_t client, uint64_t op, uint16_t leader);

/* An answer arrived. */
void replica_client_answered(struct replica_world *w, const struct sim_event *ev);

#endif
