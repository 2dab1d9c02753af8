// SPDX-License-Identifier: Apache-2.0
// To follow and to lead.
#ifndef BT_REPLICA_ROLE_H
#define BT_REPLICA_ROLE_H

#include "replica/state.h"

// A follower of this term, which is the own one or a later one; leader 0: not known.
void replica_follow(struct bt_replica *r, uint64_t term, uint16_t leader);

// A majority voted for this member: it begins its term with an entry that does nothing.
void replica_lead(struct bt_replica *r);

// The next election is one to two election times away.
void replica_patience(struct bt_replica *r);

#endif
