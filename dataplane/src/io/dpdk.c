// SPDX-License-Identifier: Apache-2.0
// Opening and closing an io on a DPDK device: a link of its own, its share of the queues, its UDP ports.
#include "io/dpdk_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NO_PORT UINT32_MAX

uint64_t bt_dpdk_now(struct bt_io *io)
{
    (void)io;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct bt_addr local_of(struct bt_io *io, uint32_t local)
{
    return bt_link_local(bt_dpdk_of(io)->link, local);
}

static unsigned events_of(struct bt_io *io, struct bt_io_event *ev, unsigned max)
{
    struct bt_dpdk *d = bt_dpdk_of(io);
    struct bt_link_event e;
    unsigned n = 0;
    while (n < max && bt_link_events(d->link, &e, 1) == 1) {
        if (e.error == EMSGSIZE) {
            continue; // no news about the peer, whatever MTU it names
        }
        d->counters[BT_DPDK_UNREACHABLE]++;
        if (d->report) {
            ev[n++] = (struct bt_io_event){.peer = e.peer, .local = e.local, .error = e.error};
        }
    }
    return n;
}

static void io_close(struct bt_io *io)
{
    struct bt_dpdk *d = bt_dpdk_of(io);
    struct bt_dpdk *us = d;
    atomic_compare_exchange_strong(&d->dev->io[d->index], &us, NULL);
    bt_dpdk_unlisten(d);
    bt_dpdk_rx_flush(d);
    if (d->link != NULL) {
        bt_link_close(d->link);
    }
    if (d->bell.fd >= 0) {
        close(d->bell.fd);
    }
    if (d->lcore != LCORE_ID_ANY && d->lcore == rte_lcore_id()) {
        rte_thread_unregister(); // only a thread itself can
    }
    free(d->link_mem);
    free(d->ports);
    free(d->descs);
    free(d->exported);
    free(d);
}

static const struct bt_io_ops dpdk_ops = {
    .rx = bt_dpdk_rx,
    .tx = bt_dpdk_tx,
    .wait = bt_dpdk_wait,
    .now = bt_dpdk_now,
    .wake = bt_dpdk_wake,
    .events = events_of,
    .local = local_of,
    .counters = bt_dpdk_counters,
    .close = io_close,
    .watch = bt_dpdk_watch,
    .next = bt_dpdk_next,
};

static int open_link(struct bt_dpdk *d, const struct bt_addr *locals, unsigned n_locals, char *err, size_t errlen)
{
    struct bt_link_config link = d->dev->link;
    struct bt_link_error why = {.field = "", .problem = "refused"};
    link.locals = locals;
    link.n_locals = n_locals;
    link.secondary = d->index != 0;
    link.seed = d->dev->seed + d->index;
    size_t bytes = (bt_link_bytes(&link) + 63) & ~(size_t)63;
    d->link_mem = bytes != 0 ? aligned_alloc(64, bytes) : NULL;
    if (bytes != 0 && d->link_mem == NULL) {
        snprintf(err, errlen, "out of memory for %u local ports", n_locals);
        return -1;
    }
    d->link = bt_link_init(d->link_mem, bytes, &link, bt_dpdk_now(&d->io), &why);
    if (d->link == NULL) {
        snprintf(err, errlen, "%s[%u]: %s", why.field, why.index, why.problem);
        return -1;
    }
    return 0;
}

// Queue q belongs to the io of that index; the first takes those that have none.
static void share_queues(struct bt_dpdk *d)
{
    struct bt_dpdk_device *dev = d->dev;
    d->tx_queue = (uint16_t)(d->index % dev->n_queues);
    d->tx_shared = d->tx_queue + dev->n_queues < dev->n_ios;
    for (uint16_t q = 0; q < dev->n_queues; q++) {
        if (q == d->index || (d->index == 0 && q >= dev->n_ios)) {
            d->rx_queue[d->n_rx++] = q;
        }
    }
}

static int free_index(const struct bt_dpdk_device *dev, unsigned *index)
{
    for (unsigned i = 0; i < dev->n_ios; i++) {
        if (atomic_load(&dev->io[i]) == NULL) {
            *index = i;
            return 0;
        }
    }
    return -1;
}

static int open_all(struct bt_dpdk *d, const struct bt_dpdk_config *cfg, char *err, size_t errlen)
{
    d->ports = calloc(cfg->n_locals + 1, sizeof *d->ports); // the last one: TCP, see takes_tcp in link.h
    if (d->ports == NULL || bt_dpdk_bell_open(&d->bell) != 0) {
        snprintf(err, errlen, "out of memory or file descriptors for %u local ports", cfg->n_locals);
        return -1;
    }
    d->n_ports = cfg->n_locals;
    struct bt_addr *locals = bt_dpdk_choose_ports(d, cfg, err, errlen);
    int failed = locals != NULL ? open_link(d, locals, cfg->n_locals, err, errlen) : -1;
    free(locals);
    if (failed != 0) {
        return -1;
    }
    if (bt_dpdk_counters_open(d) != 0) {
        snprintf(err, errlen, "out of memory");
        return -1;
    }
    share_queues(d);
    return bt_dpdk_listen(d, err, errlen);
}

struct bt_io *bt_dpdk_open(struct bt_dpdk_device *dev, const struct bt_dpdk_config *cfg, char *err, size_t errlen)
{
    unsigned index;
    if (cfg->n_locals == 0 || cfg->n_locals > BT_LINK_MAX_LOCALS) {
        snprintf(err, errlen, "needs 1..%u local ports; got %u", BT_LINK_MAX_LOCALS, cfg->n_locals);
        return NULL;
    }
    if (free_index(dev, &index) != 0) {
        snprintf(err, errlen, "the device was opened for %u ios and has them", dev->n_ios);
        return NULL;
    }
    struct bt_dpdk *d = calloc(1, sizeof *d);
    if (d == NULL) {
        snprintf(err, errlen, "out of memory");
        return NULL;
    }
    d->io.ops = &dpdk_ops;
    d->dev = dev;
    d->index = index;
    d->report = cfg->report_unreachable;
    d->bell.fd = -1;
    d->lcore = LCORE_ID_ANY;
    d->ready_head = d->ready_tail = NO_PORT;
    d->carrier = bt_dpdk_link_up(dev);
    bt_txq_init(&d->out);
    if (open_all(d, cfg, err, errlen) != 0) {
        io_close(&d->io);
        return NULL;
    }
    bt_dpdk_interrupts_open(d);
    d->last_rx_ns = bt_dpdk_now(&d->io);
    atomic_store_explicit(&dev->io[index], d, memory_order_release);
    return &d->io;
}
