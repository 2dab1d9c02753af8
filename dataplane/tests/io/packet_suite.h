// SPDX-License-Identifier: Apache-2.0
// The packet tests every driver must pass: written once, run over a small fixture per driver. A fixture opens two
// ends of a network, each an io with two local ports; it says what its driver cannot do, and the cases that need
// it are left out by name.
#ifndef BT_TESTS_PACKET_SUITE_H
#define BT_TESTS_PACKET_SUITE_H

#include "unit.h"

#include "io/io.h"

#include <stdbool.h>

#define PACKET_ENDS  2u
#define PACKET_PORTS 2u

// What a driver of a fixture lacks.
enum packet_lack {
    LACKS_WAITING = 0x01,     // time does not pass by itself: wait() returns at once
    LACKS_MTU = 0x02,         // any packet passes
    LACKS_UNREACHABLE = 0x04, // nobody tells
    LACKS_V6 = 0x08,
    LACKS_POOL_LIMIT = 0x10,  // both ends share one pool, and sending takes no buffer
    LACKS_BAD_PORT = 0x20,    // an unknown local port is not refused
    LACKS_PORTS_APART = 0x80, // one packet at a time, whatever its port
};

struct packet_end {
    struct bt_io *io;
    struct bt_pool *pool;
    uint32_t buffers;                  // that a test can take out of the pool at most
    unsigned lacks;                    // enum packet_lack, of this end
    struct bt_addr port[PACKET_PORTS]; // own addresses
    struct bt_addr nobody;             // on this end's network, where nothing answers
};

struct packet_rig {
    struct packet_end end[PACKET_ENDS];
    bool v6;
    uint32_t mtu;
    void *fixture; // the fixture's own
};

struct packet_driver {
    const char *name;
    // Once, before the cases. False: the driver cannot run here, and why.
    bool (*begin)(char *why, size_t len);
    void (*end)(void);
    bool has_v6;
    // Opens both ends over addresses of the family in r->v6.
    void (*open)(struct packet_rig *r);
    // Closes both ends; returns how many buffers did not come back.
    unsigned (*close)(struct packet_rig *r);
    // Makes an end ready to send under a foreign address; false if it cannot, and why.
    bool (*transparent)(struct packet_end *e, char *why, size_t len);
    // Puts a datagram on the wire to `to` that does not fit a packet buffer or is cut short, from the other end.
    // NULL if the network carries whole packets only.
    bool (*inject_broken)(struct packet_rig *r, unsigned from, struct bt_addr to);
};

extern const struct packet_driver packet_driver_sim, packet_driver_udp;
extern const struct packet_driver packet_driver_ring, packet_driver_memif, packet_driver_af_packet,
    packet_driver_af_xdp;

// Runs all cases; the number that failed.
int packet_suite_run(const struct packet_driver *driver);

#endif
