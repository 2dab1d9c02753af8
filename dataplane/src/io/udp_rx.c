// SPDX-License-Identifier: Apache-2.0
// Receiving in batches: one recvmmsg per port and turn. Datagrams that find no packet buffer, or
// do not fit one, are read and counted, never left in the socket to wake us for ever.
#include "io/udp_internal.h"

#include <errno.h>
#include <string.h>

static void refill(struct bt_udp *u, unsigned want)
{
    while (u->n_spare < want) {
        struct bt_pkt *p = bt_pool_get(u->pool);
        if (p == NULL) {
            return;
        }
        u->spare[u->n_spare++] = p;
    }
}

// Points message i at packet p, or at the scratch bytes when p is NULL.
static void prepare(struct bt_udp *u, unsigned i, struct bt_pkt *p)
{
    struct msghdr *h = &u->msgs[i].msg_hdr;
    memset(h, 0, sizeof *h);
    u->iov[i].iov_base = p != NULL ? p->data : u->scratch;
    u->iov[i].iov_len = p != NULL ? p->room_after : sizeof u->scratch;
    h->msg_iov = &u->iov[i];
    h->msg_iovlen = 1;
    h->msg_name = &u->names[i];
    h->msg_namelen = sizeof u->names[i];
    h->msg_control = u->control[i];
    h->msg_controllen = sizeof u->control[i];
}

static void count_overflow(struct bt_udp *u, struct bt_udp_port *port, struct msghdr *h)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            uint32_t total;
            memcpy(&total, CMSG_DATA(c), sizeof total);
            u->counters[BT_UDP_RX_KERNEL_DROPS] += (uint32_t)(total - port->rxq_ovfl);
            port->rxq_ovfl = total;
        }
    }
}

// recvmmsg until it is neither interrupted nor reporting an earlier send's ICMP error.
static int receive(struct bt_udp *u, unsigned index, unsigned n)
{
    const struct bt_udp_port *port = &u->ports[index];
    for (unsigned tries = 0; tries < 4; tries++) {
        int got = recvmmsg(port->fd, u->msgs, n, MSG_DONTWAIT, NULL);
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
    uint64_t now = bt_udp_now(&u->io);
    unsigned kept = 0;
    unsigned unused = 0;
    for (unsigned i = 0; i < got; i++) {
        struct bt_pkt *p = u->spare[i];
        count_overflow(u, port, &u->msgs[i].msg_hdr);
        if (u->msgs[i].msg_hdr.msg_flags & MSG_TRUNC) {
            u->counters[BT_UDP_RX_TRUNCATED]++;
            u->spare[unused++] = p;
            continue;
        }
        p->len = u->msgs[i].msg_len;
        p->room_after -= p->len;
        p->src = bt_udp_from_sockaddr(&u->names[i]);
        p->dst = port->addr;
        p->local = (uint16_t)index;
        p->t_rx_ns = now;
        p->tx_as_src = 0;
        p->next = NULL;
        pkts[kept++] = p;
    }
    memmove(&u->spare[unused], &u->spare[got], (u->n_spare - got) * sizeof u->spare[0]);
    u->n_spare -= got - unused;
    u->counters[BT_UDP_RX_PACKETS] += got;
    return kept;
}

static unsigned discard_batch(struct bt_udp *u, unsigned index, unsigned max)
{
    for (unsigned i = 0; i < max; i++) {
        prepare(u, i, NULL);
    }
    int got = receive(u, index, max);
    if (got > 0) {
        u->counters[BT_UDP_RX_NO_BUFFER] += (unsigned)got;
        u->counters[BT_UDP_RX_PACKETS] += (unsigned)got;
    }
    u->ports[index].readable = got == (int)max;
    return 0;
}

static unsigned rx_port(struct bt_udp *u, unsigned index, struct bt_pkt **pkts, unsigned max)
{
    refill(u, max);
    if (u->n_spare == 0) {
        return discard_batch(u, index, max);
    }
    unsigned n = u->n_spare < max ? u->n_spare : max;
    for (unsigned i = 0; i < n; i++) {
        prepare(u, i, u->spare[i]);
    }
    int got = receive(u, index, n);
    u->ports[index].readable = got == (int)n;
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
