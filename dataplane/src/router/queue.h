// SPDX-License-Identifier: Apache-2.0
// The central FIFO, and the way of a request through it or past it.
#ifndef BOBTAIL_ROUTER_QUEUE_H
#define BOBTAIL_ROUTER_QUEUE_H

#include "router/state.h"

/* hdr is the packet's header as decoded on arrival, NULL for a plain one (bt_r2p2_is_plain). */
void router_route(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, struct bt_txq *txq);
void router_hold(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, bool held_back, struct bt_txq *txq);
void router_credit_held(struct bt_router *r, uint64_t now, uint32_t w, uint64_t outstanding, struct bt_txq *txq);
void router_pump(struct bt_router *r, uint64_t now, struct bt_txq *txq);
void router_expire_held(struct bt_router *r, uint64_t now, struct bt_txq *txq);
uint64_t router_queue_next(const struct bt_router *r);

/* Worker w, which owes so many requests now, may take another one. */
static inline void router_credit_came(struct bt_router *r, uint64_t now, uint32_t w, uint64_t outstanding,
                                      struct bt_txq *txq)
{
    if (__builtin_expect(r->held.n > 0, 0)) {
        router_credit_held(r, now, w, outstanding, txq);
    } else {
        bt_load_move(&r->load, w, outstanding);
    }
}

/* Credit may have come that no FEEDBACK brought. */
static inline void router_pump_soon(struct bt_router *r)
{
    r->pump_due = true;
    r->waits_for_credit = false;
}

#endif
