// SPDX-License-Identifier: Apache-2.0
// Flow control on packets: who asks, who is told, and peers that know nothing of it (F-18, F-19, F-31 to F-33, F-40 to
// F-43, F-48, F-49). What is told is the test's; src/sched has tests of its own.
#include "unit.h"

#include <string.h>

#include "lab.h"
#include "rpc/fc_target.h"
#include "wire/fc_signal.h"

static struct lab lab;

// The server's half: what came, and what everybody is told.
static struct {
    uint16_t says;
    bool refuse;
    int asked, plain, routed, executed, dropped;
    struct bt_server_took took;
    // of the packets seen
    int with_option, without;
    uint16_t option, feedback;
    uint8_t feedback_version;
} flow;

static uint32_t on_arrived(void *arg, const struct bt_addr *client, struct bt_server_came came, uint64_t now)
{
    (void)arg;
    (void)now;
    assert_true(bt_addr_eq(client, &lab.caddr)); // whoever forwarded it
    flow.asked += came.asked;
    flow.plain += !came.asked;
    flow.routed += came.routed;
    return flow.refuse ? 7 | BT_FLOW_REFUSED : 7;
}

static void on_left(void *arg, uint32_t number, const struct bt_server_took *took)
{
    (void)arg;
    assert_int_equal(number, 7);
    flow.executed += took != NULL;
    flow.dropped += took == NULL;
    if (took != NULL) {
        flow.took = *took;
    }
}

static uint16_t on_signal(void *arg, uint32_t number, uint64_t now)
{
    (void)arg;
    (void)now;
    assert_true(number == 7 || number == BT_FLOW_NONE);
    return flow.says;
}

static void spy(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    struct bt_feedback fb;
    (void)l;
    (void)pkt;
    if ((h->type == BT_REPLY || h->type == BT_DROP) && h->first) {
        flow.with_option += (h->opt.present & BT_HAS_FLOW) != 0;
        flow.without += (h->opt.present & BT_HAS_FLOW) == 0;
        flow.option = h->opt.flow;
    }
    if (h->type == BT_FEEDBACK && bt_feedback_decode(h->payload, h->payload_len, &fb) == BT_M_OK) {
        flow.feedback_version = fb.version;
        flow.feedback = fb.signal;
    }
}

enum peers { BOTH_NEW, OLD_SERVER };

static void begin(uint64_t seed, enum peers peers, enum lab_path path)
{
    memset(&flow, 0, sizeof flow);
    flow.says = bt_fc_write_tokens(3);
    lab_init(&lab, seed);
    lab.path = path;
    lab.spy = spy;
    lab.try_send = true;
    lab.ccfg.flow_targets = 4;
    if (peers != OLD_SERVER) {
        lab.scfg.flow = (struct bt_server_flow){on_arrived, on_left, on_signal, NULL};
    }
    lab_start(&lab);
}

static void f49_asked_told_and_obeyed(void **state)
{
    (void)state;
    for (enum lab_path path = LAB_DIRECT; path <= LAB_TRANSPARENT; path++) {
        begin(1, BOTH_NEW, path);
        assert_int_equal(lab_call(&lab, 8, 8, SEC), 0);
        assert_int_equal(lab_call(&lab, 8, 8, SEC), BT_RPC_AGAIN); // one token to begin with
        assert_int_equal(lab.retry_ns, BT_FC_PERIOD_US * 1000);
        lab_run(&lab, 0);
        assert_int_equal(lab.call[0].end, LAB_SUCCESS);
        for (int i = 1; i <= 3; i++) { // F-32: so many may be unanswered
            assert_int_equal(lab_call(&lab, 8, 3000, SEC), i);
        }
        assert_int_equal(lab_call(&lab, 8, 8, SEC), BT_RPC_AGAIN);
        lab_run(&lab, 0);
        assert_int_equal(flow.asked, 4);
        assert_int_equal(flow.plain, 0);
        assert_int_equal(flow.routed, path == LAB_DIRECT ? 0 : 4);
        assert_int_equal(flow.executed, 4); // replies of several packets, too
        assert_int_equal(flow.with_option, 4);
        assert_int_equal(flow.option, 3);
        assert_int_equal(bt_client_counters(lab.client)[BT_CLIENT_REFUSED_FLOW], 2);
        assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_FLOW_SIGNALS], 4);
        lab_end(&lab);
    }
}

