// SPDX-License-Identifier: Apache-2.0
// An endpoint of the simulated network by itself: what it takes, refuses, keeps and counts.
#include "unit.h"

#include "counter_names.h"
#include "io/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PACKETS = 8, MTU = 1000 };

static struct {
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    void *mem;
    struct bt_io_sim_net net;
    struct bt_io_sim node;
    uint64_t now, passed_to;
    unsigned passed, endpoint;
    struct bt_txq sent;
} bed;

static void send(void *ctx, uint32_t endpoint, struct bt_pkt *pkt)
{
    assert_ptr_equal(ctx, &bed);
    bed.endpoint = endpoint;
    bt_txq_push(&bed.sent, pkt);
}

static void pass(void *ctx, uint32_t endpoint, uint64_t until_ns)
{
    assert_ptr_equal(ctx, &bed);
    bed.endpoint = endpoint;
    bed.passed++;
    bed.passed_to = until_ns;
}

static const struct bt_addr src = {.ip = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 9}, .port = 9};

static struct bt_io *open_with(struct bt_addr one, struct bt_addr two)
{
    const struct bt_addr ports[BT_IO_SIM_PORTS] = {one, two};
    memset(&bed, 0, sizeof bed);
    bed.mem = malloc(bt_pool_fixed_bytes(PACKETS));
    bed.pool = bt_pool_fixed_init(&bed.fixed, bed.mem, PACKETS);
    bt_txq_init(&bed.sent);
    bed.now = 77;
    bed.net =
        (struct bt_io_sim_net){.send = send, .ctx = &bed, .now = &bed.now, .pool = bed.pool, .mtu = MTU, .pass = pass};
    bt_io_sim_init(&bed.node, &bed.net, 5, ports);
    return &bed.node.io;
}

static struct bt_io *open_node(void)
{
    return open_with(bt_addr_v4u(0x0a000001, 7000), bt_addr_v4u(0x0a000001, 7001));
}

static void close_node(void)
{
    bt_pool_put_chain(bed.pool, bed.sent.head);
    bed.node.io.ops->close(&bed.node.io);
    assert_int_equal(bed.fixed.left, PACKETS);
    assert_false(bt_io_sim_ready(&bed.node));
    free(bed.mem);
}

static bool deliver(uint16_t port, uint8_t byte)
{
    struct bt_addr dst = bt_addr_v4u(0x0a000001, port);
    return bt_io_sim_deliver(&bed.node, &src, &dst, &byte, 1);
}

// What arrives waits for its port, in order; no more is given than asked for.
static void what_arrives_waits_for_its_port(void **state)
{
    struct bt_pkt *pkts[PACKETS];
    (void)state;
    struct bt_io *io = open_node();
    assert_true(deliver(7001, 'a') && deliver(7000, 'b') && deliver(7001, 'c') && deliver(7000, 'd'));
    assert_false(deliver(7002, 'x'));
    assert_int_equal(bt_io_rx(io, 1, pkts, 1), 1);
    assert_int_equal(pkts[0]->data[0], 'a');
    assert_int_equal(pkts[0]->local, 1);
    assert_int_equal(pkts[0]->len, 1);
    assert_int_equal(pkts[0]->t_rx_ns, 77);
    assert_true(bt_addr_eq(&pkts[0]->src, &src) && pkts[0]->dst.port == 7001);
    assert_int_equal(bt_io_rx(io, 2, pkts + 1, PACKETS), 0); // there is no such port
    assert_int_equal(bt_io_rx(io, BT_IO_ANY, pkts + 1, 2), 2);
    assert_true(pkts[1]->data[0] == 'b' && pkts[2]->data[0] == 'd');
    assert_int_equal(bt_io_rx(io, 0, pkts + 3, PACKETS), 0);
    assert_int_equal(bt_io_rx(io, BT_IO_ANY, pkts + 3, PACKETS), 1);
    for (unsigned i = 0; i < 4; i++) {
        bt_pool_put(bed.pool, pkts[i]);
    }
    assert_int_equal(bed.node.counter[BT_IO_SIM_RX_PACKETS], 4);
    assert_true(deliver(7000, 'e')); // not read: the end frees it
    close_node();
}

