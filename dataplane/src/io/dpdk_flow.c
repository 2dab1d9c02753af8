// SPDX-License-Identifier: Apache-2.0
// Steering by UDP destination port in the device: one rte_flow rule per local port sends its packets to the queue of
// the io that owns it. An io of which the device refuses one rule gets none. Software dispatch looks at every frame in
// any case: rules only spare it the handing over.
#include "io/dpdk_internal.h"

#include <netinet/in.h>
#include <rte_errno.h>
#include <rte_flow.h>
#include <string.h>

// How a rule says which packets it means. Drivers look for the shape they know, and several refuse the other one: those
// of one kind (mlx5, i40e) take IP's header for what UDP implies, those of another (igb, ixgbe) want UDP's number in
// it.
enum form { FORM_IMPLIED, FORM_NUMBERED, FORMS };

static struct rte_flow_item ip_item(bool v4, enum form form)
{
    static const struct rte_flow_item_ipv4 udp4 = {.hdr.next_proto_id = IPPROTO_UDP},
                                           mask4 = {.hdr.next_proto_id = 0xff};
    static const struct rte_flow_item_ipv6 udp6 = {.hdr.proto = IPPROTO_UDP}, mask6 = {.hdr.proto = 0xff};
    struct rte_flow_item item = {.type = v4 ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6};
    if (form == FORM_NUMBERED) {
        item.spec = v4 ? (const void *)&udp4 : (const void *)&udp6;
        item.mask = v4 ? (const void *)&mask4 : (const void *)&mask6;
    }
    return item;
}

// False: the device knows no rule of that form.
static bool add_form(const struct bt_dpdk *d, const struct bt_addr *local, uint16_t queue, enum form form,
                     struct rte_flow **flow, struct rte_flow_error *why)
{
    struct rte_flow_attr attr = {.ingress = 1};
    struct rte_flow_item_udp udp = {.hdr.dst_port = rte_cpu_to_be_16(local->port)};
    struct rte_flow_item_udp mask = {.hdr.dst_port = 0xffff};
    struct rte_flow_item pattern[] = {
        {.type = RTE_FLOW_ITEM_TYPE_ETH},
        ip_item(bt_addr_is_v4(local), form),
        {.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &mask},
        {.type = RTE_FLOW_ITEM_TYPE_END},
    };
    struct rte_flow_action_queue to = {.index = queue};
    struct rte_flow_action actions[] = {
        {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
        {.type = RTE_FLOW_ACTION_TYPE_END},
    };
    if (rte_flow_validate(d->dev->port, &attr, pattern, actions, why) != 0) {
        return false;
    }
    *flow = rte_flow_create(d->dev->port, &attr, pattern, actions, why);
    return true;
}

static struct rte_flow *add_rule(const struct bt_dpdk *d, const struct bt_addr *local, uint16_t queue,
                                 struct rte_flow_error *why)
{
    struct rte_flow *flow = NULL;
    for (enum form form = 0; form < FORMS && !add_form(d, local, queue, form, &flow, why); form++) {
    }
    return flow;
}

void bt_dpdk_flow_add(struct bt_dpdk *d)
{
    if (d->dev->n_queues < 2 || d->dev->n_ios < 2 || d->n_rx == 0) {
        return; // one queue, one thread, or none of the queues is this thread's
    }
    for (unsigned i = 0; i < d->n_ports; i++) {
        struct bt_addr local = bt_link_local(d->link, i);
        struct rte_flow_error why = {0};
        struct rte_flow *flow = add_rule(d, &local, d->rx_queue[0], &why);
        if (flow == NULL) {
            bt_dpdk_flow_remove(d);
            bt_dpdk_say(d->dev->log,
                        "DPDK: the device does not steer UDP port %u to queue %u (rte_flow: %s); software does",
                        local.port, d->rx_queue[0], why.message != NULL ? why.message : rte_strerror(rte_errno));
            return;
        }
        d->flow[d->n_flows++] = flow;
    }
}

void bt_dpdk_flow_remove(struct bt_dpdk *d)
{
    struct rte_flow_error why;
    while (d->n_flows > 0) {
        (void)rte_flow_destroy(d->dev->port, d->flow[--d->n_flows], &why);
    }
}
