// SPDX-License-Identifier: Apache-2.0
// every M-case that a server decides, against tables that hold a pair in each state; and packets that come before
// those they belong to.
#include "hostile.h"
#include "unit.h"

enum { RECEIVING = 7, EXECUTING = 8, DONE = 9, KEPT = 10 };

static void no_app(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct lab *l = arg;
    static uint8_t big[9000];
    (void)txq;
    if (rq->req_id == EXECUTING) {
        l->waiting[l->waitings] = rq->handle;
        l->waiting_body[l->waitings++] = NULL;
        return;
    }
    struct iovec iov = {big, rq->req_id == KEPT ? sizeof big : 1};
    assert_int_equal(bt_server_reply(l->server, l->now, rq->handle, &iov, 1, txq), 0);
}

static void server_with_a_pair_in_each_state(void)
{
    lab_init(&lab, 1);
    lab.path = LAB_ENCAPSULATED;
    lab.scfg.max_held = 1;
    lab_start(&lab);
    // The lab's application answers by size; here the id decides.
    lab.scfg.ops.on_request = no_app;
    struct bt_server_router r = {.request = lab.raddr, .feedback = lab.rfeedback};
    struct bt_txq txq;
    bt_txq_init(&txq);
    lab.server = bt_server_init(&lab.scfg, lab.server_mem, lab.server_bytes, lab.now);
    bt_server_set_routers(lab.server, lab.now, &r, 1, &txq);
    lab_transmit(&lab, &txq);
    packet(BT_REQUEST, 0, F | X, RECEIVING, 4, 14, 0x11);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    packet(BT_REQUEST, 0, X, RECEIVING, 1, 1464, 0x22);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    packet(BT_REQUEST, 0, F | L | X, EXECUTING, 1, 14, 0x11);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    packet(BT_REQUEST, 0, F | L | X, DONE, 1, 14, 0x11);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    packet(BT_REQUEST, 0, F | L | X, KEPT, 1, 14, 0x11);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    assert_int_equal(bt_server_backlog(lab.server), 2);
    lab_flush(&lab);
}

static void r54_server_headers(void **state)
{
    (void)state;
    server_with_a_pair_in_each_state();
    struct side d = server_side();
    malformed_everywhere(&d, &lab.caddr, BT_REQUEST);
    bad_sources(&d, &lab.saddr);
    packet(BT_REPLY, 0, F | L, 15, 1, 4, 0);
    expect(&d, "REPLY at a server", &lab.caddr, BT_M5);
    packet(BT_REQUEST, 0, F | L, 15, 1, 1465, 0);
    expect(&d, "longer than the MTU", &lab.caddr, BT_M14);
    packet(BT_REQUEST, 9, 0, RECEIVING, 2, 1464, 0);
    expect(&d, "REQn of unknown policy", &lab.caddr, BT_M6);
    packet(BT_REQUEST, 9, F | L, 15, 1, 4, 0);
    expect(&d, "policy 9", &lab.caddr, BT_M6);
    packet(BT_REQUEST, 0, F, 15, 60000, 14, 0);
    expect(&d, "message above the maximum", &lab.caddr, BT_M14);
    hex("cc0c00c0000f000180040000");
    expect(&d, "critical option", &lab.caddr, BT_M_OPT_CRITICAL);
    hex("cc1000c0000f00010108012c0a000001");
    expect(&d, "forwarded-for from a stranger", &lab.caddr, BT_M_FORWARDER);
    hex("cc1000c0000f00010108012ce0000001");
    expect(&d, "forwarded multicast identity", &lab.raddr, BT_M23);
    hex("cc1000c0000f0001010800000a000001");
    expect(&d, "forwarded port 0", &lab.raddr, BT_M23);
    lab_end(&lab);
}