static void what_finds_no_place_is_counted(void **state)
{
    static uint8_t large[BT_PKT_BUFFER + 1];
    struct bt_addr dst = bt_addr_v4u(0x0a000001, 7000);
    (void)state;
    (void)open_node();
    assert_true(bt_io_sim_deliver(&bed.node, &src, &dst, large, sizeof large));
    assert_int_equal(bed.node.counter[BT_IO_SIM_RX_TOO_LONG], 1);
    assert_int_equal(bed.fixed.left, PACKETS);
    for (unsigned i = 0; i < PACKETS; i++) {
        assert_true(bt_io_sim_deliver(&bed.node, &src, &dst, NULL, 0));
    }
    assert_true(deliver(7000, 'x'));
    assert_int_equal(bed.node.counter[BT_IO_SIM_RX_NO_BUFFER], 1);
    assert_int_equal(bed.node.counter[BT_IO_SIM_RX_TOO_LONG], 1);
    assert_int_equal(bed.node.counter[BT_IO_SIM_RX_PACKETS], PACKETS);
    close_node();
}

static struct bt_pkt *packet(uint32_t len, uint16_t local, struct bt_addr dst)
{
    struct bt_pkt *p = bt_pool_get(bed.pool);
    static const uint8_t bytes[MTU];
    memcpy(bt_pkt_append(p, len), bytes, len);
    p->local = local;
    p->dst = dst;
    return p;
}

// A packet as long as the link takes leaves; one byte more, another family, or a port that is none is refused.
static void what_cannot_be_sent_is_refused(void **state)
{
    struct bt_addr four = bt_addr_v4u(0x0a000002, 80), six = {.ip = {0xfd, [15] = 1}, .port = 80};
    (void)state;
    for (unsigned v6 = 0; v6 < 2; v6++) {
        uint32_t heads = v6 ? 48 : 28;
        struct bt_txq q;
        struct bt_io *io = v6 ? open_with(six, (struct bt_addr){0}) : open_with(four, (struct bt_addr){0});
        bt_txq_init(&q);
        bt_txq_push(&q, packet(MTU - heads, 0, v6 ? six : four));
        bt_txq_push(&q, packet(MTU - heads + 1, 0, v6 ? six : four));
        bt_txq_push(&q, packet(1, 0, v6 ? four : six));
        bt_txq_push(&q, packet(1, 1, v6 ? six : four)); // it has one port
        bt_txq_push(&q, packet(1, 2, v6 ? six : four));
        bt_txq_push(&q, packet(2, 0, v6 ? six : four));
        bt_io_tx(io, &q);
        assert_int_equal(q.n, 0);
        assert_int_equal(bed.sent.n, 2);
        assert_int_equal(bed.sent.head->len, MTU - heads);
        assert_true(bt_addr_eq(&bed.sent.head->src, v6 ? &six : &four));
        assert_int_equal(bed.endpoint, 5);
        assert_int_equal(bed.node.counter[BT_IO_SIM_TX_PACKETS], 2);
        assert_int_equal(bed.node.counter[BT_IO_SIM_TX_BYTES], MTU - heads + 2);
        assert_int_equal(bed.node.counter[BT_IO_SIM_TX_TOO_LONG], 1);
        assert_int_equal(bed.node.counter[BT_IO_SIM_TX_BAD_ADDRESS], 3);
        assert_int_equal(bed.fixed.left, PACKETS - 2);
        bed.net.mtu = 0; // any packet passes
        bt_txq_push(&q, packet(MTU, 0, v6 ? six : four));
        bt_io_tx(io, &q);
        assert_int_equal(bed.sent.n, 3);
        close_node();
    }
}

