// SPDX-License-Identifier: Apache-2.0
// The driver of virtual time: an endpoint of a network that lives in one process. The owner of
// that network decides what happens to a packet between tx and rx, and when time passes.
//
// An endpoint is used in one of two ways. Through io.h it is a host like any other: it has buffers of its own, refuses
// what it cannot send, keeps what arrived until it is read, waits. The simulator (dataplane/sim) runs a node for every
// packet that arrives and goes past the table of functions, by bt_io_sim_receive and bt_io_sim_send_by: who holds how
// many buffers, what nobody has an address for and who hears of it is decided in its network.
#ifndef BT_IO_SIM_H
#define BT_IO_SIM_H

#include "io/io.h"

#include <stdatomic.h>

#define BT_IO_SIM_PORTS  2u
#define BT_IO_SIM_EVENTS 4u // unread ones an endpoint keeps; later ones are only counted

enum bt_io_sim_counter {
    BT_IO_SIM_TX_PACKETS,
    BT_IO_SIM_TX_BYTES,
    BT_IO_SIM_RX_PACKETS,
    BT_IO_SIM_RX_TOO_LONG,    // does not fit a packet buffer (M-14)
    BT_IO_SIM_RX_NO_BUFFER,   // the endpoint's pool is empty (M-24)
    BT_IO_SIM_TX_TOO_LONG,    // larger than the link takes
    BT_IO_SIM_TX_BAD_ADDRESS, // no such local port, or the destination is of the other family
    BT_IO_SIM_UNREACHABLE,    // events
    BT_IO_SIM_COUNTERS
};

// What an endpoint needs of its network.
struct bt_io_sim_net {
    // Takes the packet over; src is filled in already.
    void (*send)(void *ctx, uint32_t endpoint, struct bt_pkt *pkt);
    void *ctx;
    const uint64_t *now; // virtual ns
    // The rest is for an endpoint that is used through io.h.
    struct bt_pool *pool; // its own: for what arrives, and for what it does not send after all
    uint32_t mtu;         // of its link, IP header included; 0: any packet passes
    // Lets time pass until there is something for the endpoint (bt_io_sim_ready) or until_ns is reached, which may be
    // over already: a look takes time, too. NULL: time passes between events only, and a wait returns at once.
    void (*pass)(void *ctx, uint32_t endpoint, uint64_t until_ns);
};

struct bt_io_sim {
    struct bt_io io; // first, so that &s->io is the interface
    const struct bt_io_sim_net *net;
    uint32_t endpoint;
    struct bt_addr port[BT_IO_SIM_PORTS];
    uint64_t counter[BT_IO_SIM_COUNTERS];
    struct bt_txq inbox[BT_IO_SIM_PORTS]; // arrived, not read yet
    struct bt_io_event event[BT_IO_SIM_EVENTS];
    unsigned n_events;
    atomic_bool woken;
};

// An endpoint with one or two local ports (port 0 of ports[1].port = only one).
void bt_io_sim_init(struct bt_io_sim *s, const struct bt_io_sim_net *net, uint32_t endpoint,
                    const struct bt_addr ports[BT_IO_SIM_PORTS]);

// A datagram arrives from the network: it is copied into a buffer of the endpoint's pool and waits for rx. What finds
// no buffer or does not fit one is counted and gone. False: no local port has its destination address.
bool bt_io_sim_deliver(struct bt_io_sim *s, const struct bt_addr *src, const struct bt_addr *dst, const uint8_t *data,
                       uint32_t len);

// News that a datagram sent from port ev->local did not reach its peer.
void bt_io_sim_tell(struct bt_io_sim *s, const struct bt_io_event *ev);

// Whether a wait has nothing to wait for: there is a packet or an event, or it was woken.
bool bt_io_sim_ready(const struct bt_io_sim *s);

// What a network that finds an endpoint by the IP address does instead of delivering, so that only the port is left to
// be judged, and the packet itself is handed on. `now`: what *net->now is. False: no local port has that number (the
// packet stays the caller's).
static inline bool bt_io_sim_receive(struct bt_io_sim *s, struct bt_pkt *pkt, uint64_t now)
{
    uint16_t p = pkt->dst.port != s->port[0].port;
    if (p != 0 && (pkt->dst.port != s->port[1].port || pkt->dst.port == 0)) {
        return false;
    }
    pkt->local = p;
    pkt->t_rx_ns = now;
    pkt->tx_as_src = 0;
    s->counter[BT_IO_SIM_RX_PACKETS]++;
    return true;
}

// What tx does with packets that can be sent, without the table of functions, and handing to `send`: a caller that
// names the network's own function gets it inlined.
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

#endif
