// SPDX-License-Identifier: Apache-2.0
// Sending in batches, in the order given: packets that follow each other through the same port
// share one sendmmsg. A packet the network refuses is counted by reason and given back; the
// protocol above treats it as lost.
#include "io/udp_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>

// How long a full send buffer may hold up the loop before packets are dropped.
enum { FULL_WAIT_MS = 2, FULL_WAITS = 3 };

// Bytes of several packets sent as one message; the largest IP packet holds them with its headers.
enum { SEGMENTS_BYTES = 65000 };

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

// One message of several packets was refused as a whole: they go one by one, and always from now on if that was the
// reason: every one of them is taken. A packet that is refused alone as well, for its length or its destination, says
// nothing about others.
static void send_apart(struct bt_udp *u, int fd, unsigned i, int error)
{
    const struct bt_udp_segments *s = &u->segments[i];
    unsigned taken = 0;
    for (unsigned k = 0; k < s->n; k++) {
        struct msghdr h = {.msg_name = u->tx.msgs[i].msg_hdr.msg_name,
                           .msg_namelen = u->tx.msgs[i].msg_hdr.msg_namelen,
                           .msg_iov = &u->tx.iov[s->first + k],
                           .msg_iovlen = 1};
        ssize_t sent;
        int why;
        unsigned tries = 0;
        do {
            sent = sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
            why = errno; // of the send, whatever waiting for room may set
        } while (sent < 0 && try_again(fd, why, tries++));
        u->counters[sent >= 0 ? BT_UDP_TX_PACKETS : reason_of(why)]++;
        taken += sent >= 0;
    }
    u->no_segments |= taken == s->n && (error == EINVAL || reason_of(error) == BT_UDP_TX_ERRORS);
}

static void count_sent(struct bt_udp *u, unsigned at, unsigned n)
{
    for (unsigned i = at; i < at + n; i++) {
        u->counters[BT_UDP_TX_PACKETS] += u->segments[i].n;
    }
}

// Sends the n prepared messages; refused ones are counted and skipped.
static void send_batch(struct bt_udp *u, int fd, unsigned n)
{
    unsigned at = 0;
    unsigned tries = 0;
    while (at < n) {
        int sent = sendmmsg(fd, &u->tx.msgs[at], n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            count_sent(u, at, (unsigned)sent);
            at += (unsigned)sent;
            tries = 0;
            continue;
        }
        int error = errno; // of the send, whatever waiting for room may set
        if (try_again(fd, error, tries++)) {
            continue;
        }
        if (u->segments[at].n > 1 && error != EAGAIN && error != ENOBUFS) {
            send_apart(u, fd, at, error);
        } else {
            u->counters[reason_of(error)] += u->segments[at].n;
        }
        at++;
        tries = 0;
    }
}

// What is being put together: messages ready so far, packets in them.
struct draft {
    unsigned messages, packets;
    const struct bt_pkt *last;
};

static void new_message(struct bt_udp *u, struct draft *d, const struct bt_pkt *p, socklen_t namelen)
{
    struct msghdr *h = &u->tx.msgs[d->messages].msg_hdr;
    struct bt_udp_segments *s = &u->segments[d->messages++];
    s->n = 1;
    s->first = d->packets;
    s->bytes = p->len;
    u->tx.iov[d->packets++] = (struct iovec){.iov_base = p->data, .iov_len = p->len};
    h->msg_iov = &u->tx.iov[s->first];
    h->msg_iovlen = 1;
    h->msg_namelen = namelen;
    h->msg_control = NULL;
    h->msg_controllen = 0;
    d->last = p;
}

