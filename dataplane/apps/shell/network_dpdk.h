// SPDX-License-Identifier: Apache-2.0
// The part of the network that needs DPDK; a program built without it has network_no_dpdk.c instead.
#ifndef BT_APPS_NETWORK_DPDK_H
#define BT_APPS_NETWORK_DPDK_H

#include "link/link.h"
#include "shell/network.h"

struct bt_dpdk_device;

// Whether this program has DPDK.
extern const bool bt_network_has_dpdk;

struct bt_dpdk_device *bt_network_dpdk_open(const struct bt_network_options *o, const struct bt_addr *own,
                                            unsigned threads);

// What a port has beside its options' address and gateway.
struct bt_network_more {
    const struct bt_link_prefix *addrs; // 0..BT_LINK_MAX_ADDRS - 1, each with its own network
    unsigned n_addrs;
    struct bt_addr gateway6; // with an IPv4 address in the options; zeroed: none
};
// For one thread of a program that also answers for these addresses and takes TCP whole (link.h).
struct bt_dpdk_device *bt_network_dpdk_open_tcp(const struct bt_network_options *o, const struct bt_addr *own,
                                                const struct bt_network_more *more);
struct bt_io *bt_network_dpdk_io(struct bt_dpdk_device *dev, const struct bt_addr *locals, unsigned n_locals,
                                 bool report_unreachable, char *err, size_t errlen);
struct bt_pool *bt_network_dpdk_pool(struct bt_dpdk_device *dev);
void bt_network_dpdk_describe(const struct bt_dpdk_device *dev, struct bt_ctl_device *out);
// One of the words of bt_ctl_device.link.
const char *bt_network_dpdk_link(const struct bt_dpdk_device *dev);
uint16_t bt_network_dpdk_mtu(const struct bt_dpdk_device *dev);
uint32_t bt_network_dpdk_in_use(const struct bt_dpdk_device *dev);
void bt_network_dpdk_close(struct bt_dpdk_device *dev);

#endif
