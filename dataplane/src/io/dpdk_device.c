// SPDX-License-Identifier: Apache-2.0
// A device: one started port with everything its ios share.
#include "io/dpdk_internal.h"

#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORTS 65536u

static int check(const struct bt_dpdk_device_config *cfg, char *err, size_t errlen)
{
    if (cfg->port == NULL || cfg->port[0] == '\0') {
        snprintf(err, errlen, "needs a port: a virtual device such as net_memif0,role=client or a PCI address");
        return -1;
    }
    if (cfg->n_addrs == 0 || cfg->n_addrs > BT_LINK_MAX_ADDRS) {
        snprintf(err, errlen, "needs 1..%u addresses; got %u", BT_LINK_MAX_ADDRS, cfg->n_addrs);
        return -1;
    }
    if (cfg->ios > BT_DPDK_MAX_IOS || cfg->queues > BT_DPDK_MAX_QUEUES) {
        snprintf(err, errlen, "takes at most %u ios and %u queues; got %u and %u", BT_DPDK_MAX_IOS, BT_DPDK_MAX_QUEUES,
                 cfg->ios, cfg->queues);
        return -1;
    }
    return 0;
}

// A kernel's interface carries what that kernel's own programs send, and on a veth nothing completes it on the way.
static bool unfinished(const struct bt_dpdk_device_config *cfg)
{
    return cfg->checksums == BT_DPDK_CHECKSUMS_UNFINISHED ||
           (cfg->checksums == BT_DPDK_CHECKSUMS_AUTO && bt_dpdk_is_interface(cfg->port));
}

// What the link of each io is told alike.
static int describe_link(struct bt_dpdk_device *dev, const struct bt_dpdk_device_config *cfg)
{
    memcpy(dev->addrs, cfg->addrs, cfg->n_addrs * sizeof *cfg->addrs);
    if (cfg->n_statics != 0) {
        dev->statics = calloc(cfg->n_statics, sizeof *dev->statics);
        if (dev->statics == NULL) {
            return -1;
        }
        memcpy(dev->statics, cfg->statics, cfg->n_statics * sizeof *cfg->statics);
    }
    dev->link = (struct bt_link_config){
        .mtu = dev->mtu,
        .addrs = dev->addrs,
        .n_addrs = cfg->n_addrs,
        .gateway4 = cfg->gateway4,
        .gateway6 = cfg->gateway6,
        .statics = dev->statics,
        .n_statics = cfg->n_statics,
        .tx_ip_sum = dev->tx_ip_sum,
        .tx_udp_sum = dev->tx_udp_sum,
        .tx_no_udp_sum = cfg->checksums == BT_DPDK_CHECKSUMS_NONE,
        .rx_trusted = cfg->checksums == BT_DPDK_CHECKSUMS_NONE,
        .rx_unfinished = unfinished(cfg),
        .takes_tcp = cfg->takes_tcp,
        .retry_ns = cfg->neighbour_retry_ns,
        .pool = &dev->pool,
    };
    memcpy(dev->link.mac, dev->mac, sizeof dev->mac);
    return 0;
}

struct bt_dpdk_device *bt_dpdk_device_open(const struct bt_dpdk_device_config *cfg, char *err, size_t errlen)
{
    if (check(cfg, err, errlen) != 0) {
        return NULL;
    }
    struct bt_dpdk_device *dev = calloc(1, sizeof *dev);
    if (dev != NULL) {
        dev->listener = calloc(PORTS, sizeof *dev->listener);
    }
    if (dev == NULL || dev->listener == NULL) {
        free(dev);
        snprintf(err, errlen, "out of memory");
        return NULL;
    }
    dev->port = RTE_MAX_ETHPORTS;
    dev->pci = bt_dpdk_is_pci(cfg->port);
    dev->n_ios = cfg->ios != 0 ? cfg->ios : 1;
    for (unsigned i = 0; i < BT_TOEPLITZ_ENTRIES; i++) {
        dev->flow_io[i] = (uint8_t)bt_toeplitz_queue(i, dev->n_ios);
    }
    dev->log = cfg->log;
    dev->seed = cfg->seed;
    dev->idle = cfg->idle;
    if (dev->idle == BT_DPDK_IDLE_AUTO) {
        dev->idle = dev->pci ? BT_DPDK_IDLE_SPIN : BT_DPDK_IDLE_YIELD;
    }
    for (unsigned q = 0; q < BT_DPDK_MAX_QUEUES; q++) {
        rte_spinlock_init(&dev->tx_lock[q]);
    }
    bt_dpdk_pool_interface(dev);
    if (bt_dpdk_port_open(dev, cfg, err, errlen) != 0) {
        bt_dpdk_device_close(dev);
        return NULL;
    }
    bt_dpdk_lost_begin(dev, cfg);
    if (describe_link(dev, cfg) != 0) {
        snprintf(err, errlen, "out of memory");
        bt_dpdk_device_close(dev);
        return NULL;
    }
    return dev;
}

unsigned bt_dpdk_device_close(struct bt_dpdk_device *dev)
{
    unsigned lost = 0;
    unsigned kept = dev->keeps_buffers ? dev->held_at_start : 0;
    for (uint16_t q = 0; dev->keeps_buffers && atomic_load(&dev->running) && q < dev->n_queues; q++) {
        (void)rte_eth_tx_burst(dev->port, q, NULL, 0); // takes back what was sent
    }
    bt_dpdk_lost_end(dev);
    bt_dpdk_port_close(dev);
    bt_dpdk_xdp_close(dev);
    if (dev->buffers != NULL && dev->own_buffers) {
        lost = bt_dpdk_in_use(dev);
        lost = lost > kept ? lost - kept : 0;
        if (lost == 0) {
            rte_mempool_free(dev->buffers);
        } else { // better a leak than a packet whose memory is somebody else's by now
            bt_dpdk_say(dev->log, "DPDK: %u packet buffers did not come back", lost);
        }
    }
    free(dev->statics);
    free((void *)dev->listener);
    free(dev);
    return lost;
}

uint16_t bt_dpdk_mtu(const struct bt_dpdk_device *dev)
{
    return dev->mtu;
}

void bt_dpdk_describe(const struct bt_dpdk_device *dev, struct bt_dpdk_facts *out)
{
    struct rte_eth_dev_info info;
    *out = (struct bt_dpdk_facts){.device_node = -1, .memory_node = -1, .hugepages_mib = bt_dpdk_hugepages_mib()};
    if (rte_eth_dev_info_get(dev->port, &info) == 0) {
        snprintf(out->driver, sizeof out->driver, "%s", info.driver_name);
    }
    // A virtual device says 0 for want of anything better.
    out->device_node = dev->pci ? rte_eth_dev_socket_id(dev->port) : -1;
    out->memory_node = dev->pci ? bt_dpdk_node_of(STAILQ_FIRST(&dev->buffers->mem_list)->addr) : -1;
}

void bt_dpdk_mac(const struct bt_dpdk_device *dev, uint8_t mac[6])
{
    memcpy(mac, dev->mac, sizeof dev->mac);
}
