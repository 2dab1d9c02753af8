// SPDX-License-Identifier: Apache-2.0
// Are the states the same where the logs are (R-391 to R-394, I-11)? Members tell their leader hashes of their states.
// The leader compares them at equal indices. Whoever differs from a majority of the voters executes nothing more until
// it has got the leader's state.
//
// Its log is as good as any other, so it goes on to store, to acknowledge and to vote: what it acknowledges counts for
// entries, not for what came of them, and the group keeps its majority. It never leads: a leader answers clients and
// gives its state away.
#ifndef BT_REPLICA_STATES_H
#define BT_REPLICA_STATES_H

#include "replica/state.h"

// Where this member's state is known to differ; 0: nowhere.
static inline uint64_t replica_states_differs(const struct replica_peer *p)
{
    return p->right.index;
}

/* --- a member --- */

// Of the leader of this term: a majority has another state.
void replica_states_other(struct bt_replica *r, const struct bt_group_message *m);

// A fenced member says so, once in a while.
void replica_states_remind(struct bt_replica *r);

// The state is another one now: nothing that was said of it counts.
void replica_states_replaced(struct bt_replica *r);

/* --- a leader --- */

// A member says what it had.
void replica_states_told(struct bt_replica *r, const struct bt_group_message *m);

// With every sign of life: who differs is told, and gets a snapshot.
void replica_states_beat(struct bt_replica *r);

// It has the leader's state.
void replica_states_mended(struct replica_peer *p);

// A fenced member waits for a snapshot that is not taken yet, and could be.
bool replica_states_mending(const struct bt_replica *r);

#endif
