// SPDX-License-Identifier: Apache-2.0
// The central FIFO and the hold-back tweak in front of busy workers.
#include "router/queue.h"

#include "router/forward.h"

static uint64_t age(const struct bt_pkt *pkt, uint64_t now)
{
    return now > pkt->t_rx_ns ? now - pkt->t_rx_ns : 0;
}

/* a worker has credit but none is idle, so the request may wait a little for an idle one. ahead counts it and
 * everything that waits before it. */
static bool hold_back(const struct bt_router *r, const struct bt_pkt *oldest, uint32_t ahead, uint64_t now)
{
    return r->hold_back_packets != 0 && bt_load_any_free(&r->load) && !bt_load_has_idle(&r->load) &&
           ahead <= r->hold_back_packets && age(oldest, now) < r->hold_back_ns;
}

/* Gives the head of the FIFO to a worker. */
EVERY_PACKET void release(struct bt_router *r, uint64_t now, struct router_target to, struct bt_txq *txq)
{
    struct bt_pkt *pkt = bt_txq_pop(&r->held);
    struct bt_r2p2_hdr hdr;
    if (bt_r2p2_is_plain(pkt->data, pkt->len, BT_REQUEST)) {
        router_forward(r, now, pkt, NULL, to, txq);
    } else if (bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, &hdr) == BT_M_OK) { /* as on arrival */
        router_forward(r, now, pkt, &hdr, to, txq);
    } else {
        bt_pool_put(r->pool, pkt);
    }
}

void router_pump(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    r->pump_due = false;
    r->waits_for_credit = false;
    router_expire_held(r, now, txq); /* after a pause credit may come before the tick: what is too old goes first */
    while (r->held.n > 0 && !hold_back(r, r->held.head, r->held.n, now)) {
        uint32_t w = router_choose(r);
        if (w == BT_NO_WORKER) {
            r->waits_for_credit = r->load.bounded && r->hold_back_packets == 0;
            return;
        }
        release(r, now, router_to(w), txq);
    }
}

void router_credit_held(struct bt_router *r, uint64_t now, uint32_t w, uint64_t outstanding, struct bt_txq *txq)
{
    if (router_sole_choice(r, w, outstanding) && age(r->held.head, now) < r->max_queue_ns) {
        uint64_t sent = router_sent(r, w);
        release(r, now, (struct router_target){.worker = w, .handed_over = true}, txq);
        if (router_sent(r, w) != sent) {
            return;
        }
    }
    bt_load_move(&r->load, w, outstanding);
    router_pump(r, now, txq);
}

/* The request goes to whom the policy says, if anybody. */
static inline bool route_at_once(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                                 struct bt_txq *txq)
{
    uint32_t w = router_choose(r);
    if (w == BT_NO_WORKER) {
        return false;
    }
    router_forward(r, now, pkt, hdr, router_to(w), txq);
    return true;
}

void router_hold(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, bool held_back, struct bt_txq *txq)
{
    if (r->order_n == 0) {
        router_drop(r, now, pkt, BT_RC_DROP_NO_MEMBERS, txq);
        return;
    }
    if (r->held.n >= r->central_limit) {
        router_drop(r, now, pkt, BT_RC_DROP_QUEUE_FULL, txq);
        return;
    }
    r->counter[held_back ? BT_RC_HELD_BACK : BT_RC_HELD]++;
    bt_txq_push(&r->held, pkt);
    if (!r->waits_for_credit || r->held.n == 1) {
        router_pump(r, now, txq); /* one more may be more than hold-back allows */
    }
}

void router_route(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, struct bt_txq *txq)
{
    if (r->held.n > 0) { /* nobody overtakes */
        if (r->waits_for_credit) {
            router_expire_held(r, now, txq);
        } else {
            router_pump(r, now, txq);
        }
    }
    bool waits = r->hold_back_packets != 0 && hold_back(r, r->held.n > 0 ? r->held.head : pkt, r->held.n + 1u, now);
    if (r->held.n == 0 && !waits && route_at_once(r, now, pkt, hdr, txq)) {
        return;
    }
    router_hold(r, now, pkt, waits, txq);
}

void router_expire_held(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    while (r->held.n > 0 && age(r->held.head, now) >= r->max_queue_ns) {
        router_drop(r, now, bt_txq_pop(&r->held), BT_RC_DROP_QUEUE_TIMEOUT, txq);
    }
}

uint64_t router_queue_next(const struct bt_router *r)
{
    if (r->held.n == 0) {
        return UINT64_MAX;
    }
    if (r->pump_due) {
        return 0;
    }
    uint64_t due = r->held.head->t_rx_ns + r->max_queue_ns;
    uint64_t release = r->held.head->t_rx_ns + r->hold_back_ns;
    return bt_load_any_free(&r->load) && release < due ? release : due;
}
