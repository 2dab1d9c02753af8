// SPDX-License-Identifier: Apache-2.0
// What one thread of a router runs: all of it, or one half of a router on two threads (split.h). The door (router.c)
// and the split call this, packets apart.
#ifndef BOBTAIL_ROUTER_CORE_H
#define BOBTAIL_ROUTER_CORE_H

#include "router/state.h"

/* As bt_router_bytes and bt_router_init; threads and what is of two do not matter. */
size_t router_core_bytes(const struct bt_router_setup *setup);
struct bt_router *router_core_init(void *mem, size_t bytes, const struct bt_router_setup *setup, uint64_t now);

void router_core_tick(struct bt_router *r, uint64_t now, struct bt_txq *txq);
uint64_t router_core_next(const struct bt_router *r);
void router_core_unreachable(struct bt_router *r, uint64_t now, const struct bt_addr *worker);

#endif
