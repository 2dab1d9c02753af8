// SPDX-License-Identifier: Apache-2.0
// Ports whose packets need not end a sleep. The kernel writes down when each of them arrived, so
// that reading it late does not make what was measured with it look slow.
#include "io/udp_internal.h"

#include <sys/epoll.h>

void bt_udp_quiet(struct bt_io *io, uint32_t local, bool on)
{
    struct bt_udp *u = (struct bt_udp *)io;
    if (local >= u->n_ports || u->ports[local].quiet == on) {
        return;
    }
    struct bt_udp_port *port = &u->ports[local];
    // Errors are still told; they are rare and somebody waits for them.
    struct epoll_event e = {.events = on ? 0 : EPOLLIN, .data = {.u32 = local}};
    if (epoll_ctl(u->epoll_fd, EPOLL_CTL_MOD, port->fd, &e) != 0) {
        return; // as before: it only wakes us more often
    }
    if (!port->stamped) {
        int one = 1;
        port->stamped = setsockopt(port->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) == 0;
        port->emptied_ns = bt_udp_now(io); // what came before has no stamp
    }
    port->quiet = on;
    u->n_quiet = on ? u->n_quiet + 1 : u->n_quiet - 1;
}
