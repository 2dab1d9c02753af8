// SPDX-License-Identifier: Apache-2.0
// See port.h.
#include "rpc/port.h"

#include <string.h>

bool bt_port_init(struct bt_port *p, struct bt_pool *pool, const struct bt_addr *local, uint16_t local_index,
                  uint16_t mtu, uint32_t max_message)
{
    // 576 leaves room for the longest header and a SACK; a packet must fit a buffer.
    if (!pool || mtu < 576 || mtu > BT_PKT_BUFFER - BT_PKT_HEADROOM || max_message == 0 || max_message > (1u << 26)) {
        return false;
    }
    p->pool = pool;
    p->local = *local;
    p->local_index = local_index;
    p->datagram_v4 = bt_r2p2_datagram_max(mtu, true);
    p->datagram_v6 = bt_r2p2_datagram_max(mtu, false);
    p->max_message = max_message;
    // A short first packet, a short last one, full ones in between.
    uint32_t packets = 2 + max_message / (p->datagram_v6 - BT_R2P2_HEADER);
    p->max_packets = packets < 65535 ? packets : 65535;
    return true;
}

struct bt_pkt *bt_port_packet(const struct bt_port *p, const struct bt_addr *dst)
{
    struct bt_pkt *pkt = bt_pool_get(p->pool);
    if (pkt) {
        pkt->src = p->local;
        pkt->dst = *dst;
        pkt->local = p->local_index;
    }
    return pkt;
}

bool bt_port_send(const struct bt_port *p, const struct bt_addr *dst, struct bt_r2p2_hdr *h, const void *payload,
                  uint32_t n, struct bt_txq *txq)
{
    struct bt_pkt *pkt = bt_port_packet(p, dst);
    if (!pkt) {
        return false;
    }
    uint8_t *to = bt_pkt_append(pkt, n);
    if (to && n) {
        memcpy(to, payload, n);
    }
    if (!to || !bt_r2p2_push_header(pkt, h)) {
        bt_pool_put(p->pool, pkt);
        return false;
    }
    bt_txq_push(txq, pkt);
    return true;
}
