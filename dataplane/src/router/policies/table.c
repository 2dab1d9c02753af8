// SPDX-License-Identifier: Apache-2.0
// The table of policies, indexed by enum bt_router_policy.
#include "router/policy.h"

const struct bt_balancer bt_balancers[BT_ROUTER_POLICIES] = {
    [BT_ROUTER_JBSQ] = {"JBSQ", true, true, bt_pick_jbsq},
    [BT_ROUTER_JSQ] = {"JSQ", false, true, bt_pick_jsq},
    [BT_ROUTER_POWER_OF_TWO] = {"PowerOfTwo", false, false, bt_pick_power_of_two},
    [BT_ROUTER_ROUND_ROBIN] = {"RoundRobin", false, false, bt_pick_round_robin},
    [BT_ROUTER_RANDOM] = {"Random", false, false, bt_pick_random},
};
