// SPDX-License-Identifier: Apache-2.0
// Software dispatch: where the device cannot tell one UDP port from another, the io that polls a queue hands over
// what belongs to the other ios, through one ring each, and wakes those that sleep. ARP, discovery and ICMP go to
// every io, because each resolves its neighbours by itself and nothing is shared but the rings.
#include "io/dpdk_internal.h"

#include <errno.h>
#include <rte_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/toeplitz.h"

enum { FIRST_FREE = 49152, FREE_PORTS = 16384 }; // RFC 6335 §6: nobody has a claim on these

static bool is_wanted(const struct bt_dpdk_config *cfg, uint16_t port)
{
    for (unsigned i = 0; i < cfg->n_locals; i++) {
        if (cfg->locals[i].port == port) {
            return true;
        }
    }
    return false;
}

struct bt_addr *bt_dpdk_choose_ports(const struct bt_dpdk *d, const struct bt_dpdk_config *cfg, char *err,
                                     size_t errlen)
{
    struct bt_addr *locals = calloc(cfg->n_locals, sizeof *locals);
    uint32_t start = (uint32_t)((d->dev->seed + d->index * 2 * BT_LINK_MAX_LOCALS) % FREE_PORTS);
    uint32_t looked = 0;
    if (locals == NULL) {
        snprintf(err, errlen, "out of memory for %u local ports", cfg->n_locals);
        return NULL;
    }
    for (unsigned i = 0; i < cfg->n_locals; i++) {
        locals[i] = cfg->locals[i];
        while (locals[i].port == 0 && looked < FREE_PORTS) {
            uint16_t port = (uint16_t)(FIRST_FREE + (start + looked++) % FREE_PORTS);
            if (atomic_load(&d->dev->listener[port]) == NULL && !is_wanted(cfg, port)) {
                locals[i].port = port;
            }
        }
        if (locals[i].port == 0) {
            snprintf(err, errlen, "no UDP port from %u up is free on this device for local port %u; name one",
                     (unsigned)FIRST_FREE, i);
            free(locals);
            return NULL;
        }
    }
    return locals;
}

// A port is one io's, whatever the address: the io's link tells its own addresses apart.
static int claim(struct bt_dpdk *d, uint16_t port, char *err, size_t errlen)
{
    struct bt_dpdk *owner = NULL;
    if (atomic_compare_exchange_strong(&d->dev->listener[port], &owner, d) || owner == d) {
        return 0;
    }
    snprintf(err, errlen, "UDP port %u is taken: another thread on this device has it, choose another one", port);
    return -1;
}

static int open_ring(struct bt_dpdk *d, char *err, size_t errlen)
{
    char name[RTE_RING_NAMESIZE];
    if (d->dev->n_ios < 2) {
        return 0; // nobody to hand anything over
    }
    snprintf(name, sizeof name, "bobtail%u.%u", d->dev->port, d->index);
    d->handed = rte_ring_create(name, BT_DPDK_HANDOVER, SOCKET_ID_ANY,
                                RING_F_SC_DEQ | (d->dev->n_queues > 1 ? 0 : RING_F_SP_ENQ));
    if (d->handed == NULL) {
        snprintf(err, errlen, "no memory for a ring between threads: %s", rte_strerror(rte_errno));
        return -1;
    }
    return 0;
}

int bt_dpdk_listen(struct bt_dpdk *d, char *err, size_t errlen)
{
    if (open_ring(d, err, errlen) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < d->n_ports; i++) {
        if (claim(d, bt_link_local(d->link, i).port, err, errlen) != 0) {
            return -1;
        }
    }
    bt_dpdk_flow_add(d);
    return 0;
}

void bt_dpdk_unlisten(struct bt_dpdk *d)
{
    bt_dpdk_flow_remove(d);
    for (unsigned i = 0; i < d->n_ports && d->link != NULL; i++) {
        struct bt_dpdk *us = d;
        atomic_compare_exchange_strong(&d->dev->listener[bt_link_local(d->link, i).port], &us, NULL);
    }
    if (d->handed != NULL) {
        void *p;
        while (rte_ring_sc_dequeue(d->handed, &p) == 0) {
            bt_pool_put(&d->dev->pool, p);
        }
        rte_ring_free(d->handed);
        d->handed = NULL;
    }
}

