// SPDX-License-Identifier: Apache-2.0
// Events in and replies out: what the holder of a home's token tells the flows.
#include "sched/flow.h"
#include "sched/lock.h"
#include "sched/migrate.h"

void bt_sched_open(struct bt_sched *s, uint32_t flow, uint32_t group)
{
    sched_put(&s->flow[flow].group, group);
}

bool bt_sched_deliver(struct bt_sched *s, uint32_t home, struct bt_sched_event *event)
{
    struct sched_core *c = &s->core[home];
    uint32_t group = sched_get(&s->flow[event->flow].group);
    uint32_t owner = sched_load(&s->group[group].owner, acquire);
    if (owner != home) {
        if ((owner & SCHED_TAG) != 0 && sched_migrate_hold(s, home, group, event)) {
            return true;
        }
        sched_note(&c->astray);
        return false;
    }
    sched_lock(c);
    sched_flow_event(s, home, event);
    sched_unlock(c);
    return true;
}

void bt_sched_replied(struct bt_sched *s, uint32_t home, uint32_t flow)
{
    struct sched_core *c = &s->core[home];
    sched_lock(c);
    sched_flow_end(s, home, flow);
    sched_unlock(c);
}
