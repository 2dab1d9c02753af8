// SPDX-License-Identifier: Apache-2.0
// A leader's part of R-399: a member says that nobody has the body of an entry. Then the hash is wrong: the entry's, or
// what the member reckons. What the group committed the member gets as a state. What too few members can ever hold is
// not committed: another leader orders the request anew, by its own copy.
#ifndef BT_REPLICA_BODYLESS_H
#define BT_REPLICA_BODYLESS_H

#include "replica/state.h"

// Member i says so of the entry after `last`.
void replica_bodyless_told(struct bt_replica *r, int i, uint64_t last);

// With every sign of life: who lacks a body for good gets a snapshot, or the leadership ends.
void replica_bodyless_beat(struct bt_replica *r);

// A member waits for a snapshot that is not taken yet, and could be.
bool replica_bodyless_waits(const struct bt_replica *r);

#endif
