// SPDX-License-Identifier: Apache-2.0
// A request on its way to the worker that was chosen for it. What a plain one needs is in a header for the same reason
// as watch.h; every other request is forward.c's.
#ifndef BOBTAIL_ROUTER_FORWARD_H
#define BOBTAIL_ROUTER_FORWARD_H

#include "router/leave.h"
#include "router/watch.h"

/* hdr: the packet's header as decoded on arrival, NULL for a plain one (bt_r2p2_is_plain). False: DROP was sent. */
bool router_forward(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                    struct router_target to, struct bt_txq *txq);

/* The same, and no watcher has it done in its own way. */
bool router_forward_bare(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                         struct router_target to, struct bt_txq *txq);

/* The same, of a request that router_forward_plain does not take. False: the worker has none more; DROP was sent
 * instead, or the request went unmarked. */
bool router_forward_any(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                        struct router_target to, struct bt_txq *txq);

/* The same. False: nothing happened, it does not fit. */
bool router_forward_try(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                        struct router_target to, struct bt_txq *txq);

/* As the policy decided. */
static inline struct router_target router_to(uint32_t worker)
{
    return (struct router_target){.worker = worker};
}

/* A well-formed request came. */
EVERY_PACKET void router_note_arrival(struct bt_router *r, uint64_t now, struct bt_pkt *pkt)
{
    if (pkt->t_rx_ns == 0 || pkt->t_rx_ns > now) {
        pkt->t_rx_ns = now;
    }
    r->last_request_at = now;
    r->counter[BT_RC_REQUESTS]++;
    if (r->latency != NULL) {
        bt_hist_slices_arrived(r->latency, now, 1);
    }
}

/* The worker has one request more: pkt, known by key, which leaves the router. */
EVERY_PACKET void count_forwarded(struct bt_router *r, uint64_t now, const struct bt_pkt *pkt, struct pair_key key,
                                  struct router_target to, uint8_t label)
{
    r->counter[BT_RC_FORWARDED]++;
    uint64_t index = router_count_sent(r, to.worker);
    if (to.handed_over) {
        router_hand_over(r, to.worker);
    } else {
        bt_load_push(&r->load, to.worker);
    }
    if (r->hold != NULL) {
        bt_hist_slices_record(r->hold, now, now - pkt->t_rx_ns); /* no packet arrived after the latest time */
    }
    router_watch_start(r, key, (struct pair_sent){.since = pkt->t_rx_ns, .at = now, .index = index}, label);
}

/* False, nothing changed: it is not that simple. */
EVERY_PACKET bool router_forward_plain(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct router_target to,
                                       struct bt_txq *txq)
{
    const struct worker *worker = &r->worker[to.worker];
    if (__builtin_expect(!plain_fits(r, pkt, worker), 0)) {
        return false;
    }
    struct pair_key key = watch_key(&pkt->src, bt_get16(pkt->data + BT_R2P2_REQ_ID_AT), to.worker);
    count_forwarded(r, now, pkt, key, to, 0);
    address_plain(r, pkt, worker);
    bt_txq_push(txq, pkt);
    return true;
}

#endif