static void r54_server_messages(void **state)
{
    (void)state;
    server_with_a_pair_in_each_state();
    struct side d = server_side();
    packet(BT_REQUEST, 0, L, RECEIVING, 4, 9, 0);
    expect(&d, "index = count", &lab.caddr, BT_M9);
    packet(BT_REQUEST, 0, 0, RECEIVING, 65535, 1464, 0);
    expect(&d, "index far beyond", &lab.caddr, BT_M9);
    packet(BT_REQUEST, 0, L, RECEIVING, 2, 1464, 0);
    expect(&d, "L too early", &lab.caddr, BT_M10);
    packet(BT_REQUEST, 0, 0, RECEIVING, 3, 1464, 0);
    expect(&d, "L missing", &lab.caddr, BT_M10);
    packet(BT_REQUEST, 0, F, RECEIVING, 5, 14, 0x11);
    expect(&d, "second F, other count", &lab.caddr, BT_M11);
    packet(BT_REQUEST, 1, F, RECEIVING, 4, 14, 0x11);
    expect(&d, "second F, other policy", &lab.caddr, BT_M11);
    packet(BT_REQUEST, 0, F, RECEIVING, 4, 14, 0x12);
    expect(&d, "second F, other bytes", &lab.caddr, BT_M11);
    packet(BT_REQUEST, 0, F | L, EXECUTING, 1, 13, 0x11);
    expect(&d, "second F of an executing pair", &lab.caddr, BT_M11);
    packet(BT_REQUEST, 0, 0, RECEIVING, 1, 1464, 0x23);
    expect(&d, "duplicate index, other bytes", &lab.caddr, BT_M12);
    packet(BT_REQUEST, 0, 0, RECEIVING, 2, 1463, 0);
    expect(&d, "short in the middle", &lab.caddr, BT_M13);
    packet(BT_REQUEST, 0, L, EXECUTING, 1, 9, 0);
    expect(&d, "REQn of an executing pair", &lab.caddr, BT_M15);
    packet(BT_REQUEST, 0, L, DONE, 1, 9, 0);
    expect(&d, "REQn of a finished pair", &lab.caddr, BT_M15);
    packet(BT_REQUEST, 0, F, RECEIVING, 4, 14, 0x11);
    expect(&d, "F again", &lab.caddr, BT_SERVER_DUPLICATE);
    packet(BT_REQUEST, 0, 0, RECEIVING, 1, 1464, 0x22);
    expect(&d, "REQ1 again", &lab.caddr, BT_SERVER_DUPLICATE);
    packet(BT_REQUEST, 0, F | L, DONE, 1, 14, 0x11);
    expect(&d, "F of a finished pair", &lab.caddr, BT_SERVER_DUPLICATE);
    packet(BT_REQUEST, 0, F | L, KEPT, 1, 14, 0x11);
    expect(&d, "F of a kept pair", &lab.caddr, BT_SERVER_DUPLICATE);
    lab_end(&lab);
}

static void r54_server_sacks(void **state)
{
    (void)state;
    server_with_a_pair_in_each_state();
    struct side d = server_side();
    struct bt_addr other = bt_addr_v4u(0x0a000063, 40000);
    static const struct {
        unsigned id, what, base, nbits;
        size_t bytes;
        unsigned want;
    } cases[] = {
        {99, 1, 0, 1, 1, BT_M20},        {DONE, 1, 0, 1, 1, BT_M20}, {EXECUTING, 1, 0, 1, 1, BT_M20},
        {RECEIVING, 1, 0, 1, 1, BT_M20}, {KEPT, 0, 0, 1, 1, BT_M20}, {KEPT, 2, 0, 1, 1, BT_M20},
        {KEPT, 1, 0, 0, 0, BT_M20},      {KEPT, 1, 0, 8, 1, BT_M20}, {KEPT, 1, 7, 1, 1, BT_M20},
        {KEPT, 1, 0, 1025, 129, BT_M20}, {KEPT, 1, 0, 7, 0, BT_M20}, {KEPT, 1, 0, 7, 2, BT_M25},
        {KEPT, 1, 65535, 2, 1, BT_M20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sack(cases[i].id, cases[i].what, cases[i].base, cases[i].nbits, cases[i].bytes);
        expect(&d, "SACK", &lab.caddr, cases[i].want);
    }
    sack(KEPT, 1, 0, 1, 1);
    expect(&d, "SACK from another client", &other, BT_M20);
    for (int i = 0; i < 8; i++) { // what the protocol itself could ask for, and some
        lab_inject_server(&lab, raw, raw_len, &lab.caddr);
        assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_SACK_RECEIVED], i + 1);
    }
    expect(&d, "SACKs above the bound", &lab.caddr, BT_M20);
    lab_end(&lab);
}

