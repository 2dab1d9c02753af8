// SPDX-License-Identifier: Apache-2.0
// See dpdk_hosts.h.
#include "dpdk_hosts.h"

#include "io/dpdk_internal.h"

#include <rte_eth_ring.h>
#include <string.h>

struct rte_ring *wire[2];
bt_dpdk_log hosts_log;

struct bt_dpdk_device *hosts_device(unsigned n, unsigned ios, enum bt_dpdk_checksums checksums)
{
    struct bt_link_prefix own[2];
    char err[400];
    dpdk_addresses(n, own);
    struct bt_dpdk_device_config cfg = {.port = n == 1 ? "net_ring_a" : "net_ring_b",
                                        .addrs = own,
                                        .n_addrs = 2,
                                        .ios = ios,
                                        .buffers = DPDK_BUFFERS,
                                        .neighbour_retry_ns = 50 * MS,
                                        .checksums = checksums,
                                        .log = hosts_log,
                                        .seed = n};
    struct bt_dpdk_device *dev = bt_dpdk_device_open(&cfg, err, sizeof err);
    if (dev == NULL) {
        fail_msg("%s", err);
    }
    return dev;
}

struct bt_io *hosts_io(struct bt_dpdk_device *dev, bool v6, unsigned n, uint16_t port)
{
    struct bt_addr local = dpdk_address(v6, n, port);
    struct bt_dpdk_config cfg = {.locals = &local, .n_locals = 1, .report_unreachable = true};
    char err[400];
    struct bt_io *io = bt_dpdk_open(dev, &cfg, err, sizeof err);
    if (io == NULL) {
        fail_msg("%s", err);
    }
    return io;
}

struct hosts hosts_open(void)
{
    struct hosts h = {.dev = {hosts_device(1, 1, BT_DPDK_CHECKSUMS_AUTO), hosts_device(2, 2, BT_DPDK_CHECKSUMS_AUTO)}};
    h.peer = hosts_io(h.dev[0], false, 1, 7000);
    h.request = hosts_io(h.dev[1], false, 2, REQUEST_PORT);
    h.feedback = hosts_io(h.dev[1], false, 2, FEEDBACK_PORT);
    return h;
}

void hosts_close(struct hosts *h)
{
    void *m;
    h->peer->ops->close(h->peer);
    if (h->feedback != NULL) {
        h->feedback->ops->close(h->feedback);
    }
    h->request->ops->close(h->request);
    for (unsigned i = 0; i < 2; i++) {
        while (rte_ring_dequeue(wire[i], &m) == 0) {
            rte_pktmbuf_free(m);
        }
    }
    assert_int_equal(bt_dpdk_device_close(h->dev[0]), 0);
    assert_int_equal(bt_dpdk_device_close(h->dev[1]), 0);
}

uint64_t hosts_counter(struct bt_io *io, const char *name, const char *value)
{
    const struct bt_counter_desc *d;
    unsigned n;
    const uint64_t *v = io->ops->counters(io, &d, &n);
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(d[i].name, name) == 0 && (value == NULL || (d[i].value != NULL && strcmp(d[i].value, value) == 0))) {
            return v[i];
        }
    }
    fail_msg("no counter %s %s", name, value != NULL ? value : "");
    return 0;
}

void hosts_send(struct bt_dpdk_device *dev, struct bt_io *io, struct bt_addr to, uint32_t value)
{
    struct bt_txq q;
    struct bt_pkt *p = bt_pool_get(bt_dpdk_pool(dev));
    assert_non_null(p);
    memcpy(bt_pkt_append(p, sizeof value), &value, sizeof value);
    p->dst = to;
    bt_txq_init(&q);
    bt_txq_push(&q, p);
    bt_io_tx(io, &q);
}

int hosts_start(void **state)
{
    char why[400];
    (void)state;
    if (!dpdk_begin("net_ring", why, sizeof why)) {
        print_message("%s\n", why);
        return -1;
    }
    for (unsigned i = 0; i < 2; i++) {
        wire[i] = rte_ring_create(i == 0 ? "test-0" : "test-1", 1024, SOCKET_ID_ANY, 0);
    }
    return wire[0] != NULL && wire[1] != NULL && rte_eth_from_rings("a", &wire[1], 1, &wire[0], 1, 0) >= 0 &&
                   rte_eth_from_rings("b", &wire[0], 1, &wire[1], 1, 0) >= 0
               ? 0
               : -1;
}
