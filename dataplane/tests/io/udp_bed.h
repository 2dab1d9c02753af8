// SPDX-License-Identifier: Apache-2.0
// Two ends of the UDP driver on loopback that share a pool: what its tests stand on.
#ifndef BT_TESTS_UDP_BED_H
#define BT_TESTS_UDP_BED_H

#include "unit.h"

#include "io/udp.h"
#include "io/udp_internal.h"

#define MS UINT64_C(1000000)

struct rig {
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    void *mem;
    uint32_t packets;
    struct bt_io *a, *b; // a has two ports
};

struct bt_io *udp_open_at(struct bt_pool *pool, const char *const *where, unsigned n, enum bt_idle idle, bool report,
                          unsigned rcvbuf);
void rig_open(struct rig *r, uint32_t packets, const char *ip, enum bt_idle idle);
// Every buffer must have come home.
void rig_close(struct rig *r);

uint64_t udp_counter(struct bt_io *io, enum bt_udp_counter c);
struct bt_addr udp_local(struct bt_io *io, uint32_t port);
void udp_queue(struct rig *r, struct bt_txq *q, uint16_t from, struct bt_addr dst, const void *data, uint32_t len);
// Receives until `want` packets are there or a minute has passed.
unsigned udp_receive(struct bt_io *io, uint32_t port, struct bt_pkt **pkts, unsigned want);

#endif
