// SPDX-License-Identifier: Apache-2.0
// What both ends count is what is on the wire, and what they count is exported under a name of its own: one without
// would be lost in silence, two of one name would be one series.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "lab.h"
#include "named.h"

#include "rpc/client.h"
#include "rpc/server.h"

static void rpc_counters_have_names(void **state)
{
    (void)state;
    each_has_a_name(bt_server_counter_desc, BT_SERVER_COUNTERS, "server_");
    each_has_a_name(bt_client_counter_desc, BT_CLIENT_COUNTERS, "client_");
}

static struct lab lab;

// Packets seen of each end, and of them by type.
static struct wire {
    uint64_t packets, type[16];
} of_client, of_server;

static void spy(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    struct wire *w = bt_addr_eq(&pkt->src, &l->saddr) ? &of_server : &of_client;
    w->packets++;
    w->type[h->type]++;
}

static void begin(uint64_t seed, enum lab_path path, bool extensions)
{
    memset(&of_client, 0, sizeof of_client);
    memset(&of_server, 0, sizeof of_server);
    lab_init(&lab, seed);
    lab.path = path;
    lab.spy = spy;
    lab.ccfg.extensions = extensions;
}

static uint64_t server(unsigned c)
{
    return bt_server_counters(lab.server)[c];
}

static uint64_t client(unsigned c)
{
    return bt_client_counters(lab.client)[c];
}

static void counted_as_seen(void)
{
    assert_int_equal(server(BT_SERVER_PACKETS_SENT), of_server.packets);
    assert_int_equal(server(BT_SERVER_FEEDBACK_SENT), of_server.type[BT_FEEDBACK]);
    assert_int_equal(server(BT_SERVER_REQRDY_SENT), of_server.type[BT_REQRDY]);
    assert_int_equal(server(BT_SERVER_SACK_SENT), of_server.type[BT_SACK]);
    assert_int_equal(client(BT_CLIENT_PACKETS_SENT), of_client.packets);
    assert_int_equal(client(BT_CLIENT_SACK_SENT), of_client.type[BT_SACK]);
    assert_int_equal(server(BT_SERVER_NO_BUFFER) + client(BT_CLIENT_NO_BUFFER), 0);
}

static void what_is_sent_is_counted_once(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{8, 8}, {8, 3000}, {5000, 8}, {8, 300000}, {300000, 3000}};
    for (enum lab_path path = LAB_DIRECT; path <= LAB_TRANSPARENT; path++) {
        for (int extensions = 0; extensions < 2; extensions++) {
            begin(1, path, extensions != 0);
            lab_start(&lab);
            for (unsigned i = 0; i < 5; i++) {
                lab_call(&lab, sizes[i][0], sizes[i][1], SEC);
                lab_run(&lab, 0);
                assert_int_equal(lab.call[i].end, LAB_SUCCESS);
            }
            lab.refuse = true;
            lab_call(&lab, 8, 8, SEC);
            lab_run(&lab, 0);
            counted_as_seen();
            assert_int_equal(of_server.type[BT_DROP], 1);
            assert_int_equal(server(BT_SERVER_REPLIES), 5);
            assert_int_equal(server(BT_SERVER_REQUESTS), 6);
            assert_int_equal(server(BT_SERVER_DROP_APP), 1);
            assert_int_equal(server(BT_SERVER_RESENT) + client(BT_CLIENT_RESENT), 0);
            assert_int_equal(client(BT_CLIENT_STARTED), 6);
            assert_int_equal(client(BT_CLIENT_SUCCEEDED), 5);
            assert_int_equal(client(BT_CLIENT_DROPPED), 1);
            lab_end(&lab);
        }
    }
}

// what is sent again is counted as sent, and as sent again.
static void what_is_repaired_is_counted(void **state)
{
    (void)state;
    begin(2, LAB_ENCAPSULATED, true);
    lab.faults.lose[LAB_REQN] = lab.faults.lose[LAB_REPLY] = 100;
    lab_start(&lab);
    for (unsigned i = 0; i < 20; i++) {
        lab_call(&lab, 60000, 60000, SEC);
        lab_run(&lab, 0);
    }
    counted_as_seen();
    uint64_t requests = 20 * (1 + (60000 - 14 + 1463) / 1464), resent = of_client.packets - of_client.type[BT_SACK];
    assert_true(client(BT_CLIENT_RESENT) > 0 && server(BT_SERVER_RESENT) > 0);
    assert_int_equal(client(BT_CLIENT_RESENT), resent - requests);
    assert_int_equal(server(BT_SERVER_SACK_RECEIVED), of_client.type[BT_SACK]);
    assert_int_equal(client(BT_CLIENT_SACK_RECEIVED), of_server.type[BT_SACK]);
    lab_end(&lab);
}

