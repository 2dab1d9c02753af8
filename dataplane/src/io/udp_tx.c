// SPDX-License-Identifier: Apache-2.0
// Sending in batches, in the order given: packets that follow each other through the same port
// share one sendmmsg. A packet the network refuses is counted by reason and given back; the
// protocol above treats it as lost.
#include "io/udp_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

// How long a full send buffer may hold up the loop before packets are dropped.
enum { FULL_WAIT_MS = 2, FULL_WAITS = 3 };

static void put_back(struct bt_udp *u, struct bt_pkt **pkts, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        bt_pool_put(u->pool, pkts[i]);
    }
}

static enum bt_udp_counter reason_of(int error)
{
    switch (error) {
    case EMSGSIZE:
        return BT_UDP_TX_TOO_LONG;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EPERM: // a local firewall rule
    case EACCES:
        return BT_UDP_TX_UNREACHABLE;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
        return BT_UDP_TX_NO_SPACE;
    case EINVAL:
    case EAFNOSUPPORT:
        return BT_UDP_TX_BAD_ADDRESS;
    default:
        return BT_UDP_TX_ERRORS;
    }
}

// Decides after a failed sendmmsg whether the same packet is worth another try. An error may
// belong to an earlier datagram (an ICMP answer, "too long" among them), so every hard error gets
// one more try.
static bool try_again(int fd, int error, unsigned tries)
{
    if (error == EINTR) {
        return true;
    }
    if (error == EAGAIN || error == ENOBUFS) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        return tries < FULL_WAITS && poll(&p, 1, FULL_WAIT_MS) >= 0;
    }
    return tries < 1;
}

// Sends the n prepared messages; refused ones are counted and skipped.
static void send_batch(struct bt_udp *u, int fd, unsigned n)
{
    unsigned at = 0;
    unsigned tries = 0;
    while (at < n) {
        int sent = sendmmsg(fd, &u->tx.msgs[at], n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            at += (unsigned)sent;
            u->counters[BT_UDP_TX_PACKETS] += (unsigned)sent;
            tries = 0;
            continue;
        }
        int error = errno; // of the send, whatever waiting for room may set
        if (!try_again(fd, error, tries++)) {
            u->counters[reason_of(error)]++;
            at++;
            tries = 0;
        }
    }
}

static void prepare(struct bt_udp *u, unsigned i, const struct bt_pkt *p, socklen_t namelen)
{
    u->tx.iov[i].iov_base = p->data;
    u->tx.iov[i].iov_len = p->len;
    u->tx.msgs[i].msg_hdr.msg_namelen = namelen;
}

// Sends a run of packets that leave by one port. Returns how many were taken off q.
static void tx_port_run(struct bt_udp *u, struct bt_txq *q)
{
    unsigned index = q->head->local;
    const struct bt_udp_port *port = &u->ports[index];
    struct bt_pkt *done[BT_IO_BATCH];
    unsigned n = 0;
    unsigned taken = 0;
    while (taken < BT_IO_BATCH && q->head != NULL && q->head->local == index && !q->head->tx_as_src) {
        struct bt_pkt *p = bt_txq_pop(q);
        socklen_t len;
        done[taken++] = p;
        if (bt_udp_to_sockaddr(&p->dst, port->family, &u->tx.names[n], &len) != 0) {
            u->counters[BT_UDP_TX_BAD_ADDRESS]++;
            continue;
        }
        prepare(u, n++, p, len);
    }
    send_batch(u, port->fd, n);
    put_back(u, done, taken);
}

static void tx_raw_run(struct bt_udp *u, struct bt_txq *q)
{
    struct bt_pkt *done[BT_IO_BATCH];
    unsigned n = 0;
    unsigned taken = 0;
    while (taken < BT_IO_BATCH && q->head != NULL && q->head->tx_as_src) {
        struct bt_pkt *p = bt_txq_pop(q);
        uint8_t head[BT_UDP_RAW_HEAD];
        socklen_t len;
        done[taken++] = p;
        if (u->raw_fd < 0) {
            u->counters[BT_UDP_TX_NO_RAW]++;
            continue;
        }
        if (!bt_udp_raw_header(p, u->raw_id++, head) || bt_pkt_push(p, BT_UDP_RAW_HEAD) == NULL ||
            bt_udp_to_sockaddr(&p->dst, AF_INET, &u->tx.names[n], &len) != 0) {
            u->counters[BT_UDP_TX_BAD_ADDRESS]++;
            continue;
        }
        memcpy(p->data, head, BT_UDP_RAW_HEAD);
        u->tx.names[n].v4.sin_port = 0; // a raw socket has no ports; other values are reserved
        prepare(u, n++, p, len);
    }
    send_batch(u, u->raw_fd, n);
    put_back(u, done, taken);
}

void bt_udp_tx(struct bt_io *io, struct bt_txq *q)
{
    struct bt_udp *u = (struct bt_udp *)io;
    while (q->head != NULL) {
        if (q->head->tx_as_src) {
            tx_raw_run(u, q);
        } else if (q->head->local < u->n_ports) {
            tx_port_run(u, q);
        } else {
            u->counters[BT_UDP_TX_BAD_ADDRESS]++;
            bt_pool_put(u->pool, bt_txq_pop(q));
        }
    }
}
