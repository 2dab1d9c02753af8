// SPDX-License-Identifier: Apache-2.0
// The controller (Z-15): when to step along a ladder of configurations. It is asked ten times a second. What a step
// changes is the ladder's business.
#ifndef BT_SCHED_ELASTIC_H
#define BT_SCHED_ELASTIC_H

#include <stdint.h>

struct bt_elastic_setup {
    const double *capacity; // of each rung, in one unit, rising
    uint32_t rungs;         // at least 1
    double delay_bound_ns;  // the policy's bound on queueing delay
    double margin;          // share of the capacity that must be idle besides what a step down removes
    uint32_t hold_off;      // ticks after a step without a step down
};

struct bt_elastic {
    struct bt_elastic_setup setup;
    uint32_t rung;  // 0…rungs-1
    uint32_t quiet; // ticks since the last step
};

enum bt_step { BT_STEP_DOWN = -1, BT_STEP_NONE, BT_STEP_UP };

void bt_elastic_init(struct bt_elastic *e, const struct bt_elastic_setup *setup, uint32_t rung);
// delay_ns: the fast estimate, of the core that has most. idle: the slow share, of all cores together. Up as often as
// the bound is broken; down when the next rung would carry what is done now.
enum bt_step bt_elastic_tick(struct bt_elastic *e, double delay_ns, double idle);

#endif