// --- an empty pool

static struct bt_pkt *taken;

// All packets but so many.
static void drain(uint32_t leave)
{
    taken = NULL;
    while (lab.pool.left > leave) {
        struct bt_pkt *pkt = bt_pool_get(&lab.pool.pool);
        pkt->next = taken;
        taken = pkt;
    }
}

static void refill(void)
{
    bt_pool_put_chain(&lab.pool.pool, taken);
}

static const uint8_t bytes[300000];

static int reply_of(uint32_t n, struct bt_txq *txq)
{
    struct iovec iov = {(void *)(uintptr_t)bytes, n};
    bt_txq_init(txq);
    return bt_server_reply(lab.server, lab.now, lab.waiting[0], &iov, 1, txq);
}

static void m24_a_reply_that_finds_no_buffer_may_come_again(void **state)
{
    (void)state;
    static const struct {
        uint32_t len, packets;
        bool extensions;
    } cases[] = {{8, 1, false}, {8, 1, true}, {3000, 3, false}, {3000, 3, true}};
    for (unsigned i = 0; i < 4; i++) {
        struct bt_txq txq;
        begin(3, LAB_DIRECT, cases[i].extensions);
        lab.hold = true;
        lab_start(&lab);
        lab_call(&lab, 8, cases[i].len, SEC);
        lab_run(&lab, lab.now + MS);
        uint64_t sent = server(BT_SERVER_PACKETS_SENT);
        for (uint32_t leave = 0; leave < cases[i].packets; leave++) {
            drain(leave);
            assert_int_equal(reply_of(cases[i].len, &txq), BT_RPC_NO_BUFFER);
            assert_int_equal(txq.n, 0);
            assert_int_equal(lab.pool.left, leave); // nothing is kept of the attempt
            assert_int_equal(server(BT_SERVER_NO_BUFFER), leave + 1);
            refill();
        }
        assert_int_equal(server(BT_SERVER_PACKETS_SENT), sent);
        assert_int_equal(server(BT_SERVER_REPLIES), 0);
        lab_answer_all(&lab);
        lab_run(&lab, 0);
        assert_int_equal(lab.call[0].end, LAB_SUCCESS);
        assert_true(lab.call[0].intact);
        assert_int_equal(server(BT_SERVER_PACKETS_SENT), sent + cases[i].packets);
        lab_end(&lab);
    }
}

// Kept for repair, and only one of three packets found a buffer for its copy: the others follow.
static void m24_a_burst_that_finds_no_buffer_goes_on_later(void **state)
{
    (void)state;
    struct bt_txq txq;
    begin(4, LAB_DIRECT, true);
    lab.hold = true;
    lab_start(&lab);
    lab_call(&lab, 8, 3000, SEC);
    lab_run(&lab, lab.now + MS);
    uint64_t sent = server(BT_SERVER_PACKETS_SENT);
    drain(3); // its own, and the request's makes room for one more
    assert_int_equal(reply_of(3000, &txq), 0);
    assert_int_equal(txq.n, 1);
    assert_int_equal(server(BT_SERVER_NO_BUFFER), 1);
    assert_int_equal(server(BT_SERVER_PACKETS_SENT), sent + 1);
    assert_int_equal(server(BT_SERVER_REPLIES), 0);
    refill();
    lab_transmit(&lab, &txq);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_SUCCESS);
    assert_int_equal(lab.call[0].reply_len, 3000);
    assert_int_equal(server(BT_SERVER_PACKETS_SENT), sent + 3);
    assert_int_equal(server(BT_SERVER_REPLIES), 1);
    assert_int_equal(server(BT_SERVER_RESENT), 0);
    free(lab.waiting_body[0]); // it was answered past the lab
    lab.waitings = 0;
    lab_end(&lab);
}

// The request's own buffer is the last: it is free before the word that the request is gone.
static void m24_a_refusal_takes_the_place_of_its_request(void **state)
{
    (void)state;
    struct bt_txq txq;
    begin(5, LAB_DIRECT, true);
    lab.hold = true;
    lab_start(&lab);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, lab.now + MS);
    drain(0);
    bt_txq_init(&txq);
    assert_int_equal(bt_server_drop(lab.server, lab.now, lab.waiting[0], &txq), 0);
    assert_int_equal(txq.n, 1);
    assert_int_equal(server(BT_SERVER_NO_BUFFER), 0);
    refill();
    lab_transmit(&lab, &txq);
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].code, BT_RPC_DROPPED);
    lab_end(&lab);
}

