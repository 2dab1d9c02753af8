// SPDX-License-Identifier: Apache-2.0
// The driver of virtual time: an endpoint of a network that lives in one process. The owner of
// that network (dataplane/sim) decides what happens to a packet between tx and rx.
#ifndef BT_IO_SIM_H
#define BT_IO_SIM_H

#include "io/io.h"

#define BT_IO_SIM_PORTS 2u

enum bt_io_sim_counter { BT_IO_SIM_TX_PACKETS, BT_IO_SIM_TX_BYTES, BT_IO_SIM_RX_PACKETS, BT_IO_SIM_COUNTERS };

// What an endpoint needs of its network.
struct bt_io_sim_net {
    // Takes the packet over; src is filled in already.
    void (*send)(void *ctx, uint32_t endpoint, struct bt_pkt *pkt);
    void *ctx;
    const uint64_t *now; // virtual ns
};

struct bt_io_sim {
    struct bt_io io; // first, so that &s->io is the interface
    const struct bt_io_sim_net *net;
    uint32_t endpoint;
    struct bt_addr port[BT_IO_SIM_PORTS];
    struct bt_txq inbox[BT_IO_SIM_PORTS];
    uint64_t counter[BT_IO_SIM_COUNTERS];
};

// An endpoint with one or two local ports (port 0 of ports[1].port = only one).
void bt_io_sim_init(struct bt_io_sim *s, const struct bt_io_sim_net *net, uint32_t endpoint,
                    const struct bt_addr ports[BT_IO_SIM_PORTS]);

// A packet arrives from the network; it is queued until rx. Returns 0, or -1 when no local port
// has its destination address (the packet stays the caller's).
int bt_io_sim_arrive(struct bt_io_sim *s, struct bt_pkt *pkt);

// Takes back everything that arrived and was not read, as a crash does.
void bt_io_sim_flush(struct bt_io_sim *s, struct bt_pool *pool);

#endif
