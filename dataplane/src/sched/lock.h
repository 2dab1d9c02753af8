// SPDX-License-Identifier: Apache-2.0
// The lock of a home (Z-23). It is held for some instructions: the home waits for it, thieves only try.
#ifndef BT_SCHED_LOCK_H
#define BT_SCHED_LOCK_H

#include "sched/state.h"

static inline bool sched_lock_try(struct sched_core *c)
{
    return sched_load(&c->lock, relaxed) == 0 && sched_exchange(&c->lock, 1u, acquire) == 0;
}

static inline void sched_lock(struct sched_core *c)
{
    while (!sched_lock_try(c)) {
        sched_pause();
    }
}

static inline void sched_unlock(struct sched_core *c)
{
    sched_store(&c->lock, 0u, release);
}

#endif
