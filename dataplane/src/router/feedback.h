// SPDX-License-Identifier: Apache-2.0
// The feedback port (feedback.c).
#ifndef BOBTAIL_ROUTER_FEEDBACK_H
#define BOBTAIL_ROUTER_FEEDBACK_H

#include "router/state.h"

/* As bt_router_feedback, in one thread. */
void router_feedback(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq);

/* The same by halves, where somebody else keeps the index: first this, after router_clock, which tells of a worker that
 * says what it always does. False, nothing changed: it must go the other way. The packet is the caller's. */
bool router_feedback_steady(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, uint32_t *w);
void router_feedback_any(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq);

/* delegation.h: of a pair that w, which says nothing new, served. */
void router_feedback_again(struct bt_router *r, uint64_t now, uint32_t w, const uint8_t *payload, struct bt_txq *txq);

#endif
