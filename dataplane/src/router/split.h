// SPDX-License-Identifier: Apache-2.0
// The router on two threads: a REQ0 thread with the central queue, the policy and `sent`, and a FEEDBACK thread
// with the credit accounting, the workers' health and the latency of pairs. Each is a half: a struct bt_router of its
// own, so that both run the code of one thread. They share no variable that both write: credit travels in one
// word per worker, what was sent in a bounded queue of notes. Pure like the router: no clock, no lock, no allocation;
// who runs the two halves wakes and stops their threads (docs/decisions/0007). Outside src/router the door stands in
// front of this (router.h), which says what each function does.
#ifndef BOBTAIL_ROUTER_SPLIT_H
#define BOBTAIL_ROUTER_SPLIT_H

#include "router/state.h"

struct router_split;

/* As bt_router_bytes and bt_router_init; returns the REQ0 half, which leads to the other one. */
size_t split_bytes(const struct bt_router_setup *setup);
struct bt_router *split_init(void *mem, size_t bytes, const struct bt_router_setup *setup, uint64_t now);

/* While both stand still, as bt_router_apply and bt_router_read_stats. */
bool split_apply(struct router_split *s, uint64_t now, const struct bt_router_config *config,
                 struct bt_router_refusal *why);
void split_stats(const struct router_split *s, uint64_t now, struct bt_router_stats *out);

#endif
