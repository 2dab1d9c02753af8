// SPDX-License-Identifier: Apache-2.0
// See packet_suite.h. Every case runs in both directions, so that a driver is tested as sender and as receiver even
// where its peer is the kernel. No case asserts how long something took.
#include "packet_ends.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

static const struct packet_driver *driver;

// --- what the cases need

static struct packet_rig *rig_open(bool v6)
{
    struct packet_rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->v6 = v6;
    driver->open(r);
    return r;
}

static void rig_close(struct packet_rig *r)
{
    assert_int_equal(driver->close(r), 0); // every buffer came home
    free(r);
}

// Directions of the running case that were left out; when both were, the case counts as skipped, not as passed.
static unsigned left_out;

static void leave_out(const char *why)
{
    print_message("left out in one direction: %s\n", why);
    left_out++;
}

// --- the cases, in one direction each

static void exchange(struct packet_rig *r, unsigned from)
{
    enum { N = 150 };
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_pkt *pkts[N + 1];
    struct bt_txq q;
    bt_txq_init(&q);
    for (uint32_t i = 0; i < N; i++) { // several batches, ports alternating
        packet_queue(a, &q, i & 1, b->port[0], i, 4 + i);
    }
    packet_queue(a, &q, 1, b->port[0], 0, 0); // header-only datagrams are legal UDP
    packet_send(a, &q);
    assert_int_equal(packet_receive(r, 1 - from, BT_IO_ANY, pkts, N + 1), N + 1);
    uint32_t next[2] = {0, 1};
    for (uint32_t i = 0; i < N + 1; i++) {
        struct bt_pkt *p = pkts[i];
        if (p->len == 0) {
            assert_int_equal(i, N); // behind everything of its port, which is everything
            continue;
        }
        uint32_t v = packet_seed(p);
        assert_int_equal(v, next[v & 1]); // order is kept within a flow
        next[v & 1] += 2;
        packet_check(p, v, 4 + v);
        assert_true(bt_addr_eq(&p->src, &a->port[v & 1]));
        assert_true(bt_addr_eq(&p->dst, &b->port[0]));
        assert_int_equal(p->local, 0);
        assert_int_equal(p->tx_as_src, 0);
        assert_int_equal(p->index, 0);
        assert_int_equal(p->mark, 0);
        assert_null(p->next);
        assert_true(p->t_rx_ns <= bt_io_now(b->io));
        assert_true(p->room_before >= 64);
    }
    packet_give_back(b, pkts, N + 1);
}

static void stream(struct packet_rig *r, unsigned from)
{
    enum { ROUNDS = 40 };
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_pkt *pkts[BT_IO_BATCH];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct bt_txq q;
        bt_txq_init(&q);
        for (uint32_t i = 0; i < BT_IO_BATCH; i++) {
            packet_queue(a, &q, 0, b->port[1], round * BT_IO_BATCH + i, 64);
        }
        packet_send(a, &q);
        assert_int_equal(packet_receive(r, 1 - from, BT_IO_ANY, pkts, BT_IO_BATCH), BT_IO_BATCH);
        for (uint32_t i = 0; i < BT_IO_BATCH; i++) {
            assert_int_equal(packet_seed(pkts[i]), round * BT_IO_BATCH + i);
            assert_int_equal(pkts[i]->local, 1);
        }
        packet_give_back(b, pkts, BT_IO_BATCH);
    }
}

static void port_by_port(struct packet_rig *r, unsigned from)
{
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_pkt *pkts[BT_IO_BATCH];
    struct bt_txq q;
    bt_txq_init(&q);
    packet_queue(a, &q, 0, b->port[0], 7, 7);
    packet_queue(a, &q, 0, b->port[1], 8, 8);
    packet_queue(a, &q, 0, b->port[1], 9, 9);
    packet_send(a, &q);
    assert_int_equal(packet_receive(r, 1 - from, 1, pkts, 2), 2); // one port is read and the other left alone
    assert_int_equal(pkts[0]->local, 1);
    assert_int_equal(packet_seed(pkts[0]), 8);
    assert_int_equal(packet_seed(pkts[1]), 9);
    packet_give_back(b, pkts, 2);
    assert_int_equal(bt_io_rx(b->io, 1, pkts, BT_IO_BATCH), 0);
    assert_int_equal(packet_receive(r, 1 - from, 0, pkts, 1), 1);
    assert_int_equal(pkts[0]->local, 0);
    packet_give_back(b, pkts, 1);
}

