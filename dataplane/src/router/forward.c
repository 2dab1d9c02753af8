// SPDX-License-Identifier: Apache-2.0
// Requests that are not plain, or not in the plainest service, on their way to a worker (see forward.h).
#include "router/forward.h"

#include "router/unmarked.h"

/* A plain request of an IPv4 client where the service has a key. False, nothing changed: it is not that simple. */
static bool forward_tagged(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct router_target to,
                           struct bt_txq *txq)
{
    const struct worker *worker = &r->worker[to.worker];
    if (!router_tagged_fits(r, pkt, worker)) {
        return false;
    }
    struct pair_key key = watch_key(&pkt->src, bt_get16(pkt->data + BT_R2P2_REQ_ID_AT), to.worker);
    count_forwarded(r, now, pkt, key, to, 0);
    router_address_tagged(r, pkt, worker);
    bt_txq_push(txq, pkt);
    return true;
}

bool router_forward_try(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                        struct router_target to, struct bt_txq *txq)
{
    struct bt_r2p2_hdr plain;
    if (hdr == NULL) {
        if (forward_tagged(r, now, pkt, to, txq)) {
            return true;
        }
        hdr = &plain;
        bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, hdr); /* it is valid: bt_r2p2_is_plain said so */
    }
    struct worker *worker = &r->worker[to.worker];
    struct pair_key key = watch_key(&pkt->src, hdr->req_id, to.worker);
    if (!router_address(r, pkt, hdr, worker)) {
        return false;
    }
    if (router_outstanding(r, to.worker) == 0) {
        worker->busy_at = now;
    }
    count_forwarded(r, now, pkt, key, to, router_label(r, hdr));
    bt_txq_push(txq, pkt);
    return true;
}

bool router_forward_any(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                        struct router_target to, struct bt_txq *txq)
{
    if (!router_forward_try(r, now, pkt, hdr, to, txq)) {
        if (!router_forward_unmarked(r, pkt, to.worker, txq)) {
            router_drop(r, now, pkt, BT_RC_DROP_NO_ROOM, txq);
        }
        return false;
    }
    return true;
}

bool router_forward_bare(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                         struct router_target to, struct bt_txq *txq)
{
    return (hdr == NULL && router_forward_plain(r, now, pkt, to, txq)) || router_forward_any(r, now, pkt, hdr, to, txq);
}

bool router_forward(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr,
                    struct router_target to, struct bt_txq *txq)
{
    if (__builtin_expect(r->watchers.forward != NULL, 0)) {
        return router_forward_watched(r, now, pkt, hdr, to, txq);
    }
    return router_forward_bare(r, now, pkt, hdr, to, txq);
}
