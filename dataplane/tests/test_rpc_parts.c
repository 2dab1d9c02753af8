// SPDX-License-Identifier: Apache-2.0
// What both ends are made of: profiles, ports, messages as chains of packets and how they are cut.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/msg.h"
#include "rpc/port.h"
#include "rpc/profile.h"

#define MS UINT64_C(1000000)

static struct bt_pool_fixed fixed;
static void *slab;

static int setup(void **state)
{
    (void)state;
    slab = aligned_alloc(64, (bt_pool_fixed_bytes(4) + 63) / 64 * 64);
    bt_pool_fixed_init(&fixed, slab, 4);
    return slab == NULL;
}

static int teardown(void **state)
{
    (void)state;
    free(slab);
    return 0;
}

static void r19_timers_of_the_profiles(void **state)
{
    (void)state;
    static const struct {
        enum bt_device device;
        uint64_t rto, period;
    } cases[] = {{BT_DEVICE_SRIOV, 2 * MS, 10 * MS},
                 {BT_DEVICE_AFXDP, 100 * MS, 100 * MS},
                 {BT_DEVICE_KERNEL, 100 * MS, 100 * MS}};
    for (unsigned i = 0; i < 3; i++) {
        struct bt_rpc_timers t = bt_rpc_timers_for(cases[i].device);
        assert_int_equal(t.rto_ns, cases[i].rto);
        assert_int_equal(t.patience_ns, cases[i].rto / 20);
        assert_int_equal(t.gc_ns, 4 * cases[i].rto);
        assert_int_equal(t.quarantine_ns, 8 * cases[i].rto);
        assert_int_equal(t.feedback_period_ns, cases[i].period);
        assert_int_equal(t.router_heard_ns, 1000 * MS);
        assert_int_equal(t.burst_gap_ns, MS / 10);
        assert_int_equal(t.burst, 64);
        assert_int_equal(t.sack_rounds, 3);
        assert_true(bt_rpc_timers_valid(&t));
    }
}

static void r19_timers_that_could_not_end_are_refused(void **state)
{
    (void)state;
    struct bt_rpc_timers t = bt_rpc_timers_for(BT_DEVICE_SRIOV);
    uint64_t *const times[] = {&t.rto_ns,          &t.patience_ns, &t.gc_ns, &t.quarantine_ns, &t.feedback_period_ns,
                               &t.router_heard_ns, &t.burst_gap_ns};
    for (unsigned i = 0; i < sizeof times / sizeof times[0]; i++) {
        uint64_t was = *times[i];
        *times[i] = 0;
        assert_false(bt_rpc_timers_valid(&t));
        *times[i] = 1;
        assert_true(bt_rpc_timers_valid(&t));
        *times[i] = 3600 * 1000 * MS;
        assert_true(bt_rpc_timers_valid(&t));
        ++*times[i];
        assert_false(bt_rpc_timers_valid(&t));
        *times[i] = was;
    }
    t.burst = 0;
    assert_false(bt_rpc_timers_valid(&t));
    t.burst = 1;
    t.sack_rounds = 15;
    assert_true(bt_rpc_timers_valid(&t));
    t.sack_rounds = 16;
    assert_false(bt_rpc_timers_valid(&t));
}

static const struct bt_addr here = {.ip = {0xfd, [15] = 1}, .port = 8000};

static bool port_with(struct bt_pool *pool, uint32_t mtu, uint32_t max_message, struct bt_port *p)
{
    return bt_port_init(p, pool, &here, 5, (uint16_t)mtu, max_message);
}