static void m24_a_refusal_without_a_buffer_is_counted(void **state)
{
    (void)state;
    begin(6, LAB_DIRECT, true);
    lab.admit = false;
    lab_start(&lab);
    lab_call(&lab, 8, 8, 5 * MS);
    drain(0);
    lab_run(&lab, lab.now + MS);
    assert_int_equal(server(BT_SERVER_NO_BUFFER), 1);
    assert_int_equal(server(BT_SERVER_PACKETS_SENT), 0);
    assert_int_equal(server(BT_SERVER_DROP_ADMIT), 1);
    refill();
    lab_run(&lab, 0);
    assert_int_equal(lab.call[0].end, LAB_TIMEOUT);
    lab_end(&lab);
}

static bool later_options;

static void spy_options(struct lab *l, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *h)
{
    (void)l;
    (void)pkt;
    later_options = later_options || (h->type == BT_REPLY && !h->first && h->opt.present != 0);
}

// A short reply is sent at once, not kept, where every place for kept ones is taken by a reply on its way.
static void r24_a_reply_without_a_place_is_sent_unrepairable(void **state)
{
    (void)state;
    begin(7, LAB_DIRECT, true);
    lab.spy = spy_options;
    lab.scfg.max_assemblies = 1;
    lab.hold = true;
    later_options = false;
    lab_start(&lab);
    struct bt_request rq = {.timeout_ns = SEC, .with_trace = true, .trace = 7, .with_class = true, .class_id = 3};
    lab_call(&lab, 8, 300000, SEC); // several bursts
    lab_call_with(&lab, &rq, 8, 3000);
    lab_run(&lab, lab.now + MS);
    lab_answer_all(&lab);
    assert_int_equal(server(BT_SERVER_REPLIES), 1);
    lab_run(&lab, 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(lab.call[i].end, LAB_SUCCESS);
        assert_true(lab.call[i].intact);
    }
    assert_int_equal(lab.call[1].info.trace, 7);
    assert_int_equal(lab.call[1].info.class_id, 3);
    assert_false(later_options); // on the first of its packets only
    lab_end(&lab);
}

// Places go to the newest replies, from the oldest that was sent; short ones in between change nothing in that order.
static void r24_the_newest_replies_can_be_repaired(void **state)
{
    (void)state;
    begin(9, LAB_DIRECT, true);
    lab.scfg.max_assemblies = 1;
    lab_start(&lab);
    lab_call(&lab, 8, 3000, SEC); // has the only place
    lab_run(&lab, 0);
    lab_call(&lab, 8, 8, SEC);
    lab_run(&lab, 0);
    lab.faults.lose[LAB_REPLY] = 50;
    lab_call(&lab, 8, 60000, SEC);
    lab_run(&lab, 0);
    assert_true(lab.lost > 0);
    assert_int_equal(lab.call[2].end, LAB_SUCCESS);
    assert_true(lab.call[2].intact);
    assert_true(server(BT_SERVER_RESENT) > 0);
    lab_end(&lab);
}

// when the last burst is out nothing wakes the client until its reply is due.
static void r28_a_client_sleeps_behind_its_last_burst(void **state)
{
    (void)state;
    begin(8, LAB_DIRECT, true);
    lab.hold = true;
    lab_start(&lab);
    uint64_t due = lab.now + SEC;
    lab_call(&lab, 300000, 8, SEC);
    lab_run(&lab, lab.now + 20 * MS);
    assert_int_equal(lab.executed, 1);
    assert_in_range(bt_client_next(lab.client), due - 100 * MS, due); // the wheel may wake it a little too early
    lab_answer_all(&lab);
    lab_run(&lab, 0);
    lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rpc_counters_have_names),
        cmocka_unit_test(what_is_sent_is_counted_once),
        cmocka_unit_test(what_is_repaired_is_counted),
        cmocka_unit_test(m24_a_reply_that_finds_no_buffer_may_come_again),
        cmocka_unit_test(m24_a_burst_that_finds_no_buffer_goes_on_later),
        cmocka_unit_test(m24_a_refusal_takes_the_place_of_its_request),
        cmocka_unit_test(m24_a_refusal_without_a_buffer_is_counted),
        cmocka_unit_test(r24_a_reply_without_a_place_is_sent_unrepairable),
        cmocka_unit_test(r24_the_newest_replies_can_be_repaired),
        cmocka_unit_test(r28_a_client_sleeps_behind_its_last_burst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