static void f43_silence_is_kept_and_f42_worth_one_token(void **state)
{
    (void)state;
    begin(2, BOTH_NEW, LAB_DIRECT);
    flow.says = bt_fc_write_idle(700);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    uint64_t told = lab.now;
    assert_int_equal(lab_call(&lab, 8, 8, SEC), BT_RPC_AGAIN);
    assert_in_range(lab.retry_ns, 1, 700000);
    lab_run(&lab, told + lab.retry_ns);
    assert_int_equal(lab_call(&lab, 8, 8, SEC), 1);
    assert_int_equal(lab_call(&lab, 8, 8, SEC), BT_RPC_AGAIN);
    lab_run(&lab, 0);
    flow.says = 0x0000; // F-31: nobody sends it; the server says nothing then
    lab_run(&lab, lab.now + MS);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(flow.without, 1);
    lab_end(&lab);
}

static void f49_an_old_server_holds_nobody_back(void **state)
{
    (void)state;
    begin(3, OLD_SERVER, LAB_DIRECT);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_SUCCESS);
    for (int i = 1; i <= 60; i++) {
        assert_int_equal(lab_call(&lab, 8, 8, SEC), i);
    }
    lab_run(&lab, 0);
    assert_int_equal(bt_client_counters(lab.client)[BT_CLIENT_SUCCEEDED], 61);
    lab_end(&lab);
}

static void f49_an_old_client_hears_nothing_and_is_load(void **state)
{
    (void)state;
    for (int extensions = 0; extensions < 2; extensions++) {
        memset(&flow, 0, sizeof flow);
        flow.says = bt_fc_write_tokens(3);
        lab_init(&lab, 4);
        lab.path = LAB_ENCAPSULATED;
        lab.spy = spy;
        lab.ccfg.extensions = extensions != 0;
        lab.scfg.flow = (struct bt_server_flow){on_arrived, on_left, on_signal, NULL};
        lab_start(&lab);
        lab_call(&lab, 8, 3000, SEC);
        lab_run(&lab, 0);
        assert_int_equal(lab.call[0].end, LAB_SUCCESS);
        assert_int_equal(flow.plain, 1);
        assert_int_equal(flow.executed, 1);
        assert_int_equal(flow.with_option, 0);
        assert_int_equal(flow.without, 1);
        lab_end(&lab);
    }
}

static void f18_a_request_past_its_tokens_is_refused_with_the_time(void **state)
{
    (void)state;
    begin(5, BOTH_NEW, LAB_ENCAPSULATED);
    flow.refuse = true;
    flow.says = bt_fc_write_idle(5000);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_ERROR);
    assert_int_equal(lab.call[0].code, BT_RPC_DROPPED);
    assert_int_equal(flow.option, 0x8000 | 5000);
    assert_int_equal(flow.executed + flow.dropped, 0); // nothing of it was counted
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DROP_FLOW], 1);
    assert_int_equal(lab_call(&lab, 8, 8, SEC), BT_RPC_AGAIN);
    assert_in_range(lab.retry_ns, 4000000, 5000000);
    lab_end(&lab);
}

static void f10_what_is_not_executed_leaves_too(void **state)
{
    (void)state;
    begin(6, BOTH_NEW, LAB_DIRECT);
    lab.refuse = true; // the application
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(flow.dropped, 1);
    assert_int_equal(flow.with_option, 1);
    lab_end(&lab);
}

static void f10_what_finds_no_place_leaves_too(void **state)
{
    (void)state;
    memset(&flow, 0, sizeof flow);
    lab_init(&lab, 12);
    lab.scfg.flow = (struct bt_server_flow){on_arrived, on_left, on_signal, NULL};
    lab.scfg.max_pending = 1;
    lab.hold = true;
    lab_start(&lab);
    lab_call(&lab, 8, 8, SEC);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, lab.now + MS);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DROP_TABLE], 1);
    assert_int_equal(flow.dropped, 1);
    lab_answer_all(&lab);
    lab_run(&lab, 0);
    assert_int_equal(flow.executed, 1);
    lab_end(&lab);
}

