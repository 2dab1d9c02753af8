// SPDX-License-Identifier: Apache-2.0
// The packet loop of bobtail-crab-lb over an io of the test's own. It ends when every packet was taken (the linker puts
// bt_stop_count in the place of the signals').
#ifndef BT_TESTS_CRAB_LB_LOOP_BED_H
#define BT_TESTS_CRAB_LB_LOOP_BED_H

#include "unit.h"

#include "bobtail-crab-lb/lb_app.h"
#include "shell/pool.h"

enum { PACKETS = 100, SENT = 64 };

struct crab_lb_sent {
    struct bt_addr dst;
    uint16_t local;
    uint8_t as_src, bytes[128];
    uint32_t len;
};

struct crab_lb_bed {
    struct lb_app app;
    struct bt_pool_mapped pool;
    struct bt_pkt *arrives[PACKETS];
    unsigned n_arrives, turns, n_sent, events_left;
    uint64_t now;
    struct crab_lb_sent sent[SENT];
};

extern struct crab_lb_bed bed;

// For cmocka. Two VIPs at port 80 have the servers 10.0.0.3 (up), 10.0.0.4 (up and capable) and 10.0.0.5 (down), one at
// port 81 has none; every probe is due.
int crab_lb_open(void **state);
int crab_lb_close(void **state); // every packet is back

struct bt_pkt *crab_lb_arrive(uint16_t local, uint32_t from, const void *bytes, uint32_t n);
void crab_lb_run(void);

#endif
