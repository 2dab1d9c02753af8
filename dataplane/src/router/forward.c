// SPDX-License-Identifier: Apache-2.0
// What leaves the router: a request on its way to a worker, or DROP to the client. Both are
// made in the buffer the request came in, so neither can fail for want of memory.
#include <string.h>

#include "router/internal.h"

static const char drop_payload[4] = {'D', 'R', 'O', 'P'};
#define DROP_BYTES (BT_R2P2_HEADER + (uint32_t)sizeof drop_payload)

void router_reject(struct bt_router *r, struct bt_pkt *pkt, enum bt_mcase why)
{
    r->malformed[why]++;
    bt_pool_put(r->pool, pkt);
}

void router_drop(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, enum bt_router_counter reason,
                 struct bt_txq *txq)
{
    r->counter[reason]++;
    if (r->latency != NULL) {
        bt_hist_slices_rejected(r->latency, now, 1);
    }
    uint32_t space = pkt->len + pkt->room_after;
    if (space < DROP_BYTES) {
        bt_pool_put(r->pool, pkt);
        return;
    }
    struct bt_r2p2_hdr hdr = {.type = BT_DROP,
                              .policy = BT_POLICY_STICKY,
                              .first = true,
                              .last = true,
                              .req_id = (uint16_t)(pkt->data[4] << 8 | pkt->data[5]),
                              .count_or_index = 1};
    bt_r2p2_encode(pkt->data, BT_R2P2_HEADER, &hdr);
    memcpy(pkt->data + BT_R2P2_HEADER, drop_payload, sizeof drop_payload);
    pkt->len = DROP_BYTES;
    pkt->room_after = space - DROP_BYTES;
    pkt->dst = pkt->src;
    pkt->src = r->request_addr;
    pkt->tx_as_src = 0;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    bt_txq_push(txq, pkt);
}

/* Options the router adds for a worker that understands them (r2p2.md §11). */
static void choose_options(const struct bt_router *r, const struct bt_pkt *pkt, struct bt_options *add)
{
    memset(add, 0, sizeof *add);
    if (r->forwarding == BT_FORWARD_TRANSPARENT) {
        add->present = BT_HAS_ROUTER;
        add->router_id = r->router_id;
        return;
    }
    add->present = BT_HAS_FORWARDED;
    add->forwarded = pkt->src;
    const struct bt_key *key = bt_keyring_signer(&r->keys);
    if (key != NULL) {
        add->present |= BT_HAS_TAG;
        add->key_id = key->id;
    }
}

static bool fits(const struct bt_router *r, const struct bt_pkt *pkt, const struct worker *worker, size_t more)
{
    uint32_t most = r->max_payload != 0 ? r->max_payload : bt_r2p2_datagram_max(1500, bt_addr_is_v4(&worker->addr));
    return pkt->len + more <= most;
}

/* Rewrites the packet for worker w. False, packet unchanged: no room. */
static bool address_to(struct bt_router *r, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, const struct worker *worker)
{
    if ((worker->flags & WORKER_EXTENDED) == 0) {
        if (!fits(r, pkt, worker, 0)) {
            return false;
        }
        pkt->tx_as_src = 1;
        r->counter[BT_RC_FORWARDED_LEGACY]++;
    } else {
        struct bt_options add;
        choose_options(r, pkt, &add);
        if (!fits(r, pkt, worker, bt_options_size(&add)) || !bt_r2p2_add_options(pkt, hdr, &add)) {
            return false;
        }
        pkt->tx_as_src = r->forwarding == BT_FORWARD_TRANSPARENT ? 1 : 0;
    }
    if (!pkt->tx_as_src) {
        pkt->src = r->request_addr;
    }
    pkt->dst = worker->addr;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    if ((hdr->opt.present & BT_HAS_TAG) != 0) {
        bt_tag_sign(pkt->data, pkt->len, hdr, bt_keyring_signer(&r->keys), &pkt->src, &pkt->dst);
    }
    return true;
}

void router_forward(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, uint32_t w,
                    struct bt_txq *txq)
{
    struct worker *worker = &r->worker[w];
    struct pair request = {.client = pkt->src,
                           .req_id = hdr->req_id,
                           .worker = (uint16_t)w,
                           .since = pkt->t_rx_ns,
                           .sent_at = now,
                           .index = router_sent(r, w)};
    if (!address_to(r, pkt, hdr, worker)) {
        router_drop(r, now, pkt, BT_RC_DROP_NO_ROOM, txq);
        return;
    }
    r->counter[BT_RC_FORWARDED]++;
    if (router_outstanding(r, w) == 0) {
        worker->busy_at = now;
    }
    atomic_store_explicit(&r->sent[w], request.index + 1u, memory_order_relaxed);
    router_refresh(r, w);
    router_watch_start(r, now, &request);
    if (r->hold != NULL) {
        bt_hist_slices_record(r->hold, now, now > pkt->t_rx_ns ? now - pkt->t_rx_ns : 0);
    }
    bt_txq_push(txq, pkt);
}
