// SPDX-License-Identifier: Apache-2.0
// See flow.h.
#include "sched/flow.h"

#include "sched/queue.h"

void sched_flow_event(struct bt_sched *s, uint32_t home, struct bt_sched_event *event)
{
    struct sched_flow *f = &s->flow[event->flow];
    sched_events_add(&f->events, event);
    if (sched_get(&f->state) == SCHED_FLOW_IDLE) {
        sched_put(&f->state, (uint32_t)SCHED_FLOW_READY);
        sched_queue_add(s, home, event->flow);
    }
}

struct bt_sched_event *sched_flow_begin(struct bt_sched *s, uint32_t flow)
{
    struct sched_flow *f = &s->flow[flow];
    struct sched_group *g = &s->group[sched_get(&f->group)];
    sched_put(&f->state, (uint32_t)SCHED_FLOW_BUSY);
    sched_put(&g->busy, sched_get(&g->busy) + 1u);
    return sched_events_take(&f->events, s->setup.take_max);
}

void sched_flow_end(struct bt_sched *s, uint32_t home, uint32_t flow)
{
    struct sched_flow *f = &s->flow[flow];
    struct sched_group *g = &s->group[sched_get(&f->group)];
    sched_put(&g->busy, sched_get(&g->busy) - 1u);
    if (sched_get(&f->events.first) == NULL) {
        sched_put(&f->state, (uint32_t)SCHED_FLOW_IDLE);
        return;
    }
    sched_put(&f->state, (uint32_t)SCHED_FLOW_READY);
    if ((sched_load(&g->owner, relaxed) & SCHED_TAG) != 0) {
        sched_flows_add(s, &s->move.parked, flow);
    } else {
        sched_queue_add(s, home, flow);
    }
}
