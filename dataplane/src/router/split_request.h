// SPDX-License-Identifier: Apache-2.0
// What the REQ0 thread of a router on two calls (see split.h).
#ifndef BOBTAIL_ROUTER_SPLIT_REQUEST_H
#define BOBTAIL_ROUTER_SPLIT_REQUEST_H

#include "router/split_channel.h"

/* Takes the credit the other half published, which may release held requests, then the burst. */
void split_requests(struct router_split *s, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq);
void split_request_tick(struct router_split *s, uint64_t now, struct bt_txq *txq);
bool split_credit_waits(const struct router_split *s);
bool split_notes_pile_up(const struct router_split *s);

/* ICMP errors come in where requests go out; the other half judges them. */
void split_unreachable(struct router_split *s, uint64_t now, const struct bt_addr *worker);

void split_take_word(struct bt_router *q, size_t w, uint64_t word); /* paused: w as the FEEDBACK half sees it */

extern const struct router_watcher split_request_watcher;

#endif