static void sizes(struct packet_rig *r, unsigned from)
{
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    const uint32_t max = packet_largest(r);
    const uint32_t size[] = {0, 1, 17, 18, 19, 512, max - 1, max};
    struct bt_pkt *p[1];
    struct bt_txq q;
    bt_txq_init(&q);
    for (unsigned i = 0; i < sizeof size / sizeof size[0]; i++) {
        packet_queue(a, &q, 0, b->port[0], i, size[i]);
        packet_send(a, &q);
        assert_int_equal(packet_receive(r, 1 - from, 0, p, 1), 1);
        packet_check(p[0], i, size[i]); // padding of short frames is not payload
        packet_give_back(b, p, 1);
    }
    if (a->any_size) {
        print_message("one byte more is left out: any size passes here\n");
        return;
    }
    uint64_t before = packet_counted(a, "tx_dropped_total", "too_long");
    packet_queue(a, &q, 0, b->port[0], 0, max + 1); // refused, not cut into fragments
    packet_queue(a, &q, 0, b->port[0], 77, 20);
    packet_send(a, &q);
    assert_int_equal(packet_receive(r, 1 - from, 0, p, 1), 1);
    assert_int_equal(packet_seed(p[0]), 77);
    packet_give_back(b, p, 1);
    assert_int_equal(packet_counted(a, "tx_dropped_total", "too_long"), before + 1);
}

static void unreachable(struct packet_rig *r, unsigned from)
{
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_io_event ev[8];
    struct bt_pkt *p[1];
    struct bt_txq q;
    unsigned n = 0;
    bt_txq_init(&q);
    packet_queue(a, &q, 1, a->nobody, 5, 7);
    packet_send(a, &q);
    uint64_t until = bt_io_now(a->io) + 10 * SECOND;
    while (n == 0 && bt_io_now(a->io) < until) {
        bt_io_wait(a->io, bt_io_now(a->io) + 5 * MS);
        packet_serve(a);
        packet_serve(b);
        n = a->io->ops->events(a->io, ev, 8);
    }
    assert_int_equal(n, 1);
    assert_true(bt_addr_eq(&ev[0].peer, &a->nobody));
    assert_int_equal(ev[0].local, 1);
    assert_true(ev[0].error != 0);
    assert_true(packet_counted(a, "io_unreachable_total", NULL) >= 1);
    // What befell one datagram must not hold up the next, which goes elsewhere.
    packet_queue(a, &q, 1, b->port[0], 6, 7);
    packet_send(a, &q);
    assert_int_equal(packet_receive(r, 1 - from, 0, p, 1), 1);
    assert_int_equal(packet_seed(p[0]), 6);
    packet_give_back(b, p, 1);
    assert_int_equal(a->io->ops->events(a->io, ev, 8), 0); // news is told once
}

static void transparent(struct packet_rig *r, unsigned from)
{
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_addr client = bt_addr_v4u(0x0a0b0c0d, 12345);
    if (r->v6) {
        client = (struct bt_addr){.ip = {0xfd, 0x0c, [15] = 9}, .port = 12345};
    }
    struct bt_pkt *pkts[3];
    struct bt_txq q;
    char why[200];
    if (!driver->transparent(a, why, sizeof why)) {
        leave_out(why);
        return;
    }
    bt_txq_init(&q);
    for (uint32_t len = 4; len < 7; len++) { // odd and even lengths: the checksum's last byte
        packet_queue(a, &q, 0, b->port[0], len, len);
        q.tail->tx_as_src = 1;
        q.tail->src = client;
    }
    packet_send(a, &q);
    assert_int_equal(packet_receive(r, 1 - from, 0, pkts, 3), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bt_addr_eq(&pkts[i]->src, &client)); // the client's address is kept
        packet_check(pkts[i], i + 4, i + 4);
    }
    packet_give_back(b, pkts, 3);
}

// A packet is turned round in its own buffer with more in front, as the router does.
static void turned_round(struct packet_rig *r, unsigned from)
{
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_pkt *pkts[20];
    struct bt_txq q;
    bt_txq_init(&q);
    for (uint32_t i = 0; i < 20; i++) {
        packet_queue(a, &q, 0, b->port[1], i, 100);
    }
    packet_send(a, &q);
    assert_int_equal(packet_receive(r, 1 - from, BT_IO_ANY, pkts, 20), 20);
    for (uint32_t i = 0; i < 20; i++) {
        uint8_t *more = bt_pkt_push(pkts[i], 24);
        assert_non_null(more);
        memset(more, 0xbb, 24);
        pkts[i]->dst = pkts[i]->src;
        bt_txq_push(&q, pkts[i]);
    }
    packet_send(b, &q);
    assert_int_equal(packet_receive(r, from, BT_IO_ANY, pkts, 20), 20);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(pkts[i]->data[23], 0xbb);
        assert_non_null(bt_pkt_pull(pkts[i], 24));
        packet_check(pkts[i], i, 100);
        assert_true(bt_addr_eq(&pkts[i]->src, &b->port[1]));
    }
    packet_give_back(a, pkts, 20);
}

