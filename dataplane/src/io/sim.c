// SPDX-License-Identifier: Apache-2.0
// bt_io over a simulated network: rx reads an inbox per port, tx hands to the network, time is a variable.
#include "io/sim.h"

#include <string.h>

enum { HEADERS_V4 = 20 + 8, HEADERS_V6 = 40 + 8 };

static struct bt_io_sim *self(struct bt_io *io)
{
    return (struct bt_io_sim *)(void *)io;
}

static unsigned sim_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    struct bt_io_sim *s = self(io);
    unsigned n = 0;
    for (uint32_t p = 0; p < BT_IO_SIM_PORTS; p++) {
        while ((local == BT_IO_ANY || local == p) && n < max && s->inbox[p].n != 0) {
            pkts[n++] = bt_txq_pop(&s->inbox[p]);
        }
    }
    return n;
}

/* Why a packet cannot be sent; BT_IO_SIM_TX_PACKETS: it can. */
static enum bt_io_sim_counter judge(const struct bt_io_sim *s, const struct bt_pkt *pkt)
{
    bool v4 = bt_addr_is_v4(&pkt->dst);
    if (pkt->local >= BT_IO_SIM_PORTS || s->port[pkt->local].port == 0 || bt_addr_is_v4(&s->port[pkt->local]) != v4) {
        return BT_IO_SIM_TX_BAD_ADDRESS;
    }
    if (s->net->mtu != 0 && pkt->len + (v4 ? HEADERS_V4 : HEADERS_V6) > s->net->mtu) {
        return BT_IO_SIM_TX_TOO_LONG;
    }
    return BT_IO_SIM_TX_PACKETS;
}

static void sim_tx(struct bt_io *io, struct bt_txq *q)
{
    struct bt_io_sim *s = self(io);
    struct bt_txq good;
    struct bt_pkt *pkt;
    bt_txq_init(&good);
    while ((pkt = bt_txq_pop(q)) != NULL) {
        enum bt_io_sim_counter why = judge(s, pkt);
        if (why == BT_IO_SIM_TX_PACKETS) {
            bt_txq_push(&good, pkt);
        } else {
            s->counter[why]++;
            bt_pool_put(s->net->pool, pkt);
        }
    }
    bt_io_sim_send_by(s, &good, s->net->send);
}

bool bt_io_sim_ready(const struct bt_io_sim *s)
{
    return s->inbox[0].n != 0 || s->inbox[1].n != 0 || s->n_events != 0 || atomic_load(&s->woken);
}

static void sim_wait(struct bt_io *io, uint64_t until_ns)
{
    struct bt_io_sim *s = self(io);
    if (s->net->pass != NULL) {
        s->net->pass(s->net->ctx, s->endpoint, bt_io_sim_ready(s) ? *s->net->now : until_ns);
    }
    atomic_store(&s->woken, false);
}

static uint64_t sim_now(struct bt_io *io)
{
    return *self(io)->net->now;
}

static void sim_wake(struct bt_io *io)
{
    atomic_store(&self(io)->woken, true);
}

static unsigned sim_events(struct bt_io *io, struct bt_io_event *ev, unsigned max)
{
    struct bt_io_sim *s = self(io);
    unsigned n = s->n_events < max ? s->n_events : max;
    memcpy(ev, s->event, n * sizeof *ev);
    s->n_events -= n;
    memmove(s->event, s->event + n, s->n_events * sizeof *ev);
    return n;
}

static struct bt_addr sim_local(struct bt_io *io, uint32_t local)
{
    return self(io)->port[local < BT_IO_SIM_PORTS ? local : 0];
}

static const uint64_t *sim_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    static const struct bt_counter_desc names[BT_IO_SIM_COUNTERS] = {
        [BT_IO_SIM_TX_PACKETS] = {"io_tx_packets_total", NULL, NULL},
        [BT_IO_SIM_TX_BYTES] = {"io_tx_bytes_total", NULL, NULL},
        [BT_IO_SIM_RX_PACKETS] = {"io_rx_packets_total", NULL, NULL},
        [BT_IO_SIM_RX_TOO_LONG] = {"io_rx_dropped_total", "reason", "too_long"},
        [BT_IO_SIM_RX_NO_BUFFER] = {"io_rx_dropped_total", "reason", "no_buffer"},
        [BT_IO_SIM_TX_TOO_LONG] = {"io_tx_dropped_total", "reason", "too_long"},
        [BT_IO_SIM_TX_BAD_ADDRESS] = {"io_tx_dropped_total", "reason", "bad_address"},
        [BT_IO_SIM_UNREACHABLE] = {"io_unreachable_total", NULL, NULL},
    };
    *desc = names;
    *n = BT_IO_SIM_COUNTERS;
    return self(io)->counter;
}

static void sim_close(struct bt_io *io)
{
    struct bt_io_sim *s = self(io);
    for (uint32_t p = 0; p < BT_IO_SIM_PORTS; p++) {
        bt_pool_put_chain(s->net->pool, s->inbox[p].head);
        bt_txq_init(&s->inbox[p]);
    }
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

bool bt_io_sim_deliver(struct bt_io_sim *s, const struct bt_addr *src, const struct bt_addr *dst, const uint8_t *data,
                       uint32_t len)
{
    uint16_t p = dst->port != s->port[0].port; /* an endpoint without port 1 has an address there that none has */
    if (!bt_addr_eq(&s->port[p], dst)) {
        return false;
    }
    struct bt_pkt *pkt = bt_pool_get(s->net->pool);
    uint8_t *at = pkt != NULL ? bt_pkt_append(pkt, len) : NULL;
    if (at == NULL) {
        s->counter[pkt == NULL ? BT_IO_SIM_RX_NO_BUFFER : BT_IO_SIM_RX_TOO_LONG]++;
        if (pkt != NULL) {
            bt_pool_put(s->net->pool, pkt);
        }
        return true;
    }
    if (len != 0) {
        memcpy(at, data, len);
    }
    pkt->src = *src;
    pkt->dst = *dst;
    pkt->local = p;
    pkt->t_rx_ns = *s->net->now;
    s->counter[BT_IO_SIM_RX_PACKETS]++;
    bt_txq_push(&s->inbox[p], pkt);
    return true;
}

void bt_io_sim_tell(struct bt_io_sim *s, const struct bt_io_event *ev)
{
    s->counter[BT_IO_SIM_UNREACHABLE]++;
    if (s->n_events < BT_IO_SIM_EVENTS) {
        s->event[s->n_events++] = *ev;
    }
}
