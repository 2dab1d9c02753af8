// SPDX-License-Identifier: Apache-2.0
// Judging and applying a configuration (config.c).
#ifndef BOBTAIL_ROUTER_CONFIG_ROOM_H
#define BOBTAIL_ROUTER_CONFIG_ROOM_H

#include "router/state.h"

/* As bt_router_apply, in one thread. */
bool router_apply(struct bt_router *r, uint64_t now, const struct bt_router_config *config,
                  struct bt_router_refusal *why);

void router_take_numbers(struct bt_router *r, const struct bt_router_config *c); /* judged, workers apart */

#endif