// A wait lets time pass to its end, unless there is something already: a packet, news, or a bell that was rung.
static void a_wait_ends_at_once_where_something_is(void **state)
{
    struct bt_io_event news = {.error = EHOSTUNREACH};
    struct bt_pkt *p;
    (void)state;
    struct bt_io *io = open_node();
    assert_int_equal(bt_io_now(io), 77);
    bt_io_wait(io, 500);
    assert_true(bed.passed == 1 && bed.passed_to == 500 && bed.endpoint == 5);
    bt_io_wake(io);
    assert_true(bt_io_sim_ready(&bed.node));
    bt_io_wait(io, 500);
    assert_int_equal(bed.passed_to, 77);
    bt_io_wait(io, 500); // the bell was heard
    assert_int_equal(bed.passed_to, 500);
    bt_io_sim_tell(&bed.node, &news);
    bt_io_wait(io, 500);
    assert_int_equal(bed.passed_to, 77);
    assert_int_equal(io->ops->events(io, &news, 1), 1);
    for (uint16_t port = 7000; port <= 7001; port++) {
        bt_io_wait(io, 500);
        assert_int_equal(bed.passed_to, 500);
        assert_true(deliver(port, 'x'));
        bt_io_wait(io, 500);
        assert_int_equal(bed.passed_to, 77);
        assert_int_equal(bt_io_rx(io, BT_IO_ANY, &p, 1), 1);
        bt_pool_put(bed.pool, p);
    }
    bed.net.pass = NULL; // time passes between events only
    bt_io_wake(io);
    bt_io_wait(io, 500);
    assert_false(bt_io_sim_ready(&bed.node));
    close_node();
}

// News is handed out in order, a part at a time; beyond so much it is only counted.
static void news_is_kept_in_order(void **state)
{
    struct bt_io_event ev[BT_IO_SIM_EVENTS + 1];
    (void)state;
    struct bt_io *io = open_node();
    for (uint16_t i = 0; i <= BT_IO_SIM_EVENTS; i++) {
        bt_io_sim_tell(&bed.node, &(struct bt_io_event){.local = i, .error = ECONNREFUSED});
    }
    assert_int_equal(bed.node.counter[BT_IO_SIM_UNREACHABLE], BT_IO_SIM_EVENTS + 1);
    assert_int_equal(io->ops->events(io, ev, 1), 1);
    assert_int_equal(ev[0].local, 0);
    assert_int_equal(io->ops->events(io, ev, BT_IO_SIM_EVENTS + 1), BT_IO_SIM_EVENTS - 1);
    for (uint16_t i = 1; i < BT_IO_SIM_EVENTS; i++) {
        assert_true(ev[i - 1].local == i && ev[i - 1].error == ECONNREFUSED);
    }
    assert_int_equal(io->ops->events(io, ev, 1), 0);
    close_node();
}

// What a driver has not is not asked for: quiet ports and timers of its own; and nothing to send is not sent.
static void what_a_driver_has_not_is_not_asked_for(void **state)
{
    struct bt_txq q;
    (void)state;
    struct bt_io *io = open_node();
    struct bt_io_ops without = *io->ops;
    bt_io_quiet(io, 0, true);
    assert_int_equal(bt_io_next(io), UINT64_MAX);
    without.tx = NULL;
    io->ops = &without;
    bt_txq_init(&q);
    bt_io_tx(io, &q);
    close_node();
}

static void counters_and_ports_are_told(void **state)
{
    const struct bt_counter_desc *desc;
    unsigned n;
    (void)state;
    struct bt_io *io = open_node();
    assert_int_equal(io->ops->local(io, 0).port, 7000);
    assert_int_equal(io->ops->local(io, 1).port, 7001);
    assert_ptr_equal(io->ops->counters(io, &desc, &n), bed.node.counter);
    assert_int_equal(n, BT_IO_SIM_COUNTERS);
    assert_counter_names(desc, n,
                         "io_tx_packets_total\n"
                         "io_tx_bytes_total\n"
                         "io_rx_packets_total\n"
                         "io_rx_dropped_total{reason=too_long}\n"
                         "io_rx_dropped_total{reason=no_buffer}\n"
                         "io_tx_dropped_total{reason=too_long}\n"
                         "io_tx_dropped_total{reason=bad_address}\n"
                         "io_unreachable_total\n");
    close_node();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_arrives_waits_for_its_port), cmocka_unit_test(what_finds_no_place_is_counted),
        cmocka_unit_test(what_cannot_be_sent_is_refused),  cmocka_unit_test(a_wait_ends_at_once_where_something_is),
        cmocka_unit_test(news_is_kept_in_order),           cmocka_unit_test(what_a_driver_has_not_is_not_asked_for),
        cmocka_unit_test(counters_and_ports_are_told),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
