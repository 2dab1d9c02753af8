// SPDX-License-Identifier: Apache-2.0
// See queue_net.h.
#include "queue_net.h"

#include "io/dpdk_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

enum { EACH = ROUNDS * FLOWS, PACKETS = EACH * QUEUES * QUEUES };

static char said[2000];

static void say(const char *line)
{
    size_t at = strlen(said);
    print_message("  %s\n", line);
    snprintf(said + at, sizeof said - at, "%s\n", line);
}

bool queue_net_said(const char *part)
{
    return strstr(said, part) != NULL;
}

static struct bt_dpdk_device *open_device(unsigned host, const char *port, unsigned queues)
{
    struct bt_link_prefix own[2];
    char err[400];
    dpdk_addresses(host + 1, own);
    struct bt_dpdk_device_config cfg = {.port = port,
                                        .addrs = own,
                                        .n_addrs = 2,
                                        .ios = QUEUES,
                                        .queues = queues,
                                        .buffers = DPDK_BUFFERS,
                                        .link_wait_ms = host == QUEUE_ANSWERS ? 5000 : 0,
                                        .seed = host + 1,
                                        .log = say};
    struct bt_dpdk_device *dev = bt_dpdk_device_open(&cfg, err, sizeof err);
    if (dev == NULL) {
        fail_msg("%s", err);
    }
    assert_int_equal(dev->n_queues, QUEUES);
    return dev;
}

static struct bt_io *open_io(struct bt_dpdk_device *dev, const struct bt_addr *locals, unsigned n)
{
    struct bt_dpdk_config cfg = {.locals = locals, .n_locals = n};
    char err[400];
    struct bt_io *io = bt_dpdk_open(dev, &cfg, err, sizeof err);
    if (io == NULL) {
        fail_msg("%s", err);
    }
    return io;
}

void queue_net_open(struct queue_net *n, const char *const port[2], unsigned queues)
{
    struct bt_addr locals[FLOWS];
    memset(n, 0, sizeof *n);
    said[0] = '\0';
    for (unsigned i = 0; i < 2; i++) {
        n->dev[i] = open_device(i, port[i], queues);
    }
    for (unsigned i = 0; i < FLOWS; i++) {
        locals[i] = dpdk_address(false, 1 + QUEUE_ASKS, 0);
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        struct bt_addr local = dpdk_address(false, 1 + QUEUE_ANSWERS, (uint16_t)(8000 + 1000 * i));
        n->ask[i] = open_io(n->dev[QUEUE_ASKS], locals, FLOWS);
        n->answer[i].dev = n->dev[QUEUE_ANSWERS];
        n->answer[i].io = open_io(n->dev[QUEUE_ANSWERS], &local, 1);
        n->answer[i].port = local.port;
    }
}

static void *answer_loop(void *arg)
{
    struct queue_answerer *a = arg;
    struct bt_pkt *pkts[BT_IO_BATCH];
    while (!atomic_load(&a->stop)) {
        struct bt_txq q;
        bt_io_wait(a->io, BT_IO_FOREVER);
        unsigned n = bt_io_rx(a->io, BT_IO_ANY, pkts, BT_IO_BATCH);
        bt_txq_init(&q);
        for (unsigned i = 0; i < n; i++) {
            if (pkts[i]->dst.port != a->port) {
                atomic_fetch_add(&a->strays, 1);
            }
            pkts[i]->dst = pkts[i]->src;
            bt_txq_push(&q, pkts[i]);
        }
        bt_io_tx(a->io, &q);
    }
    return NULL;
}

// What a packet carries: where it comes from, where it goes, and its number among those.
struct question {
    uint32_t round, answer;
    uint16_t ask, flow;
};

static void put(struct queue_net *n, const struct question *what, unsigned count)
{
    struct bt_txq q;
    bt_txq_init(&q);
    for (unsigned i = 0; i < count; i++) {
        struct bt_pkt *p = bt_pool_get(bt_dpdk_pool(n->dev[QUEUE_ASKS]));
        assert_non_null(p);
        memcpy(bt_pkt_append(p, sizeof what[i]), &what[i], sizeof what[i]);
        p->local = what[i].flow;
        p->dst = dpdk_address(false, 1 + QUEUE_ANSWERS, n->answer[what[i].answer].port);
        bt_txq_push(&q, p);
    }
    bt_io_tx(n->ask[what[0].ask], &q);
}

