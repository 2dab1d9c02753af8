// SPDX-License-Identifier: Apache-2.0
// The states of a flow (Z-21) and their only changes. Every function wants the lock of the flow's home.
#ifndef BT_SCHED_FLOW_H
#define BT_SCHED_FLOW_H

#include "sched/state.h"

// An event came; an idle flow becomes ready and is queued at home.
void sched_flow_event(struct bt_sched *s, uint32_t home, struct bt_sched_event *event);
// It was taken out of the queue to be executed: what for.
struct bt_sched_event *sched_flow_begin(struct bt_sched *s, uint32_t flow);
// Its replies have left: idle, or ready again.
void sched_flow_end(struct bt_sched *s, uint32_t home, uint32_t flow);

#endif
