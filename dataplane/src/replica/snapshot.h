// SPDX-License-Identifier: Apache-2.0
// Snapshots: taken here, or received in chunks; believed once durable, then the log before them goes.
#ifndef BT_REPLICA_SNAPSHOT_H
#define BT_REPLICA_SNAPSHOT_H

#include "replica/state.h"

// A chunk from the leader of the own term.
void replica_snapshot_chunk(struct bt_replica *r, const struct bt_group_message *m);

// More became durable: the spare snapshot, perhaps.
void replica_snapshot_settled(struct bt_replica *r);

// A log that is nearly full keeps nothing for members that are behind: they get the snapshot.
void replica_make_room(struct bt_replica *r);

#endif
