// SPDX-License-Identifier: Apache-2.0
// The worker table (workers.c).
#ifndef BOBTAIL_ROUTER_WORKERS_H
#define BOBTAIL_ROUTER_WORKERS_H

#include "router/state.h"

/* Only addresses of the configuration are ever inserted, so the hash needs spread, not secrecy: the high bits of a
 * product with a random odd number. */
static inline uint32_t router_map_start(const struct bt_router *r, const struct bt_addr *addr)
{
    uint64_t word = bt_addr_half(addr, 8) ^ bt_addr_half(addr, 0) ^ addr->port;
    return (uint32_t)(word * r->map_factor >> r->map_shift);
}

/* Slot or NO_SLOT. */
static inline uint32_t router_find(const struct bt_router *r, const struct bt_addr *addr)
{
    for (uint32_t i = router_map_start(r, addr); r->map[i] != 0; i = (i + 1u) & r->map_mask) {
        if (bt_addr_eq(&r->worker[r->map[i] - 1u].addr, addr)) {
            return r->map[i] - 1u;
        }
    }
    return NO_SLOT;
}

void router_map_add(const struct bt_router *r, uint16_t *map, const struct bt_addr *addr, uint32_t slot);
bool router_map_claim(const struct bt_router *r, uint16_t *map, const struct bt_addr *all, uint32_t i); /* no twin */
void router_map_rebuild(struct bt_router *r);
bool router_may_receive(const struct bt_router *r, uint32_t w); /* policy-0 requests, credit apart */
void router_refresh(struct bt_router *r, uint32_t w);           /* to be called after any change of w */
void router_forget(struct bt_router *r, uint32_t w, uint64_t now);
uint32_t router_take_slot(struct bt_router *r, uint64_t now, uint32_t *from);

bool router_master_ready(const struct bt_router *r);    /* sticky requests */
bool router_legacy_possible(const struct bt_router *r); /* workers without options can be served at all */
void router_legacy_default(struct bt_router *r, uint32_t w);

#endif
