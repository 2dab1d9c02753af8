// SPDX-License-Identifier: Apache-2.0
// Two hosts on DPDK's rings: what the tests of the DPDK driver beyond the packet suite stand on.
#ifndef BT_TESTS_DPDK_HOSTS_H
#define BT_TESTS_DPDK_HOSTS_H

#include "fixture_dpdk.h"

#define MS UINT64_C(1000000)

enum { REQUEST_PORT = 8000, FEEDBACK_PORT = 9000 };

extern struct rte_ring *wire[2]; // wire[i] leads to host i + 1

// Told what devices opened from now on say; may be NULL.
extern bt_dpdk_log hosts_log;

// Host 1 has one io, host 2 two on one queue.
struct hosts {
    struct bt_dpdk_device *dev[2];
    struct bt_io *peer, *request, *feedback;
};

// cmocka's group set-up: DPDK and the rings.
int hosts_start(void **state);

struct bt_dpdk_device *hosts_device(unsigned n, unsigned ios, enum bt_dpdk_checksums checksums);
struct bt_io *hosts_io(struct bt_dpdk_device *dev, bool v6, unsigned n, uint16_t port);
struct hosts hosts_open(void);
// Every buffer must have come home.
void hosts_close(struct hosts *h);

uint64_t hosts_counter(struct bt_io *io, const char *name, const char *value);
void hosts_send(struct bt_dpdk_device *dev, struct bt_io *io, struct bt_addr to, uint32_t value);

#endif
