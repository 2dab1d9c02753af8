// SPDX-License-Identifier: Apache-2.0
// The error queue of a client port: which peer an ICMP error was about. Without it a client would
// learn of a dead router only from its own timers.
#include "io/udp_internal.h"

#include <errno.h>
#include <string.h>

#include <linux/errqueue.h> // after <time.h> types of sys/socket.h

// The extended error in a control message, or NULL.
static const struct sock_extended_err *extended_error(struct msghdr *h)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
        if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
            (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
            return (const struct sock_extended_err *)(void *)CMSG_DATA(c);
        }
    }
    return NULL;
}

static void remember(struct bt_udp *u, unsigned port, const union bt_udp_sa *peer, int error)
{
    u->counters[BT_UDP_UNREACHABLE]++;
    if (u->n_events < BT_UDP_EVENTS) {
        struct bt_io_event *e = &u->events[u->n_events++];
        e->peer = bt_udp_from_sockaddr(peer);
        e->local = (uint16_t)port;
        e->error = error;
    }
}

void bt_udp_read_errors(struct bt_udp *u, unsigned port)
{
    const struct bt_udp_port *p = &u->ports[port];
    for (unsigned i = 0; i < BT_UDP_EVENTS; i++) {
        uint8_t byte;
        union bt_udp_sa peer; // the address the datagram in question was sent to
        _Alignas(struct cmsghdr) uint8_t control[512];
        struct iovec iov = {.iov_base = &byte, .iov_len = sizeof byte};
        struct msghdr h = {.msg_name = &peer,
                           .msg_namelen = sizeof peer,
                           .msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
        memset(&peer, 0, sizeof peer);
        if (recvmsg(p->fd, &h, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
            break;
        }
        const struct sock_extended_err *e = extended_error(&h);
        if (e != NULL && e->ee_errno != EMSGSIZE) {
            remember(u, port, &peer, (int)e->ee_errno);
        }
    }
    int pending;
    socklen_t len = sizeof pending;
    (void)getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &pending, &len); // reading it clears it
}

unsigned bt_udp_take_events(struct bt_io *io, struct bt_io_event *ev, unsigned max)
{
    struct bt_udp *u = (struct bt_udp *)io;
    unsigned n = u->n_events < max ? u->n_events : max;
    memcpy(ev, u->events, n * sizeof *ev);
    u->n_events -= n;
    memmove(u->events, u->events + n, u->n_events * sizeof *ev);
    return n;
}
