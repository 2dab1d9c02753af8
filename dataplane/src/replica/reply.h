// SPDX-License-Identifier: Apache-2.0
// What followers answer, at the leader.
#ifndef BT_REPLICA_REPLY_H
#define BT_REPLICA_REPLY_H

#include "replica/state.h"

// Of the own term, at its leader.
void replica_append_answered(struct bt_replica *r, const struct bt_group_message *m);
void replica_snapshot_answered(struct bt_replica *r, const struct bt_group_message *m);

#endif
