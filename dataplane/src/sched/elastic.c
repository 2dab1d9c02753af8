// SPDX-License-Identifier: Apache-2.0
// See elastic.h.
#include "sched/elastic.h"

#include <stdbool.h>

void bt_elastic_init(struct bt_elastic *e, const struct bt_elastic_setup *setup, uint32_t rung)
{
    *e = (struct bt_elastic){.setup = *setup, .rung = rung < setup->rungs ? rung : setup->rungs - 1u};
}

static bool too_much(const struct bt_elastic *e, double idle)
{
    const double *c = e->setup.capacity;
    return e->rung > 0 && idle > 1.0 - c[e->rung - 1u] / c[e->rung] + e->setup.margin;
}

enum bt_step bt_elastic_tick(struct bt_elastic *e, double delay_ns, double idle)
{
    enum bt_step step = BT_STEP_NONE;
    if (delay_ns > e->setup.delay_bound_ns) {
        step = e->rung + 1u < e->setup.rungs ? BT_STEP_UP : BT_STEP_NONE;
    } else if (e->quiet >= e->setup.hold_off && too_much(e, idle)) {
        step = BT_STEP_DOWN;
    }
    e->rung = (uint32_t)((int32_t)e->rung + (int32_t)step);
    e->quiet = step == BT_STEP_NONE ? e->quiet + (e->quiet < e->setup.hold_off) : 0;
    return step;
}
