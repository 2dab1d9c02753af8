// SPDX-License-Identifier: Apache-2.0
// Memory, and what can be read of it: what only runs outside of the cores' loops.
#include "base/mem.h"
#include "sched/state.h"

enum { FLOWS_MAX = 1 << 24 };

static bool sound(const struct bt_sched_setup *s)
{
    return s->cores >= 1 && s->cores <= BT_SCHED_CORES_MAX && s->flows >= 1 && s->flows <= FLOWS_MAX &&
           s->groups >= 1 && s->groups <= BT_SCHED_GROUPS_MAX;
}

/* Takes everything from mem, or only measures when mem has no memory. */
static struct bt_sched *lay_out(struct bt_mem *mem, const struct bt_sched_setup *setup)
{
    struct bt_sched *s = bt_mem_take(mem, sizeof *s);
    struct sched_core *core = bt_mem_take(mem, setup->cores * sizeof *core);
    struct sched_group *group = bt_mem_take(mem, setup->groups * sizeof *group);
    struct sched_flow *flow = bt_mem_take(mem, setup->flows * sizeof *flow);
    if (flow != NULL) {
        s->setup = *setup;
        s->core = core;
        s->group = group;
        s->flow = flow;
    }
    return flow != NULL ? s : NULL;
}

size_t bt_sched_bytes(const struct bt_sched_setup *setup)
{
    struct bt_mem mem;
    bt_mem_init(&mem, NULL, 0);
    if (!sound(setup)) {
        return 0;
    }
    lay_out(&mem, setup);
    return mem.used;
}

struct bt_sched *bt_sched_init(void *mem, size_t bytes, const struct bt_sched_setup *setup)
{
    struct bt_mem arena;
    if (mem == NULL || ((uintptr_t)mem & (BT_MEM_ALIGN - 1u)) != 0 || !sound(setup)) {
        return NULL;
    }
    bt_mem_init(&arena, mem, bytes);
    struct bt_sched *s = lay_out(&arena, setup);
    if (s != NULL) {
        sched_start(s);
    }
    return s;
}

void bt_sched_read_counts(const struct bt_sched *s, uint32_t self, struct bt_sched_counts *out)
{
    const struct sched_core *c = &s->core[self];
    out->handled = sched_load(&c->handled, relaxed);
    out->stolen = sched_load(&c->stolen, relaxed);
    out->borrowed = sched_load(&c->borrowed, relaxed);
    out->missed = sched_load(&c->missed, relaxed);
    out->astray = sched_load(&c->astray, relaxed);
    out->moved = sched_load(&c->moved, relaxed);
}
