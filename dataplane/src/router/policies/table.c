// SPDX-License-Identifier: Apache-2.0
// The policies of router_config.h's table, indexed by enum bt_router_policy.
#include "router/policy.h"

#define BALANCER(name, word, bounded, least, pick) [BT_ROUTER_##name] = {word, bounded, least, pick},

const struct bt_balancer bt_balancers[BT_ROUTER_POLICIES] = {BT_ROUTER_POLICY_TABLE(BALANCER)};
