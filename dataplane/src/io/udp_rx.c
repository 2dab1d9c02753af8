// SPDX-License-Identifier: Apache-2.0
// Receiving in batches: one recvmmsg per port and turn. Datagrams that find no packet buffer, or
// do not fit one, are read and counted, never left in the socket to wake us for ever.
#include "io/udp_internal.h"

#include <errno.h>
#include <string.h>

// Makes message i ready for packet p; the kernel wrote lengths into it.
static void prepare(struct bt_udp *u, unsigned i, struct bt_pkt *p)
{
    struct msghdr *h = &u->rx.msgs[i].msg_hdr;
    u->spare[i] = p;
    u->rx.iov[i].iov_base = p->data;
    u->rx.iov[i].iov_len = p->room_after;
    h->msg_namelen = sizeof u->rx.names[i];
    h->msg_control = u->control[i];
    h->msg_controllen = sizeof u->control[i];
}

// Takes the last of the spare packets, NULL if none is left behind slot i.
static struct bt_pkt *take_last(struct bt_udp *u, unsigned i)
{
    while (u->n_spare > i + 1) {
        struct bt_pkt *p = u->spare[--u->n_spare];
        if (p != NULL) {
            return p;
        }
    }
    return NULL;
}

// Fills the slots the last call emptied, from the pool and, when that is dry, with the packets of the last slots.
static void refill(struct bt_udp *u)
{
    for (unsigned i = 0; i < u->n_stale && i < u->n_spare; i++) {
        struct bt_pkt *p = u->spare[i] != NULL ? u->spare[i] : bt_pool_get(u->pool);
        p = p != NULL ? p : take_last(u, i);
        if (p == NULL) {
            u->n_spare = i;
            break;
        }
        prepare(u, i, p);
    }
    u->n_stale = 0;
    while (u->n_spare < BT_IO_BATCH) {
        struct bt_pkt *p = bt_pool_get(u->pool);
        if (p == NULL) {
            return;
        }
        prepare(u, u->n_spare++, p);
    }
}

static void count_overflow(struct bt_udp *u, struct bt_udp_port *port, uint32_t total)
{
    u->counters[BT_UDP_RX_KERNEL_DROPS] += (uint32_t)(total - port->rxq_ovfl);
    port->rxq_ovfl = total;
}

// Two clocks read together: the kernel stamps packets with the wall clock, we count in our own.
struct moment {
    uint64_t now, wall;
};

static uint64_t wall_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

// When a packet stamped `stamp` arrived. The wall clock may have been set since; but the packet
// was not there yet when the socket was last empty.
static uint64_t arrival(const struct bt_udp_port *port, const struct moment *m, uint64_t stamp)
{
    uint64_t longest = m->now - port->emptied_ns;
    uint64_t age = m->wall > stamp ? m->wall - stamp : 0;
    return m->now - (age < longest ? age : longest);
}

// Reads a packet's control messages; returns when it arrived. *ttl: what it arrived with, 0 if unknown.
static uint64_t read_control(struct bt_udp *u, struct bt_udp_port *port, const struct moment *m, struct msghdr *h,
                             uint8_t *ttl)
{
    uint64_t at = m->now;
    *ttl = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            uint32_t total;
            memcpy(&total, CMSG_DATA(c), sizeof total);
            count_overflow(u, port, total);
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec stamp;
            memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
            at = arrival(port, m, wall_ns(&stamp));
        } else if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_TTL) ||
                   (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)) {
            int hops;
            memcpy(&hops, CMSG_DATA(c), sizeof hops);
            *ttl = (uint8_t)hops;
        }
    }
    return at;
}

static struct moment read_clocks(struct bt_udp *u, const struct bt_udp_port *port)
{
    struct moment m = {.now = bt_udp_now(&u->io)};
    struct timespec wall;
    if (port->stamped) {
        clock_gettime(CLOCK_REALTIME, &wall);
        m.wall = wall_ns(&wall);
    }
    return m;
}

