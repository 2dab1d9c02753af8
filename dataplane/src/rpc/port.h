// SPDX-License-Identifier: Apache-2.0
// What client and server share: their place on the network, its packet sizes,
// and how a packet of theirs is made.
#ifndef BT_RPC_PORT_H
#define BT_RPC_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pkt.h"
#include "wire/r2p2.h"

struct bt_port {
    struct bt_pool *pool;
    struct bt_addr local;
    uint16_t local_index;
    uint32_t datagram_v4, datagram_v6; // largest UDP payload
    uint32_t max_packets;              // of one message
    uint32_t max_message;              // bytes of one message
};

// False when the MTU or the message limit make no sense.
bool bt_port_init(struct bt_port *p, struct bt_pool *pool, const struct bt_addr *local, uint16_t local_index,
                  uint16_t mtu, uint32_t max_message);

static inline uint32_t bt_port_datagram(const struct bt_port *p, const struct bt_addr *peer)
{
    return bt_addr_is_v4(peer) ? p->datagram_v4 : p->datagram_v6;
}

// Payload of a full packet without options: 1464 B on IPv4 with MTU 1500.
static inline uint32_t bt_port_full(const struct bt_port *p, const struct bt_addr *peer)
{
    return bt_port_datagram(p, peer) - BT_R2P2_HEADER;
}

// An empty packet addressed to dst, or NULL when the pool is empty.
struct bt_pkt *bt_port_packet(const struct bt_port *p, const struct bt_addr *dst);

// Sends a packet of h with n payload bytes; false when the pool is empty.
bool bt_port_send(const struct bt_port *p, const struct bt_addr *dst, struct bt_r2p2_hdr *h, const void *payload,
                  uint32_t n, struct bt_txq *txq);

// Source checks that need no table (M-23), and the packet size (M-14).
static inline enum bt_mcase bt_port_check(const struct bt_port *p, const struct bt_pkt *pkt)
{
    if (bt_addr_bad_source(&pkt->src) || bt_addr_eq(&pkt->src, &p->local)) {
        return BT_M23;
    }
    return pkt->len > bt_port_datagram(p, &pkt->src) ? BT_M14 : BT_M_OK;
}

#endif
