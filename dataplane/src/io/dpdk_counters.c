// SPDX-License-Identifier: Apache-2.0
// The io's counters: its own, those of its link, and, with the first io of a device, those the device keeps.
#include "io/dpdk_internal.h"

#include <stdlib.h>
#include <string.h>

static const struct bt_counter_desc own_descs[BT_DPDK_COUNTERS] = {
    [BT_DPDK_RX_PACKETS] = {"io_rx_packets_total", NULL, NULL},
    [BT_DPDK_TX_PACKETS] = {"io_tx_packets_total", NULL, NULL},
    [BT_DPDK_RX_TOO_LONG] = {"io_rx_dropped_total", "reason", "too_long"},
    [BT_DPDK_RX_NO_BUFFER] = {"io_rx_dropped_total", "reason", "no_buffer"},
    [BT_DPDK_RX_HANDOVER] = {"io_rx_dropped_total", "reason", "handover_full"},
    [BT_DPDK_RX_DEVICE_FULL] = {"io_rx_dropped_total", "reason", "device_queue_full"},
    [BT_DPDK_RX_DEVICE_NOBUF] = {"io_rx_buffer_failures_total", NULL, NULL},
    [BT_DPDK_RX_DEVICE_ERROR] = {"io_rx_dropped_total", "reason", "device_error"},
    [BT_DPDK_TX_NO_SPACE] = {"io_tx_dropped_total", "reason", "no_space"},
    [BT_DPDK_TX_LINK_DOWN] = {"io_tx_dropped_total", "reason", "link_down"},
    [BT_DPDK_TX_LOST] = {"io_tx_dropped_total", "reason", "device_lost"},
    [BT_DPDK_TX_REFUSED] = {"io_tx_dropped_total", "reason", "refused"},
    [BT_DPDK_TX_DEVICE_ERROR] = {"io_tx_dropped_total", "reason", "device_error"},
    [BT_DPDK_UNREACHABLE] = {"io_unreachable_total", NULL, NULL},
    [BT_DPDK_RX_COPIED] = {"io_rx_copied_total", NULL, NULL},
    [BT_DPDK_RX_HANDED_OVER] = {"io_rx_handed_over_total", NULL, NULL},
    [BT_DPDK_WAKEUPS] = {"io_wakeups_total", NULL, NULL},
};

int bt_dpdk_counters_open(struct bt_dpdk *d)
{
    const struct bt_counter_desc *descs;
    unsigned n;
    (void)bt_link_counters(d->link, &descs, &n);
    d->descs = calloc(BT_DPDK_COUNTERS + n, sizeof *d->descs);
    d->exported = calloc(BT_DPDK_COUNTERS + n, sizeof *d->exported);
    if (d->descs == NULL || d->exported == NULL) {
        return -1;
    }
    memcpy(d->descs, own_descs, sizeof own_descs);
    memcpy(d->descs + BT_DPDK_COUNTERS, descs, n * sizeof *descs);
    return 0;
}

static void add_device_counters(struct bt_dpdk *d)
{
    struct rte_eth_stats stats;
    if (d->index == 0 && rte_eth_stats_get(d->dev->port, &stats) == 0) {
        d->counters[BT_DPDK_RX_DEVICE_FULL] = stats.imissed;
        d->counters[BT_DPDK_RX_DEVICE_NOBUF] = stats.rx_nombuf;
        d->counters[BT_DPDK_RX_DEVICE_ERROR] = stats.ierrors;
        d->counters[BT_DPDK_TX_DEVICE_ERROR] = stats.oerrors;
    }
}

const uint64_t *bt_dpdk_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n)
{
    struct bt_dpdk *d = bt_dpdk_of(io);
    const struct bt_counter_desc *unused;
    unsigned of_link;
    const uint64_t *link = bt_link_counters(d->link, &unused, &of_link);
    add_device_counters(d);
    memcpy(d->exported, d->counters, sizeof d->counters);
    memcpy(d->exported + BT_DPDK_COUNTERS, link, of_link * sizeof *link);
    *desc = d->descs;
    *n = BT_DPDK_COUNTERS + of_link;
    return d->exported;
}
