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

/* The one option a plain request needs, as it stands in the packet: which router forwarded it, or for whom. False: it
 * needs more, a tag, or room for an IPv6 address. */
static inline bool write_option(const struct bt_router *r, uint8_t *p, const struct bt_addr *client)
{
    if (r->forwarding == BT_FORWARD_TRANSPARENT) {
        memcpy(p, r->option, sizeof r->option);
        return true;
    }
    if (!bt_addr_is_v4(client) || bt_keyring_signer(&r->keys) != NULL) {
        return false;
    }
    bt_put16(p, BT_OPTION_FORWARDED << 8 | sizeof r->option);
    bt_put16(p + 2, client->port);
    memcpy(p + 4, client->ip + 12, 4);
    return true;
}

/* The same in a few instructions for a plain request, as nearly all are: the header moves to the front of the option
 * that names this router or the client. False, packet unchanged: it is not that simple. */
static inline bool address_plain(const struct bt_router *r, struct bt_pkt *pkt, const struct worker *worker)
{
    uint8_t option[sizeof r->option];
    if ((worker->flags & WORKER_EXTENDED) == 0 || pkt->room_before < sizeof option ||
        pkt->len + sizeof option > r->max_payload || !write_option(r, option, &pkt->src)) {
        return false;
    }
    uint8_t *p = pkt->data - sizeof option;
    memcpy(p, pkt->data, BT_R2P2_HEADER);
    memcpy(p + BT_R2P2_HEADER, option, sizeof option);
    p[1] = BT_R2P2_HEADER + sizeof option;
    pkt->data = p;
    pkt->len += (uint32_t)sizeof option;
    pkt->room_before -= (uint32_t)sizeof option;
    pkt->tx_as_src = r->forwarding == BT_FORWARD_TRANSPARENT;
    if (!pkt->tx_as_src) {
        pkt->src = r->request_addr;
    }
    pkt->dst = worker->addr;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    return true;
}

/* The packet is addressed to w: counts it and lets it go. */
static inline void let_go(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, uint32_t w, bool handed_over,
                          struct bt_txq *txq)
{
    r->counter[BT_RC_FORWARDED]++;
    if (router_outstanding(r, w) == 0) {
        r->worker[w].busy_at = now;
    }
    if (handed_over) {
        router_count_handed_over(r, w);
    } else {
        router_count_sent(r, w);
    }
    if (r->hold != NULL) {
        bt_hist_slices_record(r->hold, now, now > pkt->t_rx_ns ? now - pkt->t_rx_ns : 0);
    }
    bt_txq_push(txq, pkt);
}

/* Any other request, which hdr describes, or NULL for a plain one. False: DROP was sent instead. */
__attribute__((noinline)) static bool forward_any(struct bt_router *r, uint64_t now, struct bt_pkt *pkt,
                                                  struct bt_r2p2_hdr *hdr, uint32_t w, bool handed_over,
                                                  struct bt_txq *txq)
{
    struct bt_addr client = pkt->src;
    struct bt_r2p2_hdr plain;
    if (hdr == NULL) {
        hdr = &plain;
        bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, hdr); /* it is valid: bt_r2p2_is_plain said so */
    }
    if (!address_to(r, pkt, hdr, &r->worker[w])) {
        router_drop(r, now, pkt, BT_RC_DROP_NO_ROOM, txq);
        return false;
    }
    let_go(r, now, pkt, w, handed_over, txq);
    router_watch_start(r, now, &client, hdr->req_id, w, pkt->t_rx_ns);
    return true;
}

bool router_forward(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, uint32_t w,
                    bool handed_over, struct bt_txq *txq)
{
    struct bt_addr client = pkt->src;
    if (hdr != NULL || !address_plain(r, pkt, &r->worker[w])) {
        return forward_any(r, now, pkt, hdr, w, handed_over, txq);
    }
    let_go(r, now, pkt, w, handed_over, txq);
    router_watch_start(r, now, &client, bt_get16(pkt->data + 4), w, pkt->t_rx_ns);
    return true;
}
