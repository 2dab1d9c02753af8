// SPDX-License-Identifier: Apache-2.0
// What a core does next: its own network, its own flows, then what others have (Z-24). Nobody waits for anybody: a look
// that finds a lock or a token taken goes on to the next core.
#include "sched/sleep.h"
#include "sched/shuffle.h"
#include "sched/token.h"

static void network(struct bt_sched_work *w, uint32_t home)
{
    w->kind = BT_SCHED_NETWORK;
    w->home = home;
}

/* The others in a circle from a random one on: step 0…cores-2. */
static uint32_t other(uint32_t self, uint32_t start, uint32_t step, uint32_t cores)
{
    return (self + 1u + (start + step) % (cores - 1u)) % cores;
}

static bool steal(struct bt_sched *s, uint32_t self, struct bt_rng *rng, struct bt_sched_work *w)
{
    uint32_t cores = s->setup.cores, start = bt_rng_below(rng, cores - 1u);
    for (uint32_t i = 0; i + 1u < cores; i++) {
        if (sched_shuffle_steal(s, self, other(self, start, i, cores), w)) {
            sched_note(&s->core[self].stolen);
            return true;
        }
    }
    return false;
}

static bool borrow(struct bt_sched *s, uint32_t self, struct bt_rng *rng, struct bt_sched_work *w)
{
    uint32_t cores = s->setup.cores, start = bt_rng_below(rng, cores - 1u);
    for (uint32_t i = 0; i + 1u < cores; i++) {
        uint32_t home = other(self, start, i, cores);
        if (sched_has_network(&s->core[home]) && sched_token_try(s, self, home)) {
            sched_note(&s->core[self].borrowed);
            network(w, home);
            return true;
        }
    }
    return false;
}

static bool own_network(struct bt_sched *s, uint32_t self)
{
    struct sched_core *c = &s->core[self];
    bool due = c->polled == 0;
    c->polled = 1;
    return due && sched_token_try(s, self, self);
}

/* The own network comes before each flow, and when a core executes to completion before each batch of them. */
static bool own_flow(struct bt_sched *s, uint32_t self, struct bt_sched_work *w)
{
    struct sched_core *c = &s->core[self];
    bool found = sched_shuffle_own(s, self, w);
    c->polled = found && s->setup.mode == BT_SCHED_RUN_TO_COMPLETION && sched_load(&c->ready, relaxed) != 0;
    return found;
}

static void find(struct bt_sched *s, uint32_t self, struct bt_rng *rng, struct bt_sched_work *w)
{
    if (own_network(s, self)) {
        network(w, self);
        return;
    }
    if (own_flow(s, self, w) || s->setup.mode != BT_SCHED_WORK_STEALING || s->setup.cores == 1) {
        return;
    }
    if (!steal(s, self, rng, w)) {
        borrow(s, self, rng, w);
    }
}

void bt_sched_next(struct bt_sched *s, uint32_t self, struct bt_rng *rng, struct bt_sched_work *w)
{
    w->kind = BT_SCHED_NOTHING;
    w->wake = BT_SCHED_NONE;
    w->events = NULL;
    find(s, self, rng, w);
    if (w->kind == BT_SCHED_HANDLE) {
        sched_note(&s->core[self].handled);
        w->wake = sched_needed(s, w->home);
    }
}
