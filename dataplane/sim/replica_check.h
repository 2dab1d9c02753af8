// SPDX-License-Identifier: Apache-2.0
// The judge of a replication group: after every step of a member, and of every message it sends, the invariants I-1 to
// I-9 of Raft. It knows what all members ever had and what each disk holds; the members do not.
#ifndef BOBTAIL_SIM_REPLICA_CHECK_H
#define BOBTAIL_SIM_REPLICA_CHECK_H

#include "replica_record.h"

/* A member came up: what the judge saw of it before says nothing any more. */
void replica_check_started(struct replica_world *w, uint16_t id);
void replica_check_step(struct replica_world *w, uint16_t id);
void replica_check_sent(struct replica_world *w, uint16_t from, uint16_t to, const uint8_t *message, size_t n);

#endif