static void m16_m15_early_packets_are_held_within_bounds(void **state)
{
    (void)state;
    server_with_a_pair_in_each_state();
    struct side d = server_side();
    struct bt_addr other = bt_addr_v4u(0x0a000063, 40000);
    packet(BT_REQUEST, 0, 0, RECEIVING, 2, 1464, 0x33); // somebody else's pair of that id
    lab_inject_server(&lab, raw, raw_len, &other);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_HELD], 1);
    expect(&d, "holding list full", &other, BT_M16);
    uint32_t left = lab.pool.left;
    lab_run(&lab, lab.now + 12 * MS); // past one RTO and the next period
    assert_int_equal(bt_server_counters(lab.server)[BT_M15], 1);
    assert_true(lab.pool.left > left);
    lab_end(&lab);
}

static uint64_t packets_counted(void)
{
    uint64_t sum = 0;
    for (int m = 0; m < BT_M_COUNT; m++) {
        sum += bt_server_counters(lab.server)[m];
    }
    return sum;
}

// K-18: what waits for its first packet is counted when it is known what became of it, once.
static void k18_held_packets_are_counted_once(void **state)
{
    (void)state;
    lab_init(&lab, 5);
    lab_start(&lab);
    struct bt_addr other = bt_addr_v4u(0x0a000063, 40000);
    packet(BT_REQUEST, 0, L | X, 21, 1, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr); // used
    lab_inject_server(&lab, raw, raw_len, &other);     // too old in the end
    assert_int_equal(packets_counted(), 0);
    packet(BT_REQUEST, 0, L | X, 21, 4, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr); // beyond the count
    packet(BT_REQUEST, 0, F | X, 21, 2, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    assert_int_equal(packets_counted(), 3);
    assert_int_equal(bt_server_counters(lab.server)[BT_M_OK], 2);
    lab_run(&lab, lab.now + 12 * MS);
    assert_int_equal(packets_counted(), 4);
    assert_int_equal(bt_server_counters(lab.server)[BT_M15], 2);
    lab_end(&lab);
}

// REQn that overtook its REQ0 (a retransmission after the pair was lost
// here, say) waits and is used.
static void r21_early_packets_are_used_when_their_first_arrives(void **state)
{
    (void)state;
    lab_init(&lab, 5);
    lab_start(&lab);
    struct bt_addr other = bt_addr_v4u(0x0a000063, 40000);
    packet(BT_REQUEST, 0, L | X, 21, 1, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &other); // somebody else's, before and after
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    lab_inject_server(&lab, raw, raw_len, &other);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_HELD], 3);
    assert_int_equal(lab.executed, 0);
    packet(BT_REQUEST, 0, F | X, 21, 2, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    assert_int_equal(lab.executed, 1);
    assert_int_equal(lab.last_request.msg.len, 6);
    lab_inject_server(&lab, raw, raw_len, &other);
    assert_int_equal(lab.executed, 2);
    assert_int_equal(bt_server_counters(lab.server)[BT_M15], 1); // its copy found the pair complete
    lab_end(&lab);
}

// Some are too old and go, from the oldest; those behind them are used, and so is what comes when none was left.
static void r21_old_early_packets_go_and_young_ones_stay(void **state)
{
    (void)state;
    lab_init(&lab, 7);
    lab_start(&lab);
    struct bt_addr other = bt_addr_v4u(0x0a000063, 40000);
    uint64_t rto = lab.scfg.timers.rto_ns;
    for (unsigned id = 31; id < 34; id++) {
        packet(BT_REQUEST, 0, L | X, id, 1, 3, 0);
        lab_inject_server(&lab, raw, raw_len, &lab.caddr);
        lab.now += rto / 2;
    }
    packet(BT_REQUEST, 0, L | X, 34, 1, 3, 0); // 31 is an RTO and a half old, 32 an RTO
    lab_inject_server(&lab, raw, raw_len, &other);
    assert_int_equal(bt_server_counters(lab.server)[BT_M15], 2);
    packet(BT_REQUEST, 0, F | X, 33, 2, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    assert_int_equal(lab.executed, 1);
    packet(BT_REQUEST, 0, F | X, 34, 2, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &other);
    assert_int_equal(lab.executed, 2);
    packet(BT_REQUEST, 0, L | X, 35, 1, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    lab.now += rto;
    packet(BT_REQUEST, 0, L | X, 36, 1, 3, 0); // the only one before it goes
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    assert_int_equal(bt_server_counters(lab.server)[BT_M15], 3);
    packet(BT_REQUEST, 0, F | X, 36, 2, 3, 0);
    lab_inject_server(&lab, raw, raw_len, &lab.caddr);
    assert_int_equal(lab.executed, 3);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_HELD], 6);
    lab_end(&lab);
}

