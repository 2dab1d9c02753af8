// SPDX-License-Identifier: Apache-2.0
// Who is in the group: the configuration in force, and what a majority of it is.
#ifndef BT_REPLICA_MEMBERS_H
#define BT_REPLICA_MEMBERS_H

#include "replica/state.h"

// Its place in the configuration in force; -1 when it is not in it.
int replica_member(const struct bt_replica *r, uint16_t id);
bool replica_votes(const struct bt_replica *r, uint16_t id);

// This member may begin an election: it has a vote, or had one before a change that it does not know to be committed.
// Others may refuse to follow whoever lacks that change, and this one may be the only other one that has it.
bool replica_stands(const struct bt_replica *r);

// Votes that decide.
uint32_t replica_majority(const struct bt_replica *r);

// Voters whose peer is granted; the member itself is one of them.
uint32_t replica_granted(const struct bt_replica *r);
void replica_grant_none(struct bt_replica *r);
bool replica_grant(struct bt_replica *r, uint16_t id);

// The highest index that a majority of the voters holds durably.
uint64_t replica_held_by_majority(const struct bt_replica *r);

// The configuration after `index`: the last one in the log up to there, else the snapshot's. *at is its entry.
void replica_config_at(const struct bt_replica *r, uint64_t index, struct bt_group_config *out, uint64_t *at);

// Puts the last one in the log into force; what is known of members that stay is kept.
void replica_config_adopt(struct bt_replica *r);

#endif
