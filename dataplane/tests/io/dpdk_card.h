// SPDX-License-Identifier: Apache-2.0
// A device that is what a test says of it: the linker puts these in front of DPDK's calls (--wrap), and the port below,
// a ring, is never asked.
#ifndef BT_TESTS_DPDK_CARD_H
#define BT_TESTS_DPDK_CARD_H

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"

// What the calls of that name return, and what the device tells of itself.
struct card {
    bool on;
    int info, configure, interrupts, adjust, rx_setup, tx_setup, start, set_mtu, mac, probe, alarm, events, removal;
    const char *driver; // NULL: net_ring
    uint16_t max_mtu, max_rx, max_tx, if_mtu;
    struct rte_ether_addr address;
    unsigned up_after; // looks at the carrier until it is there
    bool unknown;      // no port has its name before it is probed
    bool no_port;      // nor after
    bool pci;          // the kernel is asked for a device of its bus, and says
    int no_pci;        // that it has it, or an errno
    bool interface;    // it stands on one of the kernel's, which is
    int if_error;      // not to be asked
    bool if_running;
    unsigned busy;                     // a callback runs, for so many attempts to take it away
    const struct bt_dpdk_device *used; // by threads that must be told before it is stopped; may be NULL
    // What it was asked.
    uint16_t rx_queues, tx_queues, mtu, ring;
    unsigned looks, configured, with_interrupts, rx_setups, tx_setups, starts, stops, closes, removes, mtus, multicasts;
    unsigned sleeps, alarms, takes, silenced, asked_back;
    long sleep_ns;
    char probed[600];
    rte_eth_dev_cb_fn removed;
    void *removed_arg;
};

extern struct card card;

// A working device of one queue, with the carrier there.
void card_new(void);
// On it; NULL with the reason in card_error. What it says is in card_said.
struct bt_dpdk_device *card_open(const struct bt_dpdk_device_config *cfg);
struct bt_dpdk_device *card_must_open(const struct bt_dpdk_device_config *cfg);
// Every buffer must have come home.
void card_close(struct bt_dpdk_device *dev);
extern char card_error[600], card_said[1000];

void card_assert_has(const char *text, const char *part);

#endif
