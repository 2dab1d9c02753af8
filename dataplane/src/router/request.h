// SPDX-License-Identifier: Apache-2.0
// The request port (request.c).
#ifndef BOBTAIL_ROUTER_REQUEST_H
#define BOBTAIL_ROUTER_REQUEST_H

#include "router/watch.h"

/* As bt_router_request, in one thread. */
void router_request(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq);

/* As bt_router_requests, in one thread. */
static inline void router_requests(struct bt_router *r, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq)
{
    for (unsigned i = 0; i < n; i++) {
        if (pkts[i]->len >= BT_R2P2_HEADER) {
            router_watch_expect(r, &pkts[i]->src, bt_get16(pkts[i]->data + BT_R2P2_REQ_ID_AT));
        }
    }
    for (unsigned i = 0; i < n; i++) {
        router_request(r, pkts[i]->t_rx_ns, pkts[i], txq);
    }
}

#endif
