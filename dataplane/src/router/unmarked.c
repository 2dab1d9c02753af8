// SPDX-License-Identifier: Apache-2.0
// A request without room for the option by which its worker would know the router. Transparent forwarding
// promises that only the destination is rewritten, so it goes as it came. The worker takes it for one that came
// directly and tells nobody of its end: it is not counted as sent, since nothing would give its credit back but
// T_loss.
#include "router/unmarked.h"

bool router_forward_unmarked(struct bt_router *r, struct bt_pkt *pkt, uint32_t w, struct bt_txq *txq)
{
    const struct worker *worker = &r->worker[w];
    uint32_t most = r->max_payload != 0 ? r->max_payload : bt_r2p2_datagram_max(1500, bt_addr_is_v4(&worker->addr));
    if (r->forwarding != BT_FORWARD_TRANSPARENT || (worker->flags & WORKER_EXTENDED) == 0 || pkt->len > most) {
        return false;
    }
    r->counter[BT_RC_FORWARDED]++;
    r->counter[BT_RC_FORWARDED_BARE]++;
    pkt->tx_as_src = 1;
    pkt->dst = worker->addr;
    pkt->local = BT_ROUTER_PORT_REQUEST;
    bt_txq_push(txq, pkt);
    return true;
}
