// SPDX-License-Identifier: Apache-2.0
// Everything at rest: flows idle in group 0, group g at core g modulo the cores, tokens free.
#include "sched/list.h"

static void start_core(struct sched_core *c)
{
    sched_store(&c->lock, 0u, relaxed);
    sched_flows_clear(&c->queue);
    sched_store(&c->ready, 0u, relaxed);
    sched_store(&c->token, 0u, relaxed);
    sched_store(&c->finished, 0u, relaxed);
    sched_put(&c->replies, 0u);
    sched_store(&c->waiting, 0u, relaxed);
    sched_store(&c->asleep, 0u, relaxed);
    c->polled = 0;
}

static void start_flow(struct sched_flow *f)
{
    sched_put(&f->state, (uint32_t)SCHED_FLOW_IDLE);
    sched_put(&f->next, 0u);
    sched_put(&f->finished_next, 0u);
    sched_put(&f->group, 0u);
    sched_events_clear(&f->events);
}

void sched_start(struct bt_sched *s)
{
    for (uint32_t i = 0; i < s->setup.cores; i++) {
        start_core(&s->core[i]);
    }
    for (uint32_t i = 0; i < s->setup.groups; i++) {
        sched_store(&s->group[i].owner, i % s->setup.cores, relaxed);
        sched_put(&s->group[i].busy, 0u);
    }
    for (uint32_t i = 0; i < s->setup.flows; i++) {
        start_flow(&s->flow[i]);
    }
    sched_store(&s->move.now, (uint32_t)SCHED_REST, relaxed);
}
