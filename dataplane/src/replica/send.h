// SPDX-License-Identifier: Apache-2.0
// Messages of this member: every one with its term, its group and its cluster.
#ifndef BT_REPLICA_SEND_H
#define BT_REPLICA_SEND_H

#include "replica/state.h"

// r->out with its header; the caller fills the rest in.
struct bt_group_message *replica_message(struct bt_replica *r, enum bt_group_type type);
void replica_send(struct bt_replica *r, uint16_t to);

void replica_send_vote_reply(struct bt_replica *r, uint16_t to, uint32_t flags, uint64_t asked);

// All up to min(verified, durable) is durable here, if the term is too. Else word is due.
void replica_send_ack(struct bt_replica *r);

// Nobody has the body of the entry after the log's end.
void replica_send_bodyless(struct bt_replica *r, uint16_t to);
void replica_send_refusal(struct bt_replica *r, uint16_t to, uint64_t refused, uint64_t last);

#endif
