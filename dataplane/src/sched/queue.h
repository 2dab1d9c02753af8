// SPDX-License-Identifier: Apache-2.0
// The shuffle queue of a home and the number of its flows that others read. With the home's lock.
#ifndef BT_SCHED_QUEUE_H
#define BT_SCHED_QUEUE_H

#include "sched/list.h"

static inline void sched_queue_add(struct bt_sched *s, uint32_t home, uint32_t flow)
{
    struct sched_core *c = &s->core[home];
    sched_flows_add(s, &c->queue, flow);
    sched_count(&c->ready, 1u);
}

// BT_SCHED_NONE when there is none.
static inline uint32_t sched_queue_take(struct bt_sched *s, uint32_t home)
{
    struct sched_core *c = &s->core[home];
    uint32_t flow = sched_flows_take(s, &c->queue);
    if (flow != BT_SCHED_NONE) {
        sched_count(&c->ready, UINT32_MAX);
    }
    return flow;
}

#endif
