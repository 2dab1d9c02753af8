// SPDX-License-Identifier: Apache-2.0
// The router on two threads: a REQ0 thread with the central queue, the policy and `sent`, and a FEEDBACK thread
// with the credit accounting, the workers' health and the latency of pairs. Each is a half: a struct bt_router of its
// own, so that both run the code of one thread. They share no variable that both write: credit travels in one
// word per worker, what was sent in a bounded queue of notes. Pure like the router: no clock, no lock, no allocation;
// who runs the two halves wakes and stops their threads (docs/decisions/0007). Outside src/router the door stands in
// front of this (router.h), which says what each function does.
#ifndef BOBTAIL_ROUTER_SPLIT_H
#define BOBTAIL_ROUTER_SPLIT_H

#include "router/router.h"

struct router_split;

/* As bt_router_bytes and bt_router_init; returns the REQ0 half, which leads to the other one. */
size_t split_bytes(const struct bt_router_setup *setup);
struct bt_router *split_init(void *mem, size_t bytes, const struct bt_router_setup *setup, uint64_t now);

/* --- REQ0 thread -------------------------------------------------------------------------------------------------- */

/* Takes the credit the other half published, which may release held requests, then the burst. */
void split_requests(struct router_split *s, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq);
void split_request_tick(struct router_split *s, uint64_t now, struct bt_txq *txq);
bool split_credit_waits(const struct router_split *s);
bool split_notes_pile_up(const struct router_split *s);

/* ICMP errors come in where requests go out; the other half judges them. */
void split_unreachable(struct router_split *s, uint64_t now, const struct bt_addr *worker);

/* --- FEEDBACK thread ---------------------------------------------------------------------------------------------- */

/* Takes the notes of what was sent before, then the burst. */
void split_feedbacks(struct router_split *s, struct bt_pkt *const *pkts, unsigned n);
void split_feedback_tick(struct router_split *s, uint64_t now);
const struct bt_router *split_feedback_half(const struct router_split *s);

/* --- both stopped ------------------------------------------------------------------------------------------------- */

bool split_apply(struct router_split *s, uint64_t now, const struct bt_router_config *config,
                 struct bt_router_refusal *why);
void split_stats(const struct router_split *s, uint64_t now, struct bt_router_stats *out);

#endif