static uint64_t counted_broken(struct packet_end *e)
{
    return packet_counted(e, "rx_dropped_total", "truncated") + packet_counted(e, "rx_dropped_total", "too_long");
}

static void broken_ones_are_counted(struct packet_rig *r, unsigned from)
{
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_pkt *p[1];
    struct bt_txq q;
    uint64_t before = counted_broken(b);
    if (driver->inject_broken == NULL || !driver->inject_broken(r, from, b->port[0])) {
        leave_out("nothing here can put a broken datagram on the wire");
        return;
    }
    bt_txq_init(&q);
    packet_queue(a, &q, 0, b->port[0], 3, 30);
    packet_send(a, &q);
    assert_int_equal(packet_receive(r, 1 - from, 0, p, 1), 1); // only the whole one
    packet_check(p[0], 3, 30);
    packet_give_back(b, p, 1);
    assert_int_equal(counted_broken(b), before + 1);
}

// What either side counted as dropped, without frames that were for somebody else in the first place.
static uint64_t lost_between(struct packet_end *from, struct packet_end *to)
{
    return packet_counted(to, "rx_dropped_total", NULL) - packet_counted(to, "rx_dropped_total", "group") +
           packet_counted(from, "tx_dropped_total", NULL);
}

// M-24: with no buffer left nothing is lost without being counted, and nothing stays broken afterwards.
static void beyond_the_pool(struct packet_rig *r, unsigned from)
{
    enum { N = 100 };
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_pkt *pkts[N];
    struct bt_txq q;
    unsigned n = 0;
    struct bt_pkt **held = calloc(b->buffers, sizeof *held);
    assert_non_null(held);
    uint64_t before = lost_between(a, b);
    bt_txq_init(&q);
    for (uint32_t i = 0; i < N; i++) {
        packet_queue(a, &q, 0, b->port[0], i, 32);
    }
    while (n < b->buffers && (held[n] = bt_pool_get(b->pool)) != NULL) {
        n++;
    }
    packet_send(a, &q);
    unsigned got = 0;
    for (int turn = 0; turn < 20; turn++) {
        bt_io_wait(b->io, bt_io_now(b->io) + MS);
        got += bt_io_rx(b->io, 0, pkts + got, N - got);
    }
    packet_give_back(b, held, n);
    free(held);
    // Seconds, when the neighbour had just been forgotten: the first question was lost for want of a buffer, too.
    for (int turn = 0; turn < 1200; turn++) {
        if (got + lost_between(a, b) - before >= N) {
            break;
        }
        bt_io_wait(b->io, bt_io_now(b->io) + 5 * MS);
        got += bt_io_rx(b->io, 0, pkts + got, N - got);
    }
    uint64_t dropped = lost_between(a, b) - before;
    print_message("%u of %d arrived, %u were counted as lost\n", got, N, (unsigned)dropped);
    assert_int_equal(got + dropped, N);
    packet_give_back(b, pkts, got);
    packet_queue(a, &q, 0, b->port[0], 1000, 32); // and all is well afterwards
    packet_send(a, &q);
    assert_int_equal(packet_receive(r, 1 - from, 0, pkts, 1), 1);
    assert_int_equal(packet_seed(pkts[0]), 1000);
    packet_give_back(b, pkts, 1);
}

static void refused_ones_are_counted(struct packet_rig *r, unsigned from)
{
    struct packet_end *a = &r->end[from];
    struct bt_addr other = {.ip = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}, .port = 9};
    struct bt_txq q;
    if (r->v6) {
        other = bt_addr_v4u(0xc0000201, 9);
    }
    uint64_t before = packet_counted(a, "tx_dropped_total", NULL);
    bt_txq_init(&q);
    packet_queue(a, &q, 7, r->end[1 - from].port[0], 1, 1); // no such local port
    packet_queue(a, &q, 0, other, 1, 1);                    // the other family
    packet_send(a, &q);
    assert_int_equal(packet_counted(a, "tx_dropped_total", NULL), before + 2);
}

static void *wake_soon(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000000}, NULL);
    bt_io_wake(arg);
    return NULL;
}

