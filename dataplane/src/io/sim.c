// SPDX-License-Identifier: Apache-2.0
// bt_io over a simulated network: rx reads an inbox, tx hands to the network, time is a variable.
#include "io/sim.h"

#include <string.h>

static struct bt_io_sim *self(struct bt_io *io)
{
    return (struct bt_io_sim *)(void *)io;
}

static unsigned sim_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    struct bt_pkt *pkt = max > 0 ? bt_io_sim_take(self(io), local) : NULL;
    if (pkt == NULL) {
        return 0;
    }
    pkts[0] = pkt;
    return 1;
}

static void sim_tx(struct bt_io *io, struct bt_txq *q)
{
    bt_io_sim_send(self(io), q);
}

/* Virtual time passes only between events, so there is nothing to wait for inside one. */
static void sim_wait(struct bt_io *io, uint64_t until_ns)
{
    (void)io;
    (void)until_ns;
}

static uint64_t sim_now(struct bt_io *io)
{
    return *self(io)->net->now;
}

static void sim_wake(struct bt_io *io)
{
    (void)io;
}

static unsigned sim_events(struct bt_io *io, struct bt_io_event *ev, unsigned max)
{
    (void)io;
    (void)ev;
    (void)max;
    return 0;
}

static struct bt_addr sim_local(struct bt_io *io, uint32_t local)
{
    return self(io)->port[local < BT_IO_SIM_PORTS ? local : 0];
}

static const uint64_t *sim_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    static const struct bt_counter_desc names[BT_IO_SIM_COUNTERS] = {
        {"io_tx_packets_total", NULL, NULL},
        {"io_tx_bytes_total", NULL, NULL},
        {"io_rx_packets_total", NULL, NULL},
    };
    *desc = names;
    *n = BT_IO_SIM_COUNTERS;
    return self(io)->counter;
}

static void sim_close(struct bt_io *io)
{
    (void)io;
}

static const struct bt_io_ops sim_ops = {
    .rx = sim_rx,
    .tx = sim_tx,
    .wait = sim_wait,
    .now = sim_now,
    .wake = sim_wake,
    .events = sim_events,
    .local = sim_local,
    .counters = sim_counters,
    .close = sim_close,
};

void bt_io_sim_init(struct bt_io_sim *s, const struct bt_io_sim_net *net, uint32_t endpoint,
                    const struct bt_addr ports[BT_IO_SIM_PORTS])
{
    memset(s, 0, sizeof *s);
    s->io.ops = &sim_ops;
    s->net = net;
    s->endpoint = endpoint;
    for (uint32_t p = 0; p < BT_IO_SIM_PORTS; p++) {
        s->port[p] = ports[p];
    }
}

int bt_io_sim_arrive(struct bt_io_sim *s, struct bt_pkt *pkt)
{
    uint16_t p = pkt->dst.port != s->port[0].port; /* an endpoint without port 1 has an address there that none has */
    if (s->arrived != NULL || !bt_addr_eq(&s->port[p], &pkt->dst)) {
        return -1;
    }
    pkt->local = p;
    pkt->t_rx_ns = *s->net->now;
    pkt->tx_as_src = 0;
    s->arrived = pkt;
    return 0;
}

void bt_io_sim_flush(struct bt_io_sim *s, struct bt_pool *pool)
{
    struct bt_pkt *pkt = bt_io_sim_take(s, BT_IO_ANY);
    if (pkt != NULL) {
        bt_pool_put(pool, pkt);
    }
}