// recvmmsg until it is neither interrupted nor reporting an earlier send's ICMP error.
static int receive(struct bt_udp *u, unsigned index, struct mmsghdr *msgs, unsigned n)
{
    const struct bt_udp_port *port = &u->ports[index];
    for (unsigned tries = 0; tries < 4; tries++) {
        int got = recvmmsg(port->fd, msgs, n, MSG_DONTWAIT, NULL);
        if (got >= 0 || errno == EAGAIN || errno == EWOULDBLOCK) {
            return got;
        }
        if (errno == ECONNREFUSED || errno == EHOSTUNREACH || errno == ENETUNREACH) {
            bt_udp_read_errors(u, index);
        } else if (errno != EINTR) {
            u->counters[BT_UDP_RX_ERRORS]++;
        }
    }
    return -1;
}

// Takes the spare packets that were filled; those kept move to pkts[], truncated ones stay spare.
static unsigned accept_batch(struct bt_udp *u, unsigned index, unsigned got, struct bt_pkt **pkts)
{
    struct bt_udp_port *port = &u->ports[index];
    const struct moment m = read_clocks(u, port);
    unsigned kept = 0;
    for (unsigned i = 0; i < got; i++) {
        struct bt_pkt *p = u->spare[i];
        uint64_t at = read_control(u, port, &m, &u->rx.msgs[i].msg_hdr, &p->ttl);
        if (u->rx.msgs[i].msg_hdr.msg_flags & MSG_TRUNC) {
            u->counters[BT_UDP_RX_TRUNCATED]++;
            continue;
        }
        p->len = u->rx.msgs[i].msg_len;
        p->room_after -= p->len;
        p->src = bt_udp_from_sockaddr(&u->rx.names[i]);
        p->dst = port->addr;
        p->local = (uint16_t)index;
        p->t_rx_ns = at;
        p->tx_as_src = 0;
        p->next = NULL;
        u->spare[i] = NULL;
        pkts[kept++] = p;
    }
    u->n_stale = got;
    u->counters[BT_UDP_RX_PACKETS] += kept;
    if (!port->readable) {
        port->emptied_ns = m.now;
    }
    return kept;
}

// Reads and counts what finds no buffer; a read of no bytes takes a datagram too.
static unsigned discard_batch(struct bt_udp *u, unsigned index, unsigned max)
{
    struct mmsghdr nothing[BT_IO_BATCH];
    memset(nothing, 0, max * sizeof nothing[0]);
    int got = receive(u, index, nothing, max);
    if (got > 0) {
        u->counters[BT_UDP_RX_NO_BUFFER] += (unsigned)got;
    }
    u->ports[index].readable = got == (int)max || u->ports[index].watched;
    return 0;
}

static unsigned rx_port(struct bt_udp *u, unsigned index, struct bt_pkt **pkts, unsigned max)
{
    refill(u);
    if (u->n_spare == 0) {
        return discard_batch(u, index, max);
    }
    unsigned n = u->n_spare < max ? u->n_spare : max;
    int got = receive(u, index, u->rx.msgs, n);
    u->ports[index].readable = got == (int)n || u->ports[index].watched;
    return got <= 0 ? 0 : accept_batch(u, index, (unsigned)got, pkts);
}

unsigned bt_udp_rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    struct bt_udp *u = (struct bt_udp *)io;
    if (max > BT_IO_BATCH) {
        max = BT_IO_BATCH;
    }
    if (max == 0) {
        return 0;
    }
    if (local != BT_IO_ANY) {
        return local < u->n_ports && u->ports[local].readable ? rx_port(u, local, pkts, max) : 0;
    }
    unsigned got = 0;
    for (unsigned i = 0; i < u->n_ports && got < max; i++) {
        unsigned index = u->next_port;
        if (u->ports[index].readable) {
            got += rx_port(u, index, pkts + got, max - got);
        }
        if (!u->ports[index].readable || got == max) {
            u->next_port = index + 1 == u->n_ports ? 0 : index + 1;
        }
    }
    return got;
}
