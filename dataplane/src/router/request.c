// SPDX-License-Identifier: Apache-2.0
// The request port: what may be routed, what is answered with DROP, what is discarded (r2p2.md §9).
#include "router/request.h"

#include "router/forward.h"
#include "router/queue.h"
#include "router/workers.h"

/* M-23: nobody honest sends from there, and an answer would go astray or come back to us. */
EVERY_PACKET bool bad_source(const struct bt_router *r, const struct bt_addr *src)
{
    return bt_addr_bad_source(src) || bt_addr_eq(src, &r->request_addr) || bt_addr_eq(src, &r->feedback_addr);
}

static enum bt_mcase judge_request(const struct bt_router *r, const struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr)
{
    enum bt_mcase m = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, hdr);
    if (m != BT_M_OK && m != BT_M6 && m != BT_M_OPT_CRITICAL) {
        return m;
    }
    if (bad_source(r, &pkt->src)) {
        return BT_M23;
    }
    if ((hdr->opt.present & (BT_HAS_FORWARDED | BT_HAS_TAG | BT_HAS_ROUTER | BT_HAS_COPY)) != 0) {
        return BT_M_FORWARDER; /* only routers write these, and a DROP would not find the client */
    }
    if (m != BT_M_OK) {
        return m;
    }
    if (!hdr->first) {
        return BT_M5; /* REQn goes to the worker directly */
    }
    if (r->max_payload != 0 && pkt->len > r->max_payload) {
        return BT_M14;
    }
    return BT_M_OK;
}

static void route_sticky(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                         struct bt_txq *txq)
{
    if (!router_master_ready(r)) {
        router_drop(r, now, pkt, r->order_n == 0 ? BT_RC_DROP_NO_MEMBERS : BT_RC_DROP_NO_MASTER, txq);
        return;
    }
    if (router_forward(r, now, pkt, hdr, router_to(r->order[0]), txq)) { /* even without credit */
        r->counter[BT_RC_FORWARDED_STICKY]++;
    }
}

/* DROP is owed to a request that asks for what we do not understand (M-6, R-55); everything else malformed gets
 * silence. */
static void refuse(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, const struct bt_r2p2_hdr *hdr,
                   enum bt_mcase m, struct bt_txq *txq)
{
    if ((m != BT_M6 && m != BT_M_OPT_CRITICAL) || !hdr->first) {
        router_reject(r, pkt, m);
        return;
    }
    router_note_arrival(r, now, pkt); /* it has an answer, so it is no discarded packet */
    router_drop(r, now, pkt, m == BT_M6 ? BT_RC_DROP_POLICY : BT_RC_DROP_OPTION, txq);
}

static void choose_policy(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                          struct bt_txq *txq)
{
    switch (hdr->policy) {
    case BT_POLICY_UNRESTRICTED:
        router_route(r, now, pkt, hdr, txq);
        break;
    case BT_POLICY_STICKY:
        route_sticky(r, now, pkt, hdr, txq);
        break;
    default:
        router_drop(r, now, pkt, BT_RC_DROP_POLICY, txq); /* replication is another program's */
        break;
    }
}

/* Everything but a plain request of an honest source: nearly nothing. */
__attribute__((noinline)) static void take_any(struct bt_router *r, uint64_t now, struct bt_pkt *pkt,
                                               struct bt_txq *txq)
{
    struct bt_r2p2_hdr hdr;
    enum bt_mcase m = judge_request(r, pkt, &hdr);
    if (m != BT_M_OK) {
        refuse(r, now, pkt, &hdr, m, txq);
        return;
    }
    router_note_arrival(r, now, pkt);
    if (!r->noted) {
        choose_policy(r, now, pkt, &hdr, txq);
        return;
    }
    struct bt_r2p2_hdr *told = &hdr;
    router_tell_arrived(r);
    if (hdr.policy <= BT_POLICY_STICKY && !router_ask_admit(r, now, pkt, &told, NULL, txq)) {
        return;
    }
    if (hdr.policy != BT_POLICY_UNRESTRICTED || !router_ask_send(r, now, pkt, &hdr, txq)) {
        choose_policy(r, now, pkt, &hdr, txq);
    }
    router_tell_follow(r, now, txq);
}

/* A plain request while somebody watches. Admission comes before the policy; its mark makes it another. */
__attribute__((noinline)) static void take_watched(struct bt_router *r, uint64_t now, struct bt_pkt *pkt,
                                                   struct bt_txq *txq)
{
    struct bt_r2p2_hdr room, *hdr = NULL;
    router_tell_arrived(r);
    if (router_ask_admit(r, now, pkt, &hdr, &room, txq) && !router_ask_send(r, now, pkt, hdr, txq)) {
        router_route(r, now, pkt, hdr, txq);
    }
    router_tell_follow(r, now, txq);
}

/* A plain request while nothing waits nor is to wait for an idle worker; all others go through router_route. */
EVERY_PACKET void route_at_once(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq)
{
    uint32_t w = router_choose(r);
    if (__builtin_expect(w == BT_NO_WORKER, 0)) {
        router_hold(r, now, pkt, false, txq);
    } else if (!router_forward_plain(r, now, pkt, router_to(w), txq)) {
        router_forward_any(r, now, pkt, NULL, router_to(w), txq);
    }
}

void router_request(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq)
{
    now = router_clock(r, now);
    if (!bt_r2p2_is_plain(pkt->data, pkt->len, BT_REQUEST) || bad_source(r, &pkt->src) || pkt->len > r->max_payload) {
        take_any(r, now, pkt, txq);
        return;
    }
    router_note_arrival(r, now, pkt);
    if (__builtin_expect(r->noted, 0)) {
        take_watched(r, now, pkt, txq);
    } else if (__builtin_expect((r->held.n | r->hold_back_packets) != 0, 0)) {
        router_route(r, now, pkt, NULL, txq);
    } else {
        route_at_once(r, now, pkt, txq);
    }
}
