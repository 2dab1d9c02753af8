// SPDX-License-Identifier: Apache-2.0
// First in, first out lists of events and of flows, linked through what they hold. Who calls owns the list.
#ifndef BT_SCHED_LIST_H
#define BT_SCHED_LIST_H

#include "sched/state.h"

static inline void sched_events_clear(struct sched_events *l)
{
    sched_put(&l->first, (struct bt_sched_event *)NULL);
    sched_put(&l->last, (struct bt_sched_event *)NULL);
}

static inline void sched_events_add(struct sched_events *l, struct bt_sched_event *e)
{
    struct bt_sched_event *last = sched_get(&l->last);
    sched_put(&e->next, (struct bt_sched_event *)NULL);
    if (last == NULL) {
        sched_put(&l->first, e);
    } else {
        sched_put(&last->next, e);
    }
    sched_put(&l->last, e);
}

// The oldest `most` of them, 0 for all, as a chain that ends with NULL.
static inline struct bt_sched_event *sched_events_take(struct sched_events *l, uint32_t most)
{
    struct bt_sched_event *first = sched_get(&l->first), *end = first;
    for (uint32_t n = 1; most != 0 && end != NULL && n < most; n++) {
        end = sched_get(&end->next);
    }
    if (most == 0 || end == NULL || sched_get(&end->next) == NULL) {
        sched_events_clear(l);
        return first;
    }
    sched_put(&l->first, sched_get(&end->next));
    sched_put(&end->next, (struct bt_sched_event *)NULL);
    return first;
}

static inline void sched_flows_clear(struct sched_flows *l)
{
    sched_put(&l->first, 0u);
    sched_put(&l->last, 0u);
}

static inline void sched_flows_add(struct bt_sched *s, struct sched_flows *l, uint32_t flow)
{
    uint32_t last = sched_get(&l->last);
    sched_put(&s->flow[flow].next, 0u);
    if (last == 0) {
        sched_put(&l->first, flow + 1u);
    } else {
        sched_put(&s->flow[last - 1u].next, flow + 1u);
    }
    sched_put(&l->last, flow + 1u);
}

// BT_SCHED_NONE when there is none.
static inline uint32_t sched_flows_take(struct bt_sched *s, struct sched_flows *l)
{
    uint32_t first = sched_get(&l->first);
    if (first == 0) {
        return BT_SCHED_NONE;
    }
    sched_put(&l->first, sched_get(&s->flow[first - 1u].next));
    if (sched_get(&l->first) == 0) {
        sched_put(&l->last, 0u);
    }
    return first - 1u;
}

#endif