static void r9_r13_a_port_s_bounds(void **state)
{
    (void)state;
    struct bt_port p;
    const uint32_t largest = BT_PKT_BUFFER - BT_PKT_HEADROOM;
    assert_false(port_with(NULL, 1500, 1 << 20, &p));
    assert_false(port_with(&fixed.pool, 575, 1 << 20, &p));
    assert_true(port_with(&fixed.pool, 576, 1 << 20, &p));
    assert_true(port_with(&fixed.pool, largest, 1 << 20, &p));
    assert_false(port_with(&fixed.pool, largest + 1, 1 << 20, &p));
    assert_false(port_with(&fixed.pool, 1500, 0, &p));
    assert_true(port_with(&fixed.pool, 1500, 1, &p));
    assert_int_equal(p.max_packets, 2);
    assert_false(port_with(&fixed.pool, 1500, (1 << 26) + 1, &p));
    assert_true(port_with(&fixed.pool, 576, 1 << 26, &p));
    assert_int_equal(p.max_packets, 65535); // as many as a header can count
    assert_true(port_with(&fixed.pool, 1500, 1 << 20, &p));
    assert_int_equal(p.datagram_v4, 1472);
    assert_int_equal(p.datagram_v6, 1452);
    assert_int_equal(p.max_message, 1 << 20);
    assert_int_equal(p.max_packets, 2 + (1 << 20) / 1444);
}

static void packets_of_a_port_say_where_they_come_from(void **state)
{
    (void)state;
    struct bt_port p;
    struct bt_addr there = bt_addr_v4u(0x0a000001, 40000);
    struct bt_txq txq;
    struct bt_r2p2_hdr h;
    bt_txq_init(&txq);
    assert_true(port_with(&fixed.pool, 1500, 1 << 20, &p));
    bt_r2p2_start(&h, BT_DROP, 0, true);
    h.last = true;
    h.count_or_index = 1;
    assert_true(bt_port_send(&p, &there, &h, "DROP", 4, &txq));
    assert_int_equal(txq.n, 1);
    struct bt_pkt *pkt = bt_txq_pop(&txq);
    assert_true(bt_addr_eq(&pkt->src, &here) && bt_addr_eq(&pkt->dst, &there));
    assert_int_equal(pkt->local, 5);
    assert_int_equal(pkt->len, BT_R2P2_HEADER + 4);
    assert_memory_equal(pkt->data + BT_R2P2_HEADER, "DROP", 4);
    bt_pool_put(&fixed.pool, pkt);
    // What does not fit leaves nothing behind, neither does an empty pool.
    static const uint8_t large[BT_PKT_BUFFER];
    assert_false(bt_port_send(&p, &there, &h, large, BT_PKT_BUFFER - BT_PKT_HEADROOM + 1, &txq));
    assert_int_equal(fixed.left, 4);
    struct bt_pkt *taken[4];
    for (unsigned i = 0; i < 4; i++) {
        taken[i] = bt_port_packet(&p, &there);
        assert_non_null(taken[i]);
    }
    assert_null(bt_port_packet(&p, &there));
    assert_false(bt_port_send(&p, &there, &h, "DROP", 4, &txq));
    assert_int_equal(txq.n, 0);
    for (unsigned i = 0; i < 4; i++) {
        bt_pool_put(&fixed.pool, taken[i]);
    }
}

// "abc", nothing, "defgh".
static struct bt_msg message(void)
{
    static const char *const pieces[] = {"abc", "", "defgh"};
    struct bt_msg m = {.len = 8, .packets = 3};
    struct bt_pkt **at = &m.head;
    for (unsigned i = 0; i < 3; i++) {
        struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
        uint32_t n = (uint32_t)strlen(pieces[i]);
        assert_non_null(pkt);
        if (n != 0) {
            memcpy(bt_pkt_append(pkt, n), pieces[i], n);
        }
        pkt->next = NULL;
        *at = pkt;
        at = &pkt->next;
    }
    return m;
}

static void r44_a_message_is_read_in_pieces_or_copied(void **state)
{
    (void)state;
    struct bt_msg m = message();
    struct iovec iov[3] = {{0}};
    assert_int_equal(bt_msg_iov(&m, iov, 3), 2); // the empty one is left out
    assert_int_equal(iov[0].iov_len, 3);
    assert_memory_equal(iov[0].iov_base, "abc", 3);
    assert_int_equal(iov[1].iov_len, 5);
    assert_memory_equal(iov[1].iov_base, "defgh", 5);
    assert_null(iov[2].iov_base);
    memset(iov, 0, sizeof iov);
    assert_int_equal(bt_msg_iov(&m, iov, 1), 2); // how many there are, not how many found room
    assert_int_equal(iov[0].iov_len, 3);
    assert_null(iov[1].iov_base);
    assert_int_equal(bt_msg_iov(&m, NULL, 0), 2);
    for (size_t n = 0; n <= 9; n++) {
        char copy[10] = "..........";
        size_t want = n < 8 ? n : 8;
        assert_int_equal(bt_msg_copy(&m, copy, n), want);
        assert_memory_equal(copy, "abcdefgh", want);
        assert_int_equal(copy[want], '.');
    }
    bt_msg_free(&m, &fixed.pool);
    assert_null(m.head);
    assert_int_equal(m.len | m.packets, 0);
    assert_int_equal(fixed.left, 4);
}

