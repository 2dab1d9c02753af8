// SPDX-License-Identifier: Apache-2.0
// The sockets that a port stands on. The drivers af_packet and af_xdp have no receive interrupts, but the kernel makes
// their sockets readable when a packet comes, so a thread can sleep on them. The drivers tell nobody which they are:
// they are those of these families that came while the port was made.
#include "io/dpdk_internal.h"

#include <linux/if_xdp.h>
#include <sys/socket.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif

enum { DESCRIPTORS = 64 * 16 }; // one beyond is not looked at: its port is polled

static bool of_a_driver(int fd)
{
    int domain = 0;
    socklen_t len = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && (domain == AF_PACKET || domain == AF_XDP);
}

static bool is_there(const struct bt_dpdk_descriptors *d, int fd)
{
    return (d->there[fd / 64] >> fd % 64 & 1) != 0;
}

void bt_dpdk_sockets_before(struct bt_dpdk_descriptors *before)
{
    *before = (struct bt_dpdk_descriptors){0};
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        before->there[fd / 64] |= (uint64_t)of_a_driver(fd) << fd % 64;
    }
}

// All or none: who slept on some of the queues' sockets would not hear of the others.
void bt_dpdk_sockets_after(struct bt_dpdk_device *dev, const struct bt_dpdk_descriptors *before)
{
    unsigned n = 0;
    for (int fd = 0; fd < DESCRIPTORS && n <= dev->n_queues; fd++) {
        if (of_a_driver(fd) && !is_there(before, fd)) {
            dev->socket[n < BT_DPDK_MAX_QUEUES ? n : 0] = fd;
            n++;
        }
    }
    dev->n_sockets = n == dev->n_queues ? n : 0;
}

// The bell, for what other threads receive for this one: from now on it is rung each time. Then the sockets, for a
// thread that polls queues.
unsigned bt_dpdk_watch(struct bt_io *io, int *fds, unsigned max)
{
    struct bt_dpdk *d = bt_dpdk_of(io);
    unsigned n = 0, sockets = d->n_rx != 0 ? d->dev->n_sockets : 0;
    if (d->dev->n_sockets == 0 || 1 + sockets > max) {
        return 0;
    }
    atomic_store(&d->bell.asleep, true);
    fds[n++] = d->bell.fd;
    for (unsigned i = 0; i < sockets; i++) {
        fds[n++] = d->dev->socket[i];
    }
    return n;
}
