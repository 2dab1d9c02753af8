// SPDX-License-Identifier: Apache-2.0
// What a router tells of itself, one core's part (stats.c).
#ifndef BOBTAIL_ROUTER_STATS_ROOM_H
#define BOBTAIL_ROUTER_STATS_ROOM_H

#include "router/state.h"

/* As bt_router_read_stats and bt_router_member. */
void router_stats(const struct bt_router *r, uint64_t now, struct bt_router_stats *out);
bool router_member(const struct bt_router *r, uint64_t now, uint32_t i, struct bt_router_member_stats *out);

#endif
