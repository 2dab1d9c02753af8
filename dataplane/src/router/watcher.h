// SPDX-License-Identifier: Apache-2.0
// Who is told of what happens to requests. A feature of the router (admission control, hedging) or the other half of a
// router on two threads registers a row of functions when a configuration is applied; the core goes through the rows
// and knows none of them by name. A field that is NULL asks for nothing, and without rows nothing is looked for.
#ifndef BOBTAIL_ROUTER_WATCHER_H
#define BOBTAIL_ROUTER_WATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bt_feedback;
struct bt_pkt;
struct bt_r2p2_hdr;
struct bt_router;
struct bt_txq;
struct pair_key;
struct pair_sent;

/* Where a request is sent. */
struct router_target {
    uint32_t worker;
    bool handed_over; /* its worker was the sole choice: the index says that it is full, and need not change */
};

/* What a watcher makes of the end of a pair. */
enum router_end {
    ROUTER_END,       /* its request ends with it */
    ROUTER_END_LATE,  /* its request had ended: the later of two copies */
    ROUTER_TAKEN_BACK /* its worker let go of it, and its request goes on: nobody else is told */
};

struct router_watcher {
    bool notes; /* every request and pair matters to it */

    /* --- requests, hdr as router_route has it --- */
    void (*arrived)(struct bt_router *r);
    /* False: DROP was sent. May make of a plain request another one, whose header it puts in room. */
    bool (*admit)(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr **hdr,
                  struct bt_r2p2_hdr *room, struct bt_txq *txq);
    /* Of policy 0. True: it was sent in its own way, past the policy. */
    bool (*send)(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, struct bt_txq *txq);
    /* Instead of router_forward_bare, which it calls. One watcher at most. */
    bool (*forward)(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                    struct router_target to, struct bt_txq *txq);
    /* What it wants to find in the label of its pair. One watcher at most. */
    uint8_t (*label)(const struct bt_r2p2_hdr *hdr);
    /* It left, and is watched elsewhere. One watcher at most. */
    void (*sent)(struct bt_router *r, struct pair_key key, struct pair_sent sent, uint8_t label);

    /* --- pairs: i is a place in the slab --- */
    void (*began)(struct bt_router *r, uint32_t i);
    enum router_end (*ended)(struct bt_router *r, uint64_t now, uint32_t i, uint8_t unserved);
    bool (*gone)(struct bt_router *r, uint32_t i,
                 bool reused);                               /* without FEEDBACK; false: not its request's last one */
    void (*forgotten)(struct bt_router *r, uint32_t i);      /* before it is removed, and its request goes on */
    void (*unseen)(struct bt_router *r);                     /* a request left, and no pair stands for it */
    uint32_t (*twin)(const struct bt_router *r, uint32_t i); /* the other pair of the same request, or 0 */
    /* A FEEDBACK speaks of an earlier request of the pair's identity. */
    bool (*stale)(const struct bt_router *r, uint32_t w, const struct bt_feedback *fb);

    /* --- workers: what w owes or may get is another. One watcher at most, which keeps the index instead. --- */
    void (*changed)(struct bt_router *r, size_t w);

    /* --- time --- */
    void (*follow)(struct bt_router *r, uint64_t now, struct bt_txq *txq); /* behind requests, FEEDBACK and ticks */
    void (*tick)(struct bt_router *r, uint64_t now);
    uint64_t (*next)(const struct bt_router *r); /* when a tick is of use */
};

#define ROUTER_WATCHERS_MAX 4u

struct router_watchers {
    const struct router_watcher *row[ROUTER_WATCHERS_MAX];
    uint32_t n, lasting; /* the first so many stay when a configuration is applied */
    /* of the rows, those that one alone may have */
    bool (*forward)(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                    struct router_target to, struct bt_txq *txq);
    uint8_t (*label)(const struct bt_r2p2_hdr *hdr);
    void (*sent)(struct bt_router *r, struct pair_key key, struct pair_sent sent, uint8_t label);
    void (*changed)(struct bt_router *r, size_t w);
};

#endif
