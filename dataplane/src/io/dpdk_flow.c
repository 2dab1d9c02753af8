// SPDX-License-Identifier: Apache-2.0
// Steering by UDP destination port in the device: one rte_flow rule per local port sends its packets to the queue of
// the io that owns it. A device that refuses one rule gets none, and software dispatch does the work.
#include "io/dpdk_internal.h"

#include <rte_flow.h>
#include <string.h>

static struct rte_flow *add_rule(const struct bt_dpdk *d, const struct bt_addr *local, uint16_t queue)
{
    struct rte_flow_error why;
    struct rte_flow_attr attr = {.ingress = 1};
    struct rte_flow_item_udp udp = {.hdr.dst_port = rte_cpu_to_be_16(local->port)};
    struct rte_flow_item_udp mask = {.hdr.dst_port = 0xffff};
    struct rte_flow_item pattern[] = {
        {.type = RTE_FLOW_ITEM_TYPE_ETH},
        {.type = bt_addr_is_v4(local) ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6},
        {.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &mask},
        {.type = RTE_FLOW_ITEM_TYPE_END},
    };
    struct rte_flow_action_queue to = {.index = queue};
    struct rte_flow_action actions[] = {
        {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
        {.type = RTE_FLOW_ACTION_TYPE_END},
    };
    if (rte_flow_validate(d->dev->port, &attr, pattern, actions, &why) != 0) {
        return NULL;
    }
    return rte_flow_create(d->dev->port, &attr, pattern, actions, &why);
}

bool bt_dpdk_flow_add(struct bt_dpdk *d)
{
    if (d->n_rx == 0) {
        return false; // no queue to steer to
    }
    for (unsigned i = 0; i < d->n_ports; i++) {
        struct bt_addr local = bt_link_local(d->link, i);
        struct rte_flow *flow = add_rule(d, &local, d->rx_queue[0]);
        if (flow == NULL) {
            bt_dpdk_flow_remove(d);
            return false;
        }
        d->flow[d->n_flows++] = flow;
    }
    return true;
}

void bt_dpdk_flow_remove(struct bt_dpdk *d)
{
    struct rte_flow_error why;
    while (d->n_flows > 0) {
        (void)rte_flow_destroy(d->dev->port, d->flow[--d->n_flows], &why);
    }
}