static void f10_execution_is_measured(void **state)
{
    (void)state;
    begin(7, BOTH_NEW, LAB_DIRECT);
    lab.service_ns = 2 * MS;
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    assert_in_range(flow.took.ended_ns - flow.took.began_ns, 2 * MS, 2 * MS + 1000);
    lab.hold = true;
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, lab.now + MS);
    bt_server_measured(lab.server, lab.last_request.handle, 50, 40); // a clock that went back is the owner's to judge
    bt_server_measured(lab.server, lab.last_request.handle + 1, 1, 2);
    lab_answer_all(&lab);
    lab_run(&lab, 0);
    assert_int_equal(flow.took.began_ns, 50);
    assert_int_equal(flow.took.ended_ns, 40);
    lab_end(&lab);
}

static void f49_feedback_says_it_to_routers(void **state)
{
    (void)state;
    begin(8, BOTH_NEW, LAB_ENCAPSULATED);
    flow.says = bt_fc_write_idle(900);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(flow.feedback_version, 3);
    assert_int_equal(flow.feedback, 0x8000 | 900);
    flow.says = 0; // off
    lab_run(&lab, lab.now + SEC);
    assert_int_equal(flow.feedback_version, 1);
    lab_end(&lab);
}

static void f46_a_lost_answer_gives_its_token_back(void **state)
{
    (void)state;
    begin(9, BOTH_NEW, LAB_DIRECT);
    lab.faults.lose[LAB_REPLY] = 1000;
    lab_call(&lab, 8, 8, 10 * MS);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_TIMEOUT);
    lab.faults.lose[LAB_REPLY] = 0;
    assert_int_equal(lab_call(&lab, 8, 8, SEC), 1);
    lab_run(&lab, 0);
    lab_end(&lab);
}

static void f31_bytes_of_anybody(void **state)
{
    (void)state;
    begin(10, BOTH_NEW, LAB_DIRECT);
    const uint64_t *c = bt_client_counters(lab.client);
    lab_call(&lab, 8, 8, SEC);
    lab_flush(&lab);
    uint8_t reply[] = {0xcc, 16, 0x10, 0xe0, 0, 0, 0, 1, 8, 5, 0, 3, 0, 0, 0, 0}; // an option of 5 bytes
    bt_put16(reply + 4, lab.last_request.req_id);
    lab_inject_client(&lab, reply, sizeof reply, &lab.saddr);
    assert_int_equal(c[BT_M_OPT_LENGTH], 1);
    reply[1] = 12;
    memcpy(reply + 8, (uint8_t[]){8, 4, 0, 0}, 4); // window 0 for a request nobody sent
    bt_put16(reply + 4, 0xbeef);
    lab_inject_client(&lab, reply, 12, &lab.saddr);
    assert_int_equal(c[BT_M17], 1);
    lab_end(&lab);
}

static void f48_the_replica_that_has_room(void **state)
{
    (void)state;
    struct bt_addr at[2];
    begin(11, BOTH_NEW, LAB_DIRECT);
    at[0] = bt_addr_v4u(0x0a000063, 8000); // nobody answers there
    at[1] = lab.saddr;
    struct bt_txq txq;
    bt_txq_init(&txq);
    struct bt_request rq = {.timeout_ns = 5 * MS, .cookie = LAB_CALLS - 1};
    struct bt_replicas replicas = {at, 2, 0};
    assert_true(bt_client_try_any(lab.client, lab.now, &rq, &replicas, &txq, &lab.retry_ns) >= 0);
    assert_true(bt_addr_eq(&txq.head->dst, &at[0]));
    rq.cookie--;
    assert_true(bt_client_try_any(lab.client, lab.now, &rq, &replicas, &txq, &lab.retry_ns) >= 0);
    assert_true(bt_addr_eq(&txq.head->next->dst, &at[1]));
    assert_int_equal(bt_client_try_any(lab.client, lab.now, &rq, &replicas, &txq, &lab.retry_ns), BT_RPC_AGAIN);
    assert_int_equal(bt_client_counters(lab.client)[BT_CLIENT_REFUSED_FLOW], 1);
    at[0].port = 0; // no address: refused for that, whoever has room
    assert_int_equal(bt_client_try_any(lab.client, lab.now, &rq, &replicas, &txq, &lab.retry_ns), BT_RPC_BAD_ARGUMENT);
    assert_int_equal(bt_client_counters(lab.client)[BT_CLIENT_REFUSED_FLOW], 1);
    replicas.n = 0;
    assert_int_equal(bt_client_try_any(lab.client, lab.now, &rq, &replicas, &txq, &lab.retry_ns), BT_RPC_BAD_ARGUMENT);
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(&txq));) {
        bt_pool_put(&lab.pool.pool, pkt);
    }
    lab_run(&lab, 0);
    lab_run(&lab, lab.now + 10 * MS);
    lab_end(&lab);
}

