// SPDX-License-Identifier: Apache-2.0
// What a plain request (bt_r2p2_is_plain) on its way to a worker needs, straight from and to its bytes: nearly every
// one is such. In a header for the same reason as watch.h; every other request is forward.c's.
#ifndef BOBTAIL_ROUTER_FORWARD_H
#define BOBTAIL_ROUTER_FORWARD_H

#include "router/internal.h"
#include "router/watch.h"

/* Bytes of the one option a plain request gets. */
#define PLAIN_OPTION ((uint32_t)sizeof((struct bt_router *)0)->option)

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

/* The worker reads options, there is room, and one option is enough: no tag, no IPv6 address. */
EVERY_PACKET bool plain_fits(const struct bt_router *r, const struct bt_pkt *pkt, const struct worker *worker)
{
    return (worker->flags & WORKER_EXTENDED) != 0 && pkt->room_before >= PLAIN_OPTION &&
           pkt->len + PLAIN_OPTION <= r->max_payload &&
           (r->forwarding == BT_FORWARD_TRANSPARENT ||
            (bt_addr_is_v4(&pkt->src) && bt_keyring_signer(&r->keys) == NULL));
}

/* The option that names the IPv4 client. */
EVERY_PACKET void put_forwarded(uint8_t *option, const struct bt_addr *client)
{
    bt_put16(option, BT_OPTION_FORWARDED << 8 | PLAIN_OPTION);
    bt_put16(option + 2, client->port);
    memcpy(option + 4, client->ip + 12, 4);
}

/* Moves the header to the front of the option, which says which router forwarded the request, or for whom. */
EVERY_PACKET void address_plain(const struct bt_router *r, struct bt_pkt *pkt, const struct worker *worker)
{
    uint8_t *p = pkt->data - PLAIN_OPTION;
    memcpy(p, pkt->data, BT_R2P2_HEADER);
    p[1] = BT_R2P2_HEADER + PLAIN_OPTION;
    uint8_t *option = p + BT_R2P2_HEADER;
    pkt->data = p;
    pkt->len += PLAIN_OPTION;
    pkt->room_before -= PLAIN_OPTION;
    pkt->tx_as_src = r->forwarding == BT_FORWARD_TRANSPARENT;
    if (pkt->tx_as_src) {
        memcpy(option, r->option, PLAIN_OPTION);
    } else {
        put_forwarded(option, &pkt->src);
        pkt->src = r->request_addr;
    }
    pkt->dst = worker->addr;
    pkt->local = BT_ROUTER_PORT_REQUEST;
}

/* Worker w has one request more: pkt, known by key, which leaves the router. */
EVERY_PACKET void count_forwarded(struct bt_router *r, uint64_t now, const struct bt_pkt *pkt, struct pair_key key,
                                  uint32_t w, uint8_t label, bool handed_over)
{
    r->counter[BT_RC_FORWARDED]++;
    uint64_t index = router_count_sent(r, w);
    if (handed_over) {
        router_hand_over(r, w);
    } else {
        bt_load_push(&r->load, w);
    }
    if (r->hold != NULL) {
        bt_hist_slices_record(r->hold, now, now - pkt->t_rx_ns); /* no packet arrived after the latest time */
    }
    router_watch_start(r, key, (struct pair_sent){.since = pkt->t_rx_ns, .at = now, .index = index}, label);
}

/* False, nothing changed: it is not that simple. */
EVERY_PACKET bool router_forward_plain(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, uint32_t w,
                                       bool handed_over, struct bt_txq *txq)
{
    const struct worker *worker = &r->worker[w];
    if (__builtin_expect(!plain_fits(r, pkt, worker), 0)) {
        return false;
    }
    struct pair_key key = watch_key(&pkt->src, bt_get16(pkt->data + BT_R2P2_REQ_ID_AT), w);
    count_forwarded(r, now, pkt, key, w, 0, handed_over);
    address_plain(r, pkt, worker);
    bt_txq_push(txq, pkt);
    return true;
}

/* unmarked.c. False, nothing changed: it cannot go so. */
bool router_forward_unmarked(struct bt_router *r, struct bt_pkt *pkt, uint32_t w, struct bt_txq *txq);

#endif
