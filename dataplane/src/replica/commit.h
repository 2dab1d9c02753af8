// SPDX-License-Identifier: Apache-2.0
// The leader's commit: what a majority of the voters holds durably, when its last entry is of the leader's own term.
#ifndef BT_REPLICA_COMMIT_H
#define BT_REPLICA_COMMIT_H

#include "replica/state.h"

// Something became durable somewhere. Tells the members when the commit moved; a leader that the committed
// configuration no longer names hands over and steps down.
void replica_commit(struct bt_replica *r);

// A quorum holds all up to `held`, which the log has durably, as the aggregator says.
void replica_commit_told(struct bt_replica *r, uint64_t held);

#endif
