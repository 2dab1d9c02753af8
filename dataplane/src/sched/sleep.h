// SPDX-License-Identifier: Apache-2.0
// Cores that sleep, and what is worth waking one for.
#ifndef BT_SCHED_SLEEP_H
#define BT_SCHED_SLEEP_H

#include "sched/state.h"

// Is there something for whoever holds this home's token? As far as can be seen without it.
static inline bool sched_has_network(struct sched_core *c)
{
    return sched_load(&c->waiting, relaxed) != 0 || sched_load(&c->finished, relaxed) != 0;
}

// After a flow was taken from home: a core that slept and is needed for those that are left, no longer asleep;
// BT_SCHED_NONE: none is.
uint32_t sched_needed(struct bt_sched *s, uint32_t home);

#endif