// Reply packets that came before F and contradict its count go when it comes;
// the message completes from honest ones.
static void m9_m10_early_reply_packets_are_checked_against_the_count(void **state)
{
    (void)state;
    lab_init(&lab, 6);
    lab.spy = spy_id;
    lab_start(&lab);
    uint16_t a = start_call(8, SEC);
    uint32_t left = lab.pool.left;
    packet(BT_REPLY, 0, X, a, 5, 1464, 0); // beyond the count
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, L | X, a, 1, 9, 0); // L in the middle
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, X, a, 2, 1464, 0); // no L at the end
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, F | X, a, 3, 1464, 0);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    assert_int_equal(bt_client_counters(lab.client)[BT_M9], 1);
    assert_int_equal(bt_client_counters(lab.client)[BT_M10], 2);
    assert_int_equal(lab.pool.left, left - 1);
    packet(BT_REPLY, 0, X, a, 1, 1464, 0);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    packet(BT_REPLY, 0, L | X, a, 2, 9, 0);
    lab_inject_client(&lab, raw, raw_len, &lab.saddr);
    assert_int_equal(lab.call[0].end, LAB_SUCCESS);
    assert_int_equal(lab.call[0].reply_len, 2 * 1464 + 9);
    lab_end(&lab);
}

static void m24_full_tables_answer_drop_and_return_the_credit(void **state)
{
    (void)state;
    lab_init(&lab, 2);
    lab.path = LAB_ENCAPSULATED;
    lab.scfg.max_pending = 3;
    lab.scfg.max_assemblies = 1;
    lab.hold = true;
    lab_start(&lab);
    lab_call(&lab, 5000, 8, SEC); // takes the only assembly
    lab.faults.lose[LAB_REQN] = 1000;
    lab_run(&lab, lab.now + MS / 2);
    lab_call(&lab, 5000, 8, SEC);
    for (int i = 0; i < 4; i++) {
        lab_call(&lab, 100, 8, SEC);
    }
    lab_run(&lab, lab.now + MS);
    int dropped = 0;
    for (int i = 0; i < lab.calls; i++) {
        dropped += lab.call[i].end == LAB_ERROR && lab.call[i].code == BT_RPC_DROPPED;
    }
    assert_int_equal(dropped, 3); // both messages, of which the rest never came, one of the four short ones
    assert_int_equal(bt_server_counters(lab.server)[BT_M24], 1);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DROP_TABLE], 1);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DISPLACED], 2);
    struct bt_server_router_state st;
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_int_equal(st.received - st.served, 3); // what is really inside
    lab_end(&lab);
}

// Nobody makes room who is being executed: a message is refused as a short request is.
static void m24_full_table_refuses_a_message(void **state)
{
    (void)state;
    lab_init(&lab, 3);
    lab.path = LAB_ENCAPSULATED;
    lab.scfg.max_pending = 2;
    lab.hold = true;
    lab_start(&lab);
    for (int i = 0; i < 3; i++) {
        lab_call(&lab, i < 2 ? 100 : 5000, 8, SEC);
        lab_run(&lab, lab.now + MS);
    }
    assert_int_equal(lab.executed, 2);
    assert_int_equal(lab.call[2].code, BT_RPC_DROPPED);
    assert_int_equal(bt_server_counters(lab.server)[BT_M24], 1);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DROP_TABLE], 1);
    assert_int_equal(lab.sent[LAB_REQRDY], 0);
    struct bt_server_router_state st;
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_int_equal(st.received, 3);
    assert_int_equal(st.served, 1);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r54_server_headers),
        cmocka_unit_test(r54_server_messages),
        cmocka_unit_test(r54_server_sacks),
        cmocka_unit_test(k18_held_packets_are_counted_once),
        cmocka_unit_test(m16_m15_early_packets_are_held_within_bounds),
        cmocka_unit_test(r21_early_packets_are_used_when_their_first_arrives),
        cmocka_unit_test(r21_old_early_packets_go_and_young_ones_stay),
        cmocka_unit_test(m9_m10_early_reply_packets_are_checked_against_the_count),
        cmocka_unit_test(m24_full_tables_answer_drop_and_return_the_credit),
        cmocka_unit_test(m24_full_table_refuses_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, free_snapshot);
}
