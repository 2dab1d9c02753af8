// SPDX-License-Identifier: Apache-2.0
// A program built without DPDK: --driver=dpdk is refused when the options are read, so nothing here is reached.
#include "shell/network_dpdk.h"

const bool bt_network_has_dpdk = false;

struct bt_dpdk_device *bt_network_dpdk_open(const struct bt_network_options *o, const struct bt_addr *own,
                                            unsigned threads)
{
    (void)o;
    (void)own;
    (void)threads;
    return NULL;
}

struct bt_io *bt_network_dpdk_io(struct bt_dpdk_device *dev, const struct bt_addr *locals, unsigned n_locals,
                                 bool report_unreachable, char *err, size_t errlen)
{
    (void)dev;
    (void)locals;
    (void)n_locals;
    (void)report_unreachable;
    (void)err;
    (void)errlen;
    return NULL;
}

struct bt_pool *bt_network_dpdk_pool(struct bt_dpdk_device *dev)
{
    (void)dev;
    return NULL;
}

void bt_network_dpdk_describe(const struct bt_dpdk_device *dev, struct bt_ctl_device *out)
{
    (void)dev;
    (void)out;
}

const char *bt_network_dpdk_link(const struct bt_dpdk_device *dev)
{
    (void)dev;
    return "";
}

uint16_t bt_network_dpdk_mtu(const struct bt_dpdk_device *dev)
{
    (void)dev;
    return 0;
}

uint32_t bt_network_dpdk_in_use(const struct bt_dpdk_device *dev)
{
    (void)dev;
    return 0;
}

void bt_network_dpdk_close(struct bt_dpdk_device *dev)
{
    (void)dev;
}
