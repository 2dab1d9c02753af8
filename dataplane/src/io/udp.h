// SPDX-License-Identifier: Apache-2.0
// The Linux UDP driver: one unconnected socket per local port, batched system calls, and either
// a sleeping or a spinning wait. See io.h for the calls it answers.
#ifndef BT_IO_UDP_H
#define BT_IO_UDP_H

#include "io/io.h"

#include <stdbool.h>
#include <stddef.h>

// What wait() does when nothing is there. Two spinners on one core starve each other for whole
// scheduler slices, so sleeping is the default everywhere.
enum bt_idle {
    BT_IDLE_BLOCK, // sleep in epoll until a packet, a timer or a wake
    BT_IDLE_SPIN,  // look and return
    BT_IDLE_YIELD, // look, give the core away once if nothing was there, return
};

// Fits a 64-worker server with room to spare; a port index is 16 bits in bt_pkt.
#define BT_UDP_MAX_LOCALS 1024u

struct bt_udp_config {
    const struct bt_addr *locals; // addresses to bind, index = bt_pkt.local; port 0 is allowed
    unsigned n_locals;            // 1..BT_UDP_MAX_LOCALS
    struct bt_pool *pool;         // where received packets come from; used by the io thread only
    enum bt_idle idle;
    // The interface that has this address is where multicast groups among locals are joined, and what the other ports
    // send to such groups leaves by. NULL: no local is a multicast group. IP hop limit of what is sent so: 1.
    const struct bt_addr *multicast_via;
    unsigned rcvbuf_bytes;   // SO_RCVBUF wanted, 0 = 4 MiB; the kernel may cap it
    unsigned sndbuf_bytes;   // SO_SNDBUF wanted, 0 = 1 MiB
    bool report_unreachable; // turn ICMP errors into events (client ports)
};

enum bt_udp_counter {
    BT_UDP_RX_PACKETS,
    BT_UDP_TX_PACKETS,
    BT_UDP_RX_KERNEL_DROPS, // socket buffer full, or checksum wrong (M-4): SO_RXQ_OVFL counts both
    BT_UDP_RX_TRUNCATED,    // datagram longer than a packet buffer (M-14)
    BT_UDP_RX_NO_BUFFER,    // packet pool empty (M-24)
    BT_UDP_RX_ERRORS,
    BT_UDP_TX_TOO_LONG,    // larger than the path allows with DF set
    BT_UDP_TX_UNREACHABLE, // no route, refused, filtered
    BT_UDP_TX_NO_SPACE,    // send buffer stayed full
    BT_UDP_TX_BAD_ADDRESS, // family of the destination is not the port's; or port unknown
    BT_UDP_TX_NO_RAW,      // Transparent packet but no raw socket
    BT_UDP_TX_TTL,         // Transparent packet that arrived with TTL 1
    BT_UDP_TX_ERRORS,
    BT_UDP_UNREACHABLE, // ICMP errors heard
    BT_UDP_WAKEUPS,
    BT_UDP_COUNTERS
};

// Opens and binds every port, or none. On failure returns NULL and writes into err which address
// failed, why, and what to do.
struct bt_io *bt_udp_open(const struct bt_udp_config *cfg, char *err, size_t errlen);

// Makes packets marked tx_as_src sendable (R-4 Transparent, R-127): opens a raw socket of
// each family its ports have, for which the process needs CAP_NET_RAW, and asks for the TTL of what
// arrives. Returns 0, or -1 with the reason in err. Idempotent.
// Call from the thread that owns the io.
int bt_udp_allow_transparent(struct bt_io *io, char *err, size_t errlen);

#endif
