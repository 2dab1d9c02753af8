// SPDX-License-Identifier: Apache-2.0
// A load-balancing policy: a pure function of the load index (queue sizes, credits, random numbers). The router and
// the simulator call the same ones. A new policy is one file in policies/, one enum value in router_config.h
// and one line in policy.c.
#ifndef BOBTAIL_ROUTER_POLICY_H
#define BOBTAIL_ROUTER_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "router/load.h"
#include "router/router_config.h"

struct bt_balancer {
    const char *name; /* as in the configuration document */
    bool bounded;     /* waits for a worker with outstanding < n; otherwise pushes to any worker that is up */
    bool least;       /* takes a least loaded worker: an idle one if there is any */
    uint32_t (*pick)(struct bt_load *load); /* a worker, or BT_NO_WORKER. Does not change queue sizes. */
};

uint32_t bt_pick_jbsq(struct bt_load *load);
uint32_t bt_pick_jsq(struct bt_load *load);
uint32_t bt_pick_power_of_two(struct bt_load *load);
uint32_t bt_pick_round_robin(struct bt_load *load);
uint32_t bt_pick_random(struct bt_load *load);

extern const struct bt_balancer bt_balancers[BT_ROUTER_POLICIES];

#endif
