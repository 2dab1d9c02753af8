// SPDX-License-Identifier: Apache-2.0
// The driver of virtual time: an endpoint of a network that lives in one process. The owner of
// that network (dataplane/sim) decides what happens to a packet between tx and rx.
#ifndef BT_IO_SIM_H
#define BT_IO_SIM_H

#include "io/io.h"

#define BT_IO_SIM_PORTS 2u

// An endpoint holds one packet at a time: the owner lets it run whenever one arrived.

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
    struct bt_pkt *arrived; // not read yet, NULL: nothing
    uint64_t counter[BT_IO_SIM_COUNTERS];
};

// An endpoint with one or two local ports (port 0 of ports[1].port = only one).
void bt_io_sim_init(struct bt_io_sim *s, const struct bt_io_sim_net *net, uint32_t endpoint,
                    const struct bt_addr ports[BT_IO_SIM_PORTS]);

// A packet arrives from the network and waits for rx. Returns 0, or -1 when no local port has its destination address
// or the one before was not read (the packet stays the caller's).
int bt_io_sim_arrive(struct bt_io_sim *s, struct bt_pkt *pkt);

// The same and rx at once, for a network that finds an endpoint by the IP address, so that only the port is left to be
// judged. `now`: what *net->now is. False: no local port has that number (the packet stays the caller's).
static inline bool bt_io_sim_receive(struct bt_io_sim *s, struct bt_pkt *pkt, uint64_t now)
{
    uint16_t p = pkt->dst.port != s->port[0].port;
    if (p != 0 && (pkt->dst.port != s->port[1].port || pkt->dst.port == 0))
        return false;
    pkt->local = p;
    pkt->t_rx_ns = now;
    pkt->tx_as_src = 0;
    s->counter[BT_IO_SIM_RX_PACKETS]++;
    return true;
}

// What rx does, without the table of functions: the packet that arrived at port `local` (or BT_IO_ANY), NULL for none.
static inline struct bt_pkt *bt_io_sim_take(struct bt_io_sim *s, uint32_t local)
{
    struct bt_pkt *pkt = s->arrived;
    if (pkt == NULL || (local != BT_IO_ANY && local != pkt->local))
        return NULL;
    s->arrived = NULL;
    s->counter[BT_IO_SIM_RX_PACKETS]++;
    return pkt;
}

// What tx does, without the table of functions, and handing to `send`: a caller that names the network's own function
// gets it inlined.
static inline __attribute__((always_inline)) void
bt_io_sim_send_by(struct bt_io_sim *s, struct bt_txq *q, void (*send)(void *ctx, uint32_t endpoint, struct bt_pkt *pkt))
{
    struct bt_pkt *next;
    void *ctx = s->net->ctx;
    uint32_t endpoint = s->endpoint;
    s->counter[BT_IO_SIM_TX_PACKETS] += q->n;
    for (struct bt_pkt *pkt = q->head; pkt != NULL; pkt = next) {
        next = pkt->next;
        if (!pkt->tx_as_src) {
            pkt->src = s->port[pkt->local % BT_IO_SIM_PORTS];
        }
        s->counter[BT_IO_SIM_TX_BYTES] += pkt->len;
        send(ctx, endpoint, pkt);
    }
    bt_txq_init(q);
}

static inline void bt_io_sim_send(struct bt_io_sim *s, struct bt_txq *q)
{
    bt_io_sim_send_by(s, q, s->net->send);
}

// Takes back what arrived and was not read, as a crash does.
void bt_io_sim_flush(struct bt_io_sim *s, struct bt_pool *pool);

#endif