static void lengths_of_pieces_do_not_wrap(void **state)
{
    (void)state;
    struct iovec iov[3] = {{NULL, 5}, {NULL, 0}, {NULL, 7}};
    assert_int_equal(bt_iov_length(iov, 3), 12);
    assert_int_equal(bt_iov_length(iov, 0), 0);
    iov[1].iov_len = UINT32_MAX - 12;
    assert_int_equal(bt_iov_length(iov, 3), UINT32_MAX);
    iov[1].iov_len++;
    assert_int_equal(bt_iov_length(iov, 3), UINT32_MAX);
    iov[1].iov_len = SIZE_MAX;
    assert_int_equal(bt_iov_length(iov, 3), UINT32_MAX);
}

// Whichever way the pieces lie, packets of n bytes carry all of them in order.
static void pieces_are_taken_in_order(void **state)
{
    (void)state;
    char text[] = "abcdefghijklmnopqrstuvwxyz";
    for (uint32_t n = 1; n <= 26; n++) {
        struct iovec iov[4] = {{text, 1}, {text, 0}, {text + 1, 9}, {text + 10, 16}};
        struct bt_iov_cursor c = {.iov = iov, .left = 4};
        for (uint32_t at = 0; at < 26; at += n) {
            uint32_t some = 26 - at < n ? 26 - at : n;
            struct bt_pkt *pkt = bt_pool_get(&fixed.pool);
            bt_iov_take(&c, pkt, some);
            assert_int_equal(pkt->len, some);
            assert_memory_equal(pkt->data, text + at, some);
            bt_pool_put(&fixed.pool, pkt);
        }
        assert_int_equal(c.left, 0);
    }
}

static void expect_split(struct bt_split s, uint32_t count, uint32_t first, uint32_t rest)
{
    assert_int_equal(s.count, count);
    assert_int_equal(s.first, first);
    assert_int_equal(s.rest, rest);
}

static void r16_messages_are_cut_at_full_packets(void **state)
{
    (void)state;
    expect_split(bt_split_request(1432, 1432, 1464), 1, 1432, 1464);
    expect_split(bt_split_request(1433, 1432, 1464), 2, 14, 1464);
    expect_split(bt_split_request(14 + 1464, 1432, 1464), 2, 14, 1464);
    expect_split(bt_split_request(14 + 1465, 1432, 1464), 3, 14, 1464);
    expect_split(bt_split_reply(0, 1452, 1464), 1, 1452, 1464);
    expect_split(bt_split_reply(1452, 1452, 1464), 1, 1452, 1464);
    expect_split(bt_split_reply(1453, 1452, 1464), 2, 1452, 1464);
    expect_split(bt_split_reply(1452 + 1464, 1452, 1464), 2, 1452, 1464);
    expect_split(bt_split_reply(1452 + 1465, 1452, 1464), 3, 1452, 1464);
    assert_int_equal(bt_split_reply(10 + 65534 * 10, 10, 10).count, 65535);
    assert_int_equal(bt_split_reply(10 + 65534 * 10 + 1, 10, 10).count, 0); // more than a header can count
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r19_timers_of_the_profiles),
        cmocka_unit_test(r19_timers_that_could_not_end_are_refused),
        cmocka_unit_test(r9_r13_a_port_s_bounds),
        cmocka_unit_test(packets_of_a_port_say_where_they_come_from),
        cmocka_unit_test(r44_a_message_is_read_in_pieces_or_copied),
        cmocka_unit_test(lengths_of_pieces_do_not_wrap),
        cmocka_unit_test(pieces_are_taken_in_order),
        cmocka_unit_test(r16_messages_are_cut_at_full_packets),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
