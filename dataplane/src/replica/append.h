// SPDX-License-Identifier: Apache-2.0
// Entries from the leader, at a follower: what follows the log is taken, what contradicts it replaced.
#ifndef BT_REPLICA_APPEND_H
#define BT_REPLICA_APPEND_H

#include "replica/state.h"

// From the leader of the own term, which is followed already.
void replica_append(struct bt_replica *r, const struct bt_group_message *m);

#endif
