// SPDX-License-Identifier: Apache-2.0
// Elections: the question before (pre-vote), votes, and what makes a member begin one.
#ifndef BT_REPLICA_ELECTION_H
#define BT_REPLICA_ELECTION_H

#include "replica/state.h"

// No word of a leader for too long.
void replica_election_begin(struct bt_replica *r);

// The leader asked this member to take over: no question before.
void replica_election_take_over(struct bt_replica *r);

// A vote is asked for; of a later term too. False when it is to be passed over, before its term is looked at.
bool replica_vote_welcome(struct bt_replica *r, const struct bt_group_message *m);
void replica_vote_asked(struct bt_replica *r, const struct bt_group_message *m);
void replica_vote_answered(struct bt_replica *r, const struct bt_group_message *m);

// Term and vote became durable: the vote may be told, or votes asked for.
void replica_election_settled(struct bt_replica *r);

#endif