// Makes p one more segment of the message before it, if it goes to the same place and is as long, or shorter and so
// the last. The path through the kernel is then walked once for all of them.
static bool join_message(struct bt_udp *u, struct draft *d, const struct bt_pkt *p)
{
    struct bt_udp_segments *s = d->messages != 0 ? &u->segments[d->messages - 1] : NULL;
    if (s == NULL || u->no_segments || p->len == 0 || s->bytes + p->len > SEGMENTS_BYTES ||
        s->bytes != s->n * u->tx.iov[s->first].iov_len || p->len > u->tx.iov[s->first].iov_len ||
        !bt_addr_eq(&p->dst, &d->last->dst)) {
        return false;
    }
    struct msghdr *h = &u->tx.msgs[d->messages - 1].msg_hdr;
    u->tx.iov[d->packets++] = (struct iovec){.iov_base = p->data, .iov_len = p->len};
    if (s->n == 1) {
        uint16_t size = (uint16_t)u->tx.iov[s->first].iov_len;
        h->msg_control = s->control;
        h->msg_controllen = CMSG_SPACE(sizeof size);
        struct cmsghdr *c = CMSG_FIRSTHDR(h);
        c->cmsg_level = SOL_UDP;
        c->cmsg_type = UDP_SEGMENT;
        c->cmsg_len = CMSG_LEN(sizeof size);
        memcpy(CMSG_DATA(c), &size, sizeof size);
    }
    s->n++;
    s->bytes += p->len;
    h->msg_iovlen = s->n;
    d->last = p;
    return true;
}

// Sends a run of packets that leave by one port.
static void tx_port_run(struct bt_udp *u, struct bt_txq *q)
{
    unsigned index = q->head->local;
    const struct bt_udp_port *port = &u->ports[index];
    struct bt_pkt *done[BT_IO_BATCH];
    struct draft d = {0};
    unsigned taken = 0;
    while (taken < BT_IO_BATCH && q->head != NULL && q->head->local == index && !q->head->tx_as_src) {
        struct bt_pkt *p = bt_txq_pop(q);
        socklen_t len;
        done[taken++] = p;
        if (join_message(u, &d, p)) {
            continue;
        }
        if (bt_udp_to_sockaddr(&p->dst, port->family, &u->tx.names[d.messages], &len) != 0) {
            u->counters[BT_UDP_TX_BAD_ADDRESS]++;
            continue;
        }
        new_message(u, &d, p, len);
    }
    send_batch(u, port->fd, d.messages);
    put_back(u, done, taken);
}

// Puts headers in front of a packet that is sent under its own source address. False, and counted, if it cannot be.
static bool make_raw(struct bt_udp *u, struct bt_pkt *p, union bt_udp_sa *name, socklen_t *len)
{
    uint8_t head[BT_UDP_RAW_HEAD];
    bool v6 = !bt_addr_is_v4(&p->dst);
    if (u->raw_fd[v6] < 0) {
        u->counters[BT_UDP_TX_NO_RAW]++;
        return false;
    }
    if (p->ttl == 1) {
        u->counters[BT_UDP_TX_TTL]++; // no hop is left for ours
        return false;
    }
    uint32_t n = bt_udp_raw_header(p, u->raw_id++, head);
    if (n == 0 || bt_pkt_push(p, n) == NULL || bt_udp_to_sockaddr(&p->dst, v6 ? AF_INET6 : AF_INET, name, len) != 0) {
        u->counters[BT_UDP_TX_BAD_ADDRESS]++;
        return false;
    }
    memcpy(p->data, head, n);
    if (v6) {
        name->v6.sin6_port = 0; // a raw socket has no ports; other values are reserved
    } else {
        name->v4.sin_port = 0;
    }
    return true;
}

static void tx_raw_run(struct bt_udp *u, struct bt_txq *q)
{
    struct bt_pkt *done[BT_IO_BATCH];
    struct draft d = {0};
    unsigned taken = 0;
    bool v4 = bt_addr_is_v4(&q->head->dst);
    while (taken < BT_IO_BATCH && q->head != NULL && q->head->tx_as_src && bt_addr_is_v4(&q->head->dst) == v4) {
        struct bt_pkt *p = bt_txq_pop(q);
        socklen_t len;
        done[taken++] = p;
        if (make_raw(u, p, &u->tx.names[d.messages], &len)) {
            new_message(u, &d, p, len);
        }
    }
    send_batch(u, u->raw_fd[!v4], d.messages);
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
