// SPDX-License-Identifier: Apache-2.0
// See shuffle.h.
#include "sched/shuffle.h"

#include "sched/flow.h"
#include "sched/lock.h"
#include "sched/queue.h"

/* Takes the head and lets go of the lock. */
static bool take_and_unlock(struct bt_sched *s, uint32_t home, struct bt_sched_work *w)
{
    uint32_t flow = sched_queue_take(s, home);
    if (flow != BT_SCHED_NONE) {
        w->kind = BT_SCHED_HANDLE;
        w->home = home;
        w->flow = flow;
        w->events = sched_flow_begin(s, flow);
    }
    sched_unlock(&s->core[home]);
    return flow != BT_SCHED_NONE;
}

bool sched_shuffle_own(struct bt_sched *s, uint32_t self, struct bt_sched_work *w)
{
    if (sched_load(&s->core[self].ready, relaxed) == 0) {
        return false;
    }
    sched_lock(&s->core[self]);
    return take_and_unlock(s, self, w);
}

bool sched_shuffle_steal(struct bt_sched *s, uint32_t self, uint32_t from, struct bt_sched_work *w)
{
    if (sched_load(&s->core[from].ready, relaxed) == 0) {
        return false;
    }
    if (!sched_lock_try(&s->core[from])) {
        sched_note(&s->core[self].missed);
        return false;
    }
    return take_and_unlock(s, from, w);
}
