// SPDX-License-Identifier: Apache-2.0
// The part of the network that needs DPDK; a program built without it has network_no_dpdk.c instead.
#ifndef BT_APPS_NETWORK_DPDK_H
#define BT_APPS_NETWORK_DPDK_H

#include "shell/network.h"

struct bt_dpdk_device;

// Whether this program has DPDK.
extern const bool bt_network_has_dpdk;

struct bt_dpdk_device *bt_network_dpdk_open(const struct bt_network_options *o, const struct bt_addr *own,
                                            unsigned threads);
// For one thread of a program that also answers for the IPv4 addresses extra[0..n) and takes TCP whole (link.h).
struct bt_dpdk_device *bt_network_dpdk_open_tcp(const struct bt_network_options *o, const struct bt_addr *own,
                                                const struct bt_addr *extra, unsigned n);
struct bt_io *bt_network_dpdk_io(struct bt_dpdk_device *dev, const struct bt_addr *locals, unsigned n_locals,
                                 bool report_unreachable, char *err, size_t errlen);
struct bt_pool *bt_network_dpdk_pool(struct bt_dpdk_device *dev);
uint16_t bt_network_dpdk_mtu(const struct bt_dpdk_device *dev);
uint32_t bt_network_dpdk_in_use(const struct bt_dpdk_device *dev);
void bt_network_dpdk_close(struct bt_dpdk_device *dev);

#endif