static int try_to(uint32_t host)
{
    static uint64_t next = 100; // each ends once
    struct bt_txq txq;
    bt_txq_init(&txq);
    struct bt_request rq = {.timeout_ns = 5 * MS, .cookie = next++, .dst = bt_addr_v4u(0x0a000100 + host, 80)};
    int id = bt_client_try_send(lab.client, lab.now, &rq, &txq, &lab.retry_ns);
    lab_transmit(&lab, &txq);
    lab.now += 1000;
    return id;
}

/* Of so many addresses something is known. Another takes the place of the one that was used first and awaits nothing;
 * where all await an answer there is none. */
static void f40_the_address_unused_for_longest_is_forgotten(void **state)
{
    (void)state;
    begin(12, BOTH_NEW, LAB_DIRECT);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(try_to(i) >= 0);
        assert_int_equal(try_to(i), BT_RPC_AGAIN); // one token to begin with
    }
    assert_int_equal(try_to(4), BT_RPC_AGAIN);
    assert_int_equal(lab.retry_ns, BT_FC_PERIOD_US * 1000);
    lab_run(&lab, lab.now + 10 * MS); // all have timed out: each has a token again
    static const uint32_t order[] = {2, 0, 3, 1};
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(try_to(order[i]) >= 0);
    }
    lab_run(&lab, lab.now + 10 * MS);
    for (uint32_t i = 0; i < 4; i++) { // newcomers take their places in that order
        assert_true(try_to(10 + i) >= 0);
    }
    assert_int_equal(try_to(2), BT_RPC_AGAIN);
    lab_run(&lab, lab.now + 10 * MS);
    lab_end(&lab);
}

/* What the one used last has said is still known when a newcomer has its place. */
static void f40_the_address_used_last_is_remembered(void **state)
{
    (void)state;
    begin(13, BOTH_NEW, LAB_DIRECT);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(try_to(i) >= 0);
    }
    lab_run(&lab, lab.now + 10 * MS);
    assert_int_equal(lab_call(&lab, 8, 8, SEC), 0); /* the lab's server says: three tokens */
    lab_run(&lab, 0);
    assert_true(try_to(10) >= 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(lab_call(&lab, 8, 8, SEC), i);
    }
    assert_int_equal(lab_call(&lab, 8, 8, SEC), BT_RPC_AGAIN);
    lab_run(&lab, lab.now + 10 * MS);
    lab_end(&lab);
}

/* --- several servers behind one address --- */

static struct bt_addr server(uint32_t i)
{
    return bt_addr_v4u(0x0a010000u + i, 8000);
}

static uint32_t takes(struct bt_fc_target *t, uint64_t now, uint64_t *wait)
{
    uint32_t n = 0;
    while (bt_fc_target_take(t, now, wait) != BT_FC_NOBODY) {
        n++;
    }
    return n;
}

static void f49_each_server_behind_a_router_speaks_for_itself(void **state)
{
    static struct bt_fc_target t;
    struct bt_addr router = bt_addr_v4u(0x0a000003, 8000), a = server(1), b = server(2);
    uint64_t now = SEC, wait;
    (void)state;
    bt_fc_target_init(&t, &router);
    assert_int_equal(takes(&t, now, &wait), 1);
    bt_fc_target_ended(&t, 0);
    bt_fc_target_signalled(&t, now, &a, bt_fc_write_tokens(3));
    bt_fc_target_signalled(&t, now, &b, bt_fc_write_tokens(2));
    assert_int_equal(takes(&t, now, &wait), 5);
    assert_int_equal(t.unanswered, 5);
    bt_fc_target_ended(&t, 0);
    assert_int_equal(t.unanswered, 4);
    assert_int_equal(takes(&t, now, &wait), 1);
    bt_fc_target_signalled(&t, now, &a, bt_fc_write_tokens(9));
    bt_fc_target_signalled(&t, now, &router, bt_fc_write_idle(400)); // of a DROP of its own: everybody's
    assert_int_equal(takes(&t, now, &wait), 0);
    assert_int_equal(wait, 400000);
    assert_int_equal(takes(&t, now + 400000, &wait), 6);
    bt_fc_target_unsignalled(&t, now, &b); // b is older than flow control
    for (int i = 0; i < 1000; i++) {
        assert_true(bt_fc_target_take(&t, now + 400000, &wait) != BT_FC_NOBODY);
    }
}

