// SPDX-License-Identifier: Apache-2.0
// A member of a group with an aggregator. A leader whose term has a committed entry, and whose
// membership is committed, probes for it; once answered it sends each entry to the aggregator alone. Signs of life go
// to every member as before: no election depends on the aggregator. On any doubt the leader sends by itself again, in
// the same term. A follower acknowledges to the aggregator what came by way of it, and nothing more.
#ifndef BT_REPLICA_SHARE_H
#define BT_REPLICA_SHARE_H

#include "replica/state.h"

/* --- a leader --- */

// Does member i get its entries by way of the aggregator? Leaves it when that may no longer be.
bool replica_shares(struct bt_replica *r, int i);

// Entries that are durable here, to the aggregator.
void replica_share_feed(struct bt_replica *r);

// With every sign of life: one by way of the aggregator, and to each member one of its own; or a probe.
void replica_share_beat(struct bt_replica *r);

// A member that was served by itself has caught up.
void replica_share_back(struct bt_replica *r, uint16_t from);

/* --- a follower --- */

// `has` entries of a message by way of the aggregator are in the log.
void replica_share_taken(struct bt_replica *r, const struct bt_group_append *a, uint32_t has);
void replica_share_ack(struct bt_replica *r);

/* --- both --- */

// What only the aggregator says, or is to be told.
void replica_share_word(struct bt_replica *r, const struct bt_group_message *m);

#endif