// Somebody wakes the end 30 ms from now; gives the thread that will, if one does.
static bool wake_later(struct packet_end *e, pthread_t *t)
{
    if (driver->wake_in != NULL) {
        driver->wake_in(e, 30 * MS);
        return false;
    }
    assert_int_equal(pthread_create(t, NULL, wake_soon, e->io), 0);
    return true;
}

static void waiting_ends(struct packet_rig *r, unsigned from)
{
    struct bt_io *io = r->end[from].io;
    pthread_t t;
    uint64_t start = bt_io_now(io);
    bt_io_wait(io, start); // the past: returns at once
    bt_io_wake(io);        // a wake before the wait is not lost
    bt_io_wait(io, BT_IO_FOREVER);
    bool thread = wake_later(&r->end[from], &t);
    for (bool woken = false; !woken; woken = bt_io_now(io) >= start + 30 * MS) {
        bt_io_wait(io, BT_IO_FOREVER); // something else may end it early
    }
    if (thread) {
        pthread_join(t, NULL);
    }
    unsigned waits = 0;
    start = bt_io_now(io);
    while (bt_io_now(io) < start + 20 * MS) {
        packet_serve(&r->end[from]); // a port that was not read to its end does not let a driver sleep
        bt_io_wait(io, start + 20 * MS);
        waits++;
    }
    assert_true(waits < 1000); // a wake ended one wait, not all that follow
}

// Packets in every place they can be when an end closes: unread, unsent, waiting for a neighbour.
static void closing_frees(struct packet_rig *r, unsigned from)
{
    struct packet_end *a = &r->end[from];
    struct packet_end *b = &r->end[1 - from];
    struct bt_txq q;
    bt_txq_init(&q);
    for (uint32_t i = 0; i < 50; i++) {
        packet_queue(a, &q, i & 1, b->port[i & 1], i, 40);
    }
    packet_queue(a, &q, 0, a->nobody, 1, 40);
    packet_send(a, &q);
    bt_io_wait(b->io, bt_io_now(b->io) + 5 * MS); // some may be in an inbox now
}

static void both_ways(void (*one)(struct packet_rig *r, unsigned from), bool v6)
{
    struct packet_rig *r = rig_open(v6);
    left_out = 0;
    packet_acquaint(r);
    one(r, 0);
    one(r, 1);
    rig_close(r);
    if (left_out == PACKET_ENDS) {
        skip();
    }
}

#define CASE(name, body)                                                                                               \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        both_ways(body, false);                                                                                        \
    }                                                                                                                  \
    static void name##_v6(void **state)                                                                                \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        if (!driver->has_v6) {                                                                                         \
            skip();                                                                                                    \
        }                                                                                                              \
        both_ways(body, true);                                                                                         \
    }

CASE(packets_arrive_whole_in_order_and_attributed, exchange)
CASE(streams_of_batches, stream)
CASE(r118_one_port_before_the_other, port_by_port)
CASE(r13_largest_datagram_and_one_byte_more, sizes)
CASE(unreachable_peers_are_named, unreachable)
CASE(packets_turned_round_in_their_buffer, turned_round)
CASE(broken_datagrams_are_counted, broken_ones_are_counted)
CASE(m24_bursts_beyond_the_pool, beyond_the_pool)
CASE(refused_packets_are_counted, refused_ones_are_counted)
CASE(waiting_ends_in_time_or_when_woken, waiting_ends)
CASE(closing_frees_everything, closing_frees)
CASE(r4_transparent_packets_keep_the_clients_address, transparent)

int packet_suite_run(const struct packet_driver *d)
{
    char why[256];
    driver = d;
    if (!d->begin(why, sizeof why)) {
        print_message("%s: left out: %s\n", d->name, why);
        return 77; // meson: skipped
    }
#define BOTH(name) cmocka_unit_test(name), cmocka_unit_test(name##_v6)
    const struct CMUnitTest tests[] = {
        BOTH(packets_arrive_whole_in_order_and_attributed),
        BOTH(streams_of_batches),
        BOTH(r118_one_port_before_the_other),
        BOTH(r13_largest_datagram_and_one_byte_more),
        BOTH(unreachable_peers_are_named),
        BOTH(packets_turned_round_in_their_buffer),
        BOTH(broken_datagrams_are_counted),
        BOTH(m24_bursts_beyond_the_pool),
        BOTH(refused_packets_are_counted),
        BOTH(waiting_ends_in_time_or_when_woken),
        BOTH(closing_frees_everything),
        BOTH(r4_transparent_packets_keep_the_clients_address),
    };
    int failed = cmocka_run_group_tests_name(d->name, tests, NULL, NULL);
    d->end();
    return failed;
}