static void f49_servers_come_and_go_and_are_bounded(void **state)
{
    static struct bt_fc_target t;
    struct bt_addr router = bt_addr_v4u(0x0a000003, 8000);
    uint64_t now = SEC, wait;
    (void)state;
    bt_fc_target_init(&t, &router);
    for (uint32_t i = 0; i < 1000; i++) {
        struct bt_addr s = server(i);
        bt_fc_target_signalled(&t, now, &s, bt_fc_write_tokens(1));
        now += MS;
    }
    assert_int_equal(t.voices, BT_FC_VOICES);
    now += 2 * SEC;
    struct bt_addr last = server(5000);
    bt_fc_target_signalled(&t, now, &last, bt_fc_write_tokens(4));
    assert_int_equal(takes(&t, now, &wait), 4); // what the others said is no news
    now++;
    // Each of them has a request now; who takes the place of one of them owes no answer.
    for (uint32_t i = 0; i < BT_FC_VOICES; i++) {
        struct bt_addr s = server(6000 + i);
        bt_fc_target_signalled(&t, now, &s, bt_fc_write_tokens(1));
    }
    assert_int_equal(takes(&t, now, &wait), BT_FC_VOICES);
    struct bt_addr one_more = server(7000);
    bt_fc_target_signalled(&t, now + 1, &one_more, bt_fc_write_tokens(2));
    assert_int_equal(takes(&t, now + 1, &wait), 2);
}

/* A server that was not heard for a second is not there any more; one that was, a moment less ago, is. */
static void f49_silent_servers_are_forgotten_after_a_second(void **state)
{
    static struct bt_fc_target t;
    struct bt_addr router = bt_addr_v4u(0x0a000003, 8000), a = server(1), b = server(2);
    (void)state;
    for (int late = 0; late < 2; late++) {
        uint64_t now = SEC, wait;
        bt_fc_target_init(&t, &router);
        bt_fc_target_signalled(&t, now, &b, bt_fc_write_tokens(2));
        bt_fc_target_signalled(&t, now, &a, bt_fc_write_tokens(3));
        now += late ? SEC + 1 : SEC;
        bt_fc_target_signalled(&t, now, &a, bt_fc_write_tokens(3));
        assert_int_equal(takes(&t, now, &wait), late ? 3 : 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f49_asked_told_and_obeyed),
        cmocka_unit_test(f43_silence_is_kept_and_f42_worth_one_token),
        cmocka_unit_test(f49_an_old_server_holds_nobody_back),
        cmocka_unit_test(f49_an_old_client_hears_nothing_and_is_load),
        cmocka_unit_test(f18_a_request_past_its_tokens_is_refused_with_the_time),
        cmocka_unit_test(f10_what_is_not_executed_leaves_too),
        cmocka_unit_test(f10_what_finds_no_place_leaves_too),
        cmocka_unit_test(f10_execution_is_measured),
        cmocka_unit_test(f49_feedback_says_it_to_routers),
        cmocka_unit_test(f46_a_lost_answer_gives_its_token_back),
        cmocka_unit_test(f31_bytes_of_anybody),
        cmocka_unit_test(f48_the_replica_that_has_room),
        cmocka_unit_test(f40_the_address_used_last_is_remembered),
        cmocka_unit_test(f40_the_address_unused_for_longest_is_forgotten),
        cmocka_unit_test(f49_each_server_behind_a_router_speaks_for_itself),
        cmocka_unit_test(f49_servers_come_and_go_and_are_bounded),
        cmocka_unit_test(f49_silent_servers_are_forgotten_after_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
