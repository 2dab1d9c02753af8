// SPDX-License-Identifier: Apache-2.0
// A load-balancing policy: a pure function of the load index (queue sizes, credits, random numbers). The router and
// the simulator call the same ones. A new policy is one file in policies/ and one row in router_config.h.
#ifndef BOBTAIL_ROUTER_POLICY_H
#define BOBTAIL_ROUTER_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "router/load.h"
#include "router/router_config.h"

struct bt_balancer {
    const char *name;                       /* as in the configuration document */
    bool bounded, least;                    /* as the table in router_config.h says */
    uint32_t (*pick)(struct bt_load *load); /* a worker, or BT_NO_WORKER. Does not change queue sizes. */
};

#define BT_ROUTER_POLICY_PICK(name, word, bounded, least, pick) uint32_t pick(struct bt_load *load);
BT_ROUTER_POLICY_TABLE(BT_ROUTER_POLICY_PICK)

extern const struct bt_balancer bt_balancers[BT_ROUTER_POLICIES];

#endif
