// SPDX-License-Identifier: Apache-2.0
// What becomes of requests with two copies (hedging_pairs.c); the last apart, while hedging is on.
#ifndef BOBTAIL_ROUTER_HEDGING_PAIRS_H
#define BOBTAIL_ROUTER_HEDGING_PAIRS_H

#include "router/hedging_slots.h"

void hedging_pair_began(struct bt_router *r, uint32_t i);
uint32_t hedging_twin(const struct bt_router *r, uint32_t i); /* the pair of the other copy, or 0 */
bool hedging_pair_ended(struct bt_router *r, uint64_t now, uint32_t i, bool rejected); /* false: of the later copy */
bool hedging_pair_gone(struct bt_router *r, uint32_t i, bool reused);                  /* false: not its last copy */

/* Hedging is switched off. A request whose copies are both watched is from now on known by the first, and not at all
 * if it was answered. */
void hedging_forget_pairs(struct bt_router *r);

/* every second, once ten samples lie beyond the percentile. */
void hedging_learn_delay(struct router_hedging *h, uint64_t now);

void hedging_tell(const struct bt_router *r, uint64_t now, struct bt_router_stats *out); /* on or off */

#endif
