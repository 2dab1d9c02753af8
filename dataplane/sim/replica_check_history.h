// SPDX-License-Identifier: Apache-2.0
// The judge of what clients were told.
#ifndef BOBTAIL_SIM_REPLICA_CHECK_HISTORY_H
#define BOBTAIL_SIM_REPLICA_CHECK_HISTORY_H

#include "replica_record.h"

/* A client learns that its write is at this index. */
void replica_check_acknowledged(struct replica_world *w, uint64_t index, uint64_t op, uint64_t floor);

/* Writes that were executed twice, however often they were asked for. */
uint64_t replica_check_executed_twice(const struct replica_world *w);
uint64_t replica_check_dropped_executed(const struct replica_world *w);

/* Acknowledged writes that are not where they were; the members hold all there is to hold. */
uint64_t replica_check_lost(const struct replica_world *w);

#endif
