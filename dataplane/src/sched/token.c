// SPDX-License-Identifier: Apache-2.0
// See token.h. Two sides must not miss one another: a core leaves a finished flow and then finds the token taken, while
// its holder finds no flow and then gives the token back. Each therefore writes, then has a fence, then looks: in the
// one order that all fences have, the later of the two sees what the other wrote.
#include "sched/token.h"

static bool take(struct sched_core *c)
{
    return sched_load(&c->token, relaxed) == 0 && sched_exchange(&c->token, 1u, acquire) == 0;
}

static bool may_borrow(const struct bt_sched *s)
{
    return s->setup.mode == BT_SCHED_WORK_STEALING && !s->setup.keep_stack;
}

bool sched_token_try(struct bt_sched *s, uint32_t self, uint32_t home)
{
    return (self == home || may_borrow(s)) && take(&s->core[home]);
}

bool bt_sched_take(struct bt_sched *s, uint32_t home)
{
    return take(&s->core[home]);
}

bool bt_sched_executed(struct bt_sched *s, uint32_t self, uint32_t flow)
{
    struct sched_flow *f = &s->flow[flow];
    uint32_t home = sched_load(&s->group[sched_get(&f->group)].owner, relaxed) & ~SCHED_TAG;
    struct sched_core *c = &s->core[home];
    uint32_t newest = sched_load(&c->finished, relaxed);
    do {
        sched_put(&f->finished_next, newest);
    } while (!sched_replace(&c->finished, &newest, flow + 1u, release));
    sched_fence();
    return sched_token_try(s, self, home);
}

/* Takes the whole list; newest first becomes oldest first. */
static uint32_t take_finished(struct bt_sched *s, struct sched_core *c)
{
    uint32_t at = sched_load(&c->finished, relaxed) != 0 ? sched_exchange(&c->finished, 0u, acquire) : 0, oldest = 0;
    while (at != 0) {
        struct sched_flow *f = &s->flow[at - 1u];
        uint32_t next = sched_get(&f->finished_next);
        sched_put(&f->finished_next, oldest);
        oldest = at;
        at = next;
    }
    return oldest;
}

uint32_t bt_sched_finished(struct bt_sched *s, uint32_t home)
{
    struct sched_core *c = &s->core[home];
    uint32_t at = sched_get(&c->replies);
    if (at == 0) {
        at = take_finished(s, c);
    }
    if (at == 0) {
        return BT_SCHED_NONE;
    }
    sched_put(&c->replies, sched_get(&s->flow[at - 1u].finished_next));
    return at - 1u;
}

bool bt_sched_release(struct bt_sched *s, uint32_t home)
{
    struct sched_core *c = &s->core[home];
    bool replies = sched_get(&c->replies) != 0;
    sched_store(&c->token, 0u, release);
    sched_fence();
    return (replies || sched_load(&c->finished, relaxed) != 0) && take(c);
}

void bt_sched_waiting(struct bt_sched *s, uint32_t home, uint32_t packets)
{
    sched_store(&s->core[home].waiting, packets, relaxed);
}
