// SPDX-License-Identifier: Apache-2.0
// What the FEEDBACK thread of a router on two calls (see split.h).
#ifndef BOBTAIL_ROUTER_SPLIT_FEEDBACK_H
#define BOBTAIL_ROUTER_SPLIT_FEEDBACK_H

#include "router/split_channel.h"

/* Takes the notes of what was sent before, then the burst. */
void split_feedbacks(struct router_split *s, struct bt_pkt *const *pkts, unsigned n);
void split_feedback_tick(struct router_split *s, uint64_t now);
const struct bt_router *split_feedback_half(const struct router_split *s);

void split_take_notes(struct router_split *s); /* of what was sent before */

extern const struct router_watcher split_feedback_watcher;

#endif