// Gives a frame away; it is dropped and counted when the other io does not keep up.
static bool give(struct bt_dpdk *d, struct bt_dpdk *to, struct bt_pkt *frame)
{
    if (rte_ring_enqueue(to->handed, frame) == 0) {
        d->counters[BT_DPDK_RX_HANDED_OVER]++;
        return true;
    }
    d->counters[BT_DPDK_RX_HANDOVER]++;
    bt_pool_put(&d->dev->pool, frame);
    return false;
}

static struct bt_pkt *copy(struct bt_dpdk *d, const struct bt_pkt *frame)
{
    struct bt_pkt *p = bt_pool_get(&d->dev->pool);
    uint8_t *at = p != NULL ? bt_pkt_append(p, frame->len) : NULL;
    if (at == NULL) {
        d->counters[BT_DPDK_RX_NO_BUFFER]++;
        if (p != NULL) {
            bt_pool_put(&d->dev->pool, p);
        }
        return NULL;
    }
    memcpy(at, frame->data, frame->len);
    p->offload = frame->offload;
    p->t_rx_ns = frame->t_rx_ns;
    return p;
}

// A copy to each other io; returns the set of those that got one.
static uint32_t tell_everyone(struct bt_dpdk *d, const struct bt_pkt *frame)
{
    uint32_t told = 0;
    for (unsigned i = 0; i < d->dev->n_ios; i++) {
        struct bt_dpdk *to = atomic_load_explicit(&d->dev->io[i], memory_order_acquire);
        if (to != NULL && to != d) {
            struct bt_pkt *p = copy(d, frame);
            if (p != NULL && give(d, to, p)) {
                told |= UINT32_C(1) << i;
            }
        }
    }
    return told;
}

// TCP: a flow has its io, whichever queue its segments came by. NULL: it is none.
static struct bt_dpdk *of_flow(struct bt_dpdk_device *dev, const struct bt_pkt *frame)
{
    uint32_t hash;
    if (!bt_link_tcp_flow(frame->data, frame->len, &hash)) {
        return NULL;
    }
    return atomic_load_explicit(&dev->io[dev->flow_io[hash % BT_TOEPLITZ_ENTRIES]], memory_order_acquire);
}

unsigned bt_dpdk_dispatch(struct bt_dpdk *d, struct bt_pkt **frames, unsigned n)
{
    struct bt_dpdk_device *dev = d->dev;
    unsigned kept = 0;
    uint32_t told = 0; // set of ios
    for (unsigned i = 0; i < n; i++) {
        struct bt_pkt *frame = frames[i];
        struct bt_dpdk *to = NULL;
        uint16_t port = 0;
        enum bt_link_steer where = bt_link_steer(frame->data, frame->len, &port);
        if (where == BT_LINK_STEER_EVERY) {
            told |= tell_everyone(d, frame);
            to = d;
        } else if (where == BT_LINK_STEER_PORT) {
            to = atomic_load_explicit(&dev->listener[port], memory_order_acquire);
        }
        if (where == BT_LINK_STEER_FIRST && dev->link.takes_tcp) {
            to = of_flow(dev, frame);
        }
        if (to == NULL) { // somebody has to count it: the io whose link answers
            to = atomic_load_explicit(&dev->io[0], memory_order_acquire);
        }
        if (to == d || to == NULL) {
            frames[kept++] = frame;
        } else if (give(d, to, frame)) {
            told |= UINT32_C(1) << to->index;
        }
    }
    for (; told != 0; told &= told - 1) {
        struct bt_dpdk *to = atomic_load_explicit(&dev->io[__builtin_ctz(told)], memory_order_acquire);
        if (to != NULL) {
            bt_dpdk_ring_bell(&to->bell);
        }
    }
    return kept;
}