// Takes `want` answers, by whichever io of the asking host they come.
static void take(struct queue_net *n, unsigned want, bool seen[QUEUES][FLOWS][QUEUES])
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    uint64_t until = bt_io_now(n->ask[0]) + 60000 * MS;
    unsigned got = 0;
    while (got < want && bt_io_now(n->ask[0]) < until) {
        for (unsigned a = 0; a < QUEUES; a++) {
            bt_io_wait(n->ask[a], bt_io_now(n->ask[a]) + MS / 10);
            unsigned k = bt_io_rx(n->ask[a], BT_IO_ANY, pkts, BT_IO_BATCH);
            for (unsigned i = 0; i < k; i++) {
                struct question is;
                assert_int_equal(pkts[i]->len, sizeof is);
                memcpy(&is, pkts[i]->data, sizeof is);
                assert_int_equal(is.ask, a);
                assert_int_equal(is.flow, pkts[i]->local);
                assert_int_equal(n->answer[is.answer].port, pkts[i]->src.port);
                assert_false(seen[a][is.flow][is.answer]);
                seen[a][is.flow][is.answer] = true;
                bt_pool_put(bt_dpdk_pool(n->dev[QUEUE_ASKS]), pkts[i]);
            }
            got += k;
        }
    }
    assert_int_equal(got, want);
}

// Each io finds its neighbour by itself: alone, since few packets may wait for that (E-14).
static void acquaint(struct queue_net *n)
{
    for (unsigned a = 0; a < QUEUES; a++) {
        for (unsigned b = 0; b < QUEUES; b++) {
            bool seen[QUEUES][FLOWS][QUEUES] = {0};
            struct question one = {.ask = (uint16_t)a, .answer = b};
            put(n, &one, 1);
            take(n, 1, seen);
        }
    }
}

static void ask_round(struct queue_net *n, uint32_t round)
{
    bool seen[QUEUES][FLOWS][QUEUES] = {0};
    for (unsigned a = 0; a < QUEUES; a++) {
        struct question all[FLOWS * QUEUES];
        for (unsigned i = 0; i < FLOWS * QUEUES; i++) {
            all[i] = (struct question){
                .round = round, .ask = (uint16_t)a, .flow = (uint16_t)(i / QUEUES), .answer = i % QUEUES};
        }
        put(n, all, FLOWS * QUEUES);
    }
    take(n, QUEUES * FLOWS * QUEUES, seen);
}

static uint64_t counter(struct bt_io *io, const char *name)
{
    const struct bt_counter_desc *d;
    unsigned n;
    uint64_t sum = 0;
    const uint64_t *v = io->ops->counters(io, &d, &n);
    for (unsigned i = 0; i < n; i++) {
        sum += strcmp(d[i].name, name) == 0 ? v[i] : 0;
    }
    return sum;
}

// The device's own count: a queue that stands still while the other one does all the work is no second queue.
static void check_queues(struct queue_net *n, enum queue_wire wire)
{
    struct rte_eth_stats s;
    assert_int_equal(rte_eth_stats_get(n->dev[QUEUE_ANSWERS]->port, &s), 0);
    for (unsigned q = 0; q < QUEUES; q++) {
        print_message("  queue %u: %u in, %u out\n", q, (unsigned)s.q_ipackets[q], (unsigned)s.q_opackets[q]);
        assert_true(s.q_ipackets[q] >= (wire == QUEUE_TO_QUEUE ? PACKETS / QUEUES : 1));
        assert_true(s.q_opackets[q] >= PACKETS / QUEUES); // each thread answers by its own
    }
}

static void check_counters(struct queue_net *n, enum queue_wire wire)
{
    uint64_t handed = 0;
    for (unsigned i = 0; i < QUEUES; i++) {
        struct bt_io *io = n->answer[i].io;
        assert_int_equal(atomic_load(&n->answer[i].strays), 0);
        assert_int_equal(counter(io, "io_rx_packets_total"), PACKETS / QUEUES + QUEUES);
        assert_true(counter(io, "io_tx_packets_total") >= PACKETS / QUEUES + QUEUES);
        assert_int_equal(counter(io, "io_rx_dropped_total") + counter(io, "io_tx_dropped_total"), 0);
        uint64_t here = counter(io, "io_rx_handed_over_total");
        // By each queue come as many packets for the other thread as for its own.
        assert_true(wire != QUEUE_TO_QUEUE || here >= EACH);
        handed += here;
    }
    assert_true(handed > 0);
}

void queue_net_exchange(struct queue_net *n, enum queue_wire wire)
{
    pthread_t t[QUEUES];
    for (unsigned i = 0; i < QUEUES; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, answer_loop, &n->answer[i]), 0);
    }
    acquaint(n);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ask_round(n, round);
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        atomic_store(&n->answer[i].stop, true);
        bt_io_wake(n->answer[i].io);
        pthread_join(t[i], NULL);
    }
    check_queues(n, wire);
    check_counters(n, wire);
}

void queue_net_stop(struct queue_net *n)
{
    for (unsigned i = QUEUES; i-- > 0;) { // the first takes what nobody else does, so it goes last
        n->ask[i]->ops->close(n->ask[i]);
        n->answer[i].io->ops->close(n->answer[i].io);
    }
}

void queue_net_close(struct queue_net *n)
{
    assert_int_equal(bt_dpdk_device_close(n->dev[0]), 0);
    assert_int_equal(bt_dpdk_device_close(n->dev[1]), 0);
}
