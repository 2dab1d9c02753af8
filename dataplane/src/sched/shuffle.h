// SPDX-License-Identifier: Apache-2.0
// Taking from a shuffle queue (Z-20, Z-23): ready flows, oldest first, which the home and thieves take from.
#ifndef BT_SCHED_SHUFFLE_H
#define BT_SCHED_SHUFFLE_H

#include "sched/state.h"

// The head, made BUSY, is w's. The home waits for its lock. False: nothing there.
bool sched_shuffle_own(struct bt_sched *s, uint32_t self, struct bt_sched_work *w);
// A thief goes on when the lock is taken: false then, too.
bool sched_shuffle_steal(struct bt_sched *s, uint32_t self, uint32_t from, struct bt_sched_work *w);

#endif
