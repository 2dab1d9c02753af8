// SPDX-License-Identifier: Apache-2.0
// How packets leave the router: a request addressed to a worker, or DROP to the client. Both
// are made in the buffer the request came in, so neither can fail for want of memory. What a plain request
// (bt_r2p2_is_plain) needs stands here, straight from and to its bytes: nearly every one is such.
#ifndef BOBTAIL_ROUTER_LEAVE_H
#define BOBTAIL_ROUTER_LEAVE_H

#include "base/bytes.h"
#include "router/state.h"

/* Bytes of the one option a plain request gets. */
#define PLAIN_OPTION ((uint32_t)sizeof((struct bt_router *)0)->option)

void router_drop(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, enum bt_router_counter reason,
                 struct bt_txq *txq);
void router_reject(struct bt_router *r, struct bt_pkt *pkt, enum bt_mcase why);

/* Rewrites the packet, which hdr describes, for a worker. False, packet unchanged: no room. */
bool router_address(struct bt_router *r, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, const struct worker *worker);

/* The same for a plain request of an IPv4 client where the service has a key. It is that simple if the first says so.
 */
bool router_tagged_fits(const struct bt_router *r, const struct bt_pkt *pkt, const struct worker *worker);
void router_address_tagged(const struct bt_router *r, struct bt_pkt *pkt, const struct worker *worker);

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

#endif
