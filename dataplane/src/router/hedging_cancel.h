// SPDX-License-Identifier: Apache-2.0
// Copies that are taken back (hedging_cancel.c); while hedging is on.
#ifndef BOBTAIL_ROUTER_HEDGING_CANCEL_H
#define BOBTAIL_ROUTER_HEDGING_CANCEL_H

#include "router/hedging_slots.h"

/* numbers a copy, in its packet, if its worker w reads options and it still fits with all that a router adds.
 * Returns the packet's header, NULL for a plain one. */
struct bt_r2p2_hdr *hedging_number(struct bt_router *r, struct hedge_copy *copy, struct bt_pkt *pkt,
                                   struct bt_r2p2_hdr *hdr, struct bt_r2p2_hdr *room, uint32_t w);

/* what is taken back says nothing of how long it takes, so only probes, which are not, are compared. */
bool hedging_compares(const struct router_hedging *h, uint32_t s);

uint64_t hedging_pairs_live(const struct bt_router *r); /* with two copies that may be taken back */

/* the request whose end has just been heard of is still being executed elsewhere. */
void hedging_clean_up(struct bt_router *r, struct bt_txq *txq);

/* True: the newcomer was sent in place of a copy. */
bool hedging_preempt(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                     struct bt_txq *txq);

/* A copy could not be taken back when the request came, and now it can. */
void hedging_preempt_for_held(struct bt_router *r, uint64_t now, struct bt_txq *txq);

/* A FEEDBACK names client and req_id, and no copy: one that the network repeats may say of a copy that was taken back
 * what must not be believed of a later one at the same worker. It was written before that came there. */
bool hedging_earlier_copy(const struct bt_router *r, uint32_t w, const struct bt_feedback *fb);

/* True: the worker says that it let go of a copy which was taken back. Its request is not answered by that. */
bool hedging_pair_taken_back(struct bt_router *r, uint32_t i, uint8_t unserved);

#endif
