// SPDX-License-Identifier: Apache-2.0
// Handing the leadership over: the chosen member is brought up to date, then told to begin an election at once.
#ifndef BT_REPLICA_TRANSFER_H
#define BT_REPLICA_TRANSFER_H

#include "replica/state.h"

// The leader has news: is the chosen member ready, or was it waited for too long?
void replica_transfer_step(struct bt_replica *r);

// To whoever has most of the log, without waiting: this member is about to stop leading.
void replica_hand_over(struct bt_replica *r);

#endif
