// SPDX-License-Identifier: Apache-2.0
// Two hosts on rings whose clock moves only when it is looked at or slept by: the linker puts ours in front of the
// clock and of all that waits (--wrap).
#ifndef BT_TESTS_DPDK_WORLD_H
#define BT_TESTS_DPDK_WORLD_H

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"

#include <poll.h>

#define US UINT64_C(1000)

// Each look takes a step, each sleep its time.
struct idle_world {
    bool on;
    uint64_t now, step;
    uint64_t slept_at, sleeps_ns; // the first sleep
    uint64_t yielded_at;          // the last yield
    unsigned looks, sleeps, yields, slacks, registrations;
    bool refuse_thread;
    bool no_carrier;
    const struct rte_eth_stats *stats; // of the device; NULL: DPDK's own
    int no_stats;                      // why it tells none
    bool interrupts;                   // each queue has the descriptor below, -1: none
    int interrupt[2];
    int refuses; // the queue whose interrupt cannot be switched on
    unsigned enabled[2], disabled[2];
    unsigned watched; // descriptors of the first sleep
    int watch[3];
    void (*asleep)(struct pollfd *fds);
    void (*before_sleep)(void); // when exact timers are asked for, just before an io's first sleep
};

extern struct idle_world world;
extern struct hosts hosts;

// cmocka's set-up and end of one test: the hosts.
int idle_open(void **state);
int idle_close(void **state);
#define WITH_HOSTS(test) cmocka_unit_test_setup_teardown(test, idle_open, idle_close)

// The calls by which the device of an io receives and sends; they are DPDK's again at the test's end.
struct rte_eth_fp_ops *idle_calls(struct bt_io *io);

// From here on the io's time is ours, and the last packet came just now; its own timers are far away.
struct bt_dpdk *idle_begin(struct bt_io *io, enum bt_dpdk_idle idle);

#endif
