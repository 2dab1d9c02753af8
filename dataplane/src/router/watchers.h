// SPDX-License-Identifier: Apache-2.0
// Registering watchers, and telling them (watcher.h).
#ifndef BOBTAIL_ROUTER_WATCHERS_H
#define BOBTAIL_ROUTER_WATCHERS_H

#include "router/state.h"

/* All but the lasting ones are taken off. */
void router_watchers_clear(struct bt_router *r);
void router_watchers_add(struct bt_router *r, const struct router_watcher *watcher);
void router_watchers_last(struct bt_router *r); /* those that are there stay */

void router_tell_arrived(struct bt_router *r);
bool router_ask_admit(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr **hdr,
                      struct bt_r2p2_hdr *room, struct bt_txq *txq);
bool router_ask_send(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                     struct bt_txq *txq);

/* Instead of router_forward_bare, where a watcher wants it so (watchers.forward). */
bool router_forward_watched(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                            struct router_target to, struct bt_txq *txq);
uint8_t router_label(const struct bt_router *r, const struct bt_r2p2_hdr *hdr);

void router_tell_began(struct bt_router *r, uint32_t i, uint8_t label);
enum router_end router_tell_ended(struct bt_router *r, uint64_t now, uint32_t i, uint8_t unserved);
bool router_tell_gone(struct bt_router *r, uint32_t i, bool reused); /* false: its request goes on, or had ended */
void router_tell_forgotten(struct bt_router *r, uint32_t i);
void router_tell_unseen(struct bt_router *r);
uint32_t router_twin(const struct bt_router *r, uint32_t i);
bool router_is_stale(const struct bt_router *r, uint32_t w, const struct bt_feedback *fb);

void router_tell_follow(struct bt_router *r, uint64_t now, struct bt_txq *txq);
void router_tell_tick(struct bt_router *r, uint64_t now);
uint64_t router_watchers_next(const struct bt_router *r);

#endif
