// SPDX-License-Identifier: Apache-2.0
// See sleep.h. As with the token, each side writes, has a fence, and looks: who goes to sleep sees what there is to do,
// or who made it sees who sleeps.
#include "sched/sleep.h"

static bool helps(const struct bt_sched *s)
{
    return s->setup.mode == BT_SCHED_WORK_STEALING;
}

static bool anything(struct bt_sched *s, uint32_t self)
{
    if (sched_load(&s->move.now, relaxed) != SCHED_REST) {
        return true; /* it may be an end of it, and takes a few turns */
    }
    for (uint32_t i = 0; i < s->setup.cores; i++) {
        struct sched_core *c = &s->core[i];
        if (i != self && !helps(s)) {
            continue;
        }
        if (sched_load(&c->ready, relaxed) != 0 || ((i == self || !s->setup.keep_stack) && sched_has_network(c))) {
            return true;
        }
    }
    return false;
}

static bool rouse(struct sched_core *c)
{
    return sched_load(&c->asleep, relaxed) != 0 && sched_exchange(&c->asleep, 0u, acq_rel) != 0;
}

bool bt_sched_rouse(struct bt_sched *s, uint32_t core)
{
    sched_fence();
    return rouse(&s->core[core]);
}

bool bt_sched_sleep(struct bt_sched *s, uint32_t self)
{
    sched_store(&s->core[self].asleep, 1u, relaxed);
    sched_fence();
    if (!anything(s, self)) {
        return true;
    }
    return !rouse(&s->core[self]); /* somebody roused it already, and its semaphore is up */
}

uint32_t sched_needed(struct bt_sched *s, uint32_t home)
{
    if (!helps(s) || sched_load(&s->core[home].ready, relaxed) == 0) {
        return BT_SCHED_NONE;
    }
    sched_fence();
    for (uint32_t i = 1; i <= s->setup.cores; i++) {
        uint32_t core = (home + i) % s->setup.cores;
        if (rouse(&s->core[core])) {
            return core;
        }
    }
    return BT_SCHED_NONE;
}
