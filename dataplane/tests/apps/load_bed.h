// SPDX-License-Identifier: Apache-2.0
// A load generator under a clock and a network of the test's own: what it sends is answered by a peer that does as it
// is told, after as long as it is told.
#ifndef BT_TESTS_LOAD_BED_H
#define BT_TESTS_LOAD_BED_H

#include "unit.h"

#include "bobtail-load/load_app.h"
#include "shell/pool.h"

#define MS UINT64_C(1000000)

enum load_peer { PEER_ECHOES, PEER_SPOILS, PEER_SHORTENS, PEER_DROPS, PEER_IS_SILENT };

enum { LOAD_SENT_MAX = 4096 };

struct load_bed {
    struct bt_io io; // first
    struct load_app app;
    struct bt_pool_mapped pool;
    uint64_t now;
    enum load_peer peer;
    uint64_t takes_ns; // to answer
    struct bt_txq answers;
    unsigned sent; // requests, and of each where it went to, by which socket and when
    struct bt_addr to[LOAD_SENT_MAX];
    uint16_t by[LOAD_SENT_MAX];
    uint64_t when[LOAD_SENT_MAX];
    struct bt_io_event event[2]; // the next ones
    unsigned events, waits;
    void (*on_wait)(unsigned n); // NULL, or called in the n-th wait, the first is 1
    // Of the network: blocks of ports that others have, those that were asked for, and its MTU (0: as the routes say).
    unsigned ports_taken, ports_asked;
    uint16_t first_port[LOAD_SENT_MAX];
    struct bt_addr local[LOAD_CONNECTIONS_MAX];
    uint16_t mtu;
    bool mtu_refused;
    uint64_t io_counter[3]; // of packets: sent, not sent since too long, and since the queue is full
};

extern struct load_bed bed;

// With so many sockets, and routers 127.0.1.1:8000, 127.0.1.2:8000 and so on. False: as load_connections_open says.
bool load_bed_try(unsigned connections, unsigned routers);
void load_bed_open(unsigned connections, unsigned routers);
void load_bed_close(void); // every packet is back

// Before load_bed_open: what is not as usual.
void load_bed_new(void);

// Sends one that was due `late` ns ago.
void load_bed_send(uint64_t late);
// Time passes and what came meanwhile is taken.
void load_bed_pass(uint64_t ns);

struct bt_addr load_bed_router(unsigned i);

#endif
