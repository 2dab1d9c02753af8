// SPDX-License-Identifier: Apache-2.0
// The judge of majorities: of who was elected, and of what is called committed.
#ifndef BOBTAIL_SIM_REPLICA_CHECK_MAJORITY_H
#define BOBTAIL_SIM_REPLICA_CHECK_MAJORITY_H

#include "replica_record.h"

void replica_check_election(struct replica_world *w, uint16_t id, const struct bt_replica_status *s);
void replica_check_complete(struct replica_world *w, uint16_t id, const struct bt_replica_status *s);
void replica_check_held(struct replica_world *w, uint16_t id, const struct bt_replica_status *s);

/* The aggregator announces a commit. */
void replica_check_announced(struct replica_world *w, uint64_t term, const struct bt_group_committed *c);

#endif
