// SPDX-License-Identifier: Apache-2.0
// What is measured: a bare forwarder that swaps MAC addresses, and the whole router over the DPDK driver with the
// loop of bobtail-router. Both spin.
#include <rte_cycles.h>
#include <rte_ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "forward.h"
#include "io/dpdk.h"
#include "router/router.h"
#include "wire/r2p2.h"

static bool forward_packets(uint16_t port)
{
    struct rte_mbuf *m[FORWARD_BATCH];
    unsigned n = rte_eth_rx_burst(port, 0, m, FORWARD_BATCH);
    for (unsigned i = 0; i < n; i++) {
        struct rte_ether_hdr *h = rte_pktmbuf_mtod(m[i], struct rte_ether_hdr *);
        struct rte_ether_addr to = h->src_addr;
        h->src_addr = h->dst_addr;
        h->dst_addr = to;
    }
    unsigned sent = n != 0 ? rte_eth_tx_burst(port, 0, m, (uint16_t)n) : 0;
    if (sent < n) {
        rte_pktmbuf_free_bulk(m + sent, n - sent);
    }
    return n != 0;
}

static struct subject {
    uint16_t port; // of the bare forwarder
    struct bt_dpdk_device *dev;
    struct bt_io *io;
    struct bt_router *router;
    void *memory;
    struct bt_txq out;
} subject;

static void say(const char *line)
{
    fprintf(stderr, "%s\n", line);
}

static bool open_io(struct subject *x, const struct forward_subject *s, char *why, size_t len)
{
    struct bt_link_static neighbours[FORWARD_WORKERS + 1];
    struct bt_link_prefix own = {forward_request_addr(), 24};
    const struct bt_addr locals[2] = {forward_request_addr(), forward_feedback_addr()};
    unsigned n = 0;
    own.addr.port = 0;
    for (uint32_t w = 0; w < FORWARD_WORKERS; w++) {
        struct bt_addr ip = forward_worker(w);
        ip.port = 0;
        bool known = false;
        for (unsigned i = 0; i < n && !known; i++) {
            known = bt_addr_eq(&neighbours[i].ip, &ip);
        }
        if (!known) {
            neighbours[n].ip = ip;
            memcpy(neighbours[n++].mac, forward_generator_mac, 6);
        }
    }
    struct bt_dpdk_device_config device = {.port = s->port,
                                           .addrs = &own,
                                           .n_addrs = 1,
                                           .statics = neighbours,
                                           .n_statics = n,
                                           .ring = FORWARD_RING,
                                           .checksums = BT_DPDK_CHECKSUMS_NONE,
                                           .link_wait_ms = 5000,
                                           .idle = BT_DPDK_IDLE_SPIN,
                                           .buffers_of = s->buffers,
                                           .log = say};
    struct bt_dpdk_config io = {.locals = locals, .n_locals = 2};
    x->dev = bt_dpdk_device_open(&device, why, len);
    x->io = x->dev != NULL ? bt_dpdk_open(x->dev, &io, why, len) : NULL;
    return x->io != NULL;
}

static bool open_router(struct subject *x)
{
    struct bt_addr workers[FORWARD_WORKERS];
    struct bt_router_setup setup = {.pool = bt_dpdk_pool(x->dev),
                                    .seed = 1,
                                    .request_addr = forward_request_addr(),
                                    .feedback_addr = forward_feedback_addr()};
    struct bt_router_config c = {.forwarding = BT_FORWARD_TRANSPARENT,
                                 .device = BT_DEVICE_KERNEL, // the generator may be descheduled for long
                                 .depth = FORWARD_DEPTH,
                                 .central_limit = 1024,
                                 .max_payload = bt_r2p2_datagram_max(1500, true), // as bobtail-router says
                                 .max_queue_ns = UINT64_C(10000000000),
                                 .request_timeout_ns = UINT64_C(10000000000),
                                 .members = workers,
                                 .members_n = FORWARD_WORKERS};
    for (uint32_t w = 0; w < FORWARD_WORKERS; w++) {
        workers[w] = forward_worker(w);
    }
    const size_t huge = (size_t)2 << 20;
    size_t bytes = (bt_router_bytes(&setup) + huge - 1) & ~(huge - 1);
    x->memory = aligned_alloc(huge, bytes);
    if (x->memory != NULL) {
        (void)madvise(x->memory, bytes, MADV_HUGEPAGE); // as bobtail-router does
    }
    x->router = x->memory != NULL ? bt_router_init(x->memory, bytes, &setup, bt_io_now(x->io)) : NULL;
    return x->router != NULL && bt_router_apply(x->router, bt_io_now(x->io), &c, NULL);
}

// One turn of bobtail-router's loop; true if it found packets.
static bool route_packets(struct subject *x)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned found = 0;
    unsigned n;
    bt_io_wait(x->io, bt_router_next(x->router));
    do {
        n = bt_io_rx(x->io, BT_ROUTER_PORT_FEEDBACK, pkts, BT_IO_BATCH);
        for (unsigned i = 0; i < n; i++) {
            bt_router_feedback(x->router, pkts[i]->t_rx_ns, pkts[i], &x->out);
        }
        found += n;
    } while (n == BT_IO_BATCH && found < 8 * BT_IO_BATCH);
    n = bt_io_rx(x->io, BT_ROUTER_PORT_REQUEST, pkts, BT_IO_BATCH);
    bt_router_requests(x->router, pkts, n, &x->out);
    bt_router_tick(x->router, bt_io_now(x->io), &x->out);
    bt_io_tx(x->io, &x->out);
    return found + n != 0;
}

void forward_subject_explain(struct forward_subject *s)
{
    const struct subject *x = &subject;
    if (!s->router) {
        return;
    }
    const struct bt_counter_desc *d;
    unsigned n;
    const uint64_t *v = x->io->ops->counters(x->io, &d, &n);
    struct bt_router_stats stats;
    bt_router_read_stats(x->router, bt_io_now(x->io), &stats);
    for (unsigned i = 0; i < n; i++) {
        if (v[i] != 0) {
            fprintf(stderr, "%s %s %lu\n", d[i].name, d[i].value != NULL ? d[i].value : "", (unsigned long)v[i]);
        }
    }
    for (unsigned i = 0; i < BT_ROUTER_COUNTERS; i++) {
        if (stats.counter[i] != 0) {
            fprintf(stderr, "%s %s %lu\n", bt_router_counter_descs[i].name,
                    bt_router_counter_descs[i].value != NULL ? bt_router_counter_descs[i].value : "",
                    (unsigned long)stats.counter[i]);
        }
    }
}

static bool open_router_port(struct forward_subject *s)
{
    char why[400] = "out of memory";
    bt_txq_init(&subject.out);
    if (!open_io(&subject, s, why, sizeof why) || !open_router(&subject)) {
        fprintf(stderr, "bench_forward: %s\n", why);
        return false;
    }
    bt_dpdk_mac(subject.dev, s->mac);
    return true;
}

bool forward_subject_open(struct forward_subject *s)
{
    return s->router ? open_router_port(s) : rte_eth_dev_get_port_by_name(s->port, &subject.port) == 0;
}

__attribute__((noinline)) bool forward_subject_turn(struct forward_subject *s)
{
    return s->router ? route_packets(&subject) : forward_packets(subject.port);
}
