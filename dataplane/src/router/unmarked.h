// SPDX-License-Identifier: Apache-2.0
// Requests that leave as they came (unmarked.c).
#ifndef BOBTAIL_ROUTER_UNMARKED_H
#define BOBTAIL_ROUTER_UNMARKED_H

#include "router/state.h"

/* To worker w. False, nothing changed: it cannot go so. */
bool router_forward_unmarked(struct bt_router *r, struct bt_pkt *pkt, uint32_t w, struct bt_txq *txq);

#endif
