// SPDX-License-Identifier: Apache-2.0
// The packet tests every driver must pass: written once, run over a small fixture per driver. A fixture opens two
// ends of a network, each an io with two local ports; what its driver cannot do here leaves a case out,
// by name and with the reason.
#ifndef BT_TESTS_PACKET_SUITE_H
#define BT_TESTS_PACKET_SUITE_H

#include "unit.h"

#include "io/io.h"

#include <stdbool.h>

#define PACKET_ENDS  2u
#define PACKET_PORTS 2u

struct packet_end {
    struct bt_io *io;
    struct bt_pool *pool;
    uint32_t buffers;                  // that a test can take out of the pool at most
    bool any_size;                     // it has no MTU that a packet could exceed
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
    // Has somebody wake an end when so much of its time has passed. NULL: a thread does, time passing by itself.
    void (*wake_in)(struct packet_end *e, uint64_t ns);
};

extern const struct packet_driver packet_driver_sim, packet_driver_udp;
extern const struct packet_driver packet_driver_ring, packet_driver_memif, packet_driver_af_packet,
    packet_driver_af_xdp;

// Runs all cases; the number that failed.
int packet_suite_run(const struct packet_driver *driver);

#endif
