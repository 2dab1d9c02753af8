// SPDX-License-Identifier: Apache-2.0
// K-15: requests of several packets of which the rest never comes, and what they may cost those whose does: R-63 to
//
#include "unit.h"

#include <string.h>

#include "base/bytes.h"
#include "rpc/patience.h"
#include "lab.h"

static struct lab lab;

#define PATIENCE (100 * 1000ull) /* RTO / 20 of the lab's profile */

static struct bt_addr stranger(uint32_t i)
{
    return bt_addr_v4u(0x0a640000 + i, 33000);
}

/* The first of five packets, through the lab's router. */
static void half_open(const struct bt_addr *client, uint16_t id)
{
    uint8_t p[30] = {0xCC, 16, 0x00, 0x80};
    bt_put16(p + 4, id);
    bt_put16(p + 6, 5);
    p[8] = 1; /* forwarded-for */
    p[9] = 8;
    bt_put16(p + 10, client->port);
    memcpy(p + 12, client->ip + 12, 4);
    lab_inject_server(&lab, p, sizeof p, &lab.raddr);
}

/* What its router counts outstanding by the newest FEEDBACK that came. */
static uint64_t outstanding(void)
{
    struct bt_server_router_state st;
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_true(lab.feedbacks > 0);
    return st.received - lab.feedback[lab.feedbacks - 1].served;
}

static void start(uint16_t n)
{
    lab_init(&lab, 15);
    lab.path = LAB_ENCAPSULATED;
    lab.scfg.n = n;
    lab.scfg.seed[0] = 0x9e3779b97f4a7c15; /* of many bits, as in life: sources are told apart by a hash */
    lab.scfg.seed[1] = 0xc2b2ae3d27d4eb4f;
    lab.ccfg.timers.rto_ns *= 10; /* the client is patient */
    lab_start(&lab);
    lab_run(&lab, lab.now + MS);
}

static void run_for(uint64_t ns)
{
    lab_run(&lab, lab.now + ns);
}

static void k15_credit_of_half_open_request_goes_back_early(void **state)
{
    (void)state;
    start(3);
    struct bt_addr who = stranger(1);
    half_open(&who, 1);
    run_for(PATIENCE / 2);
    assert_int_equal(outstanding(), 1); /* it may still become whole */
    run_for(PATIENCE);
    assert_int_equal(outstanding(), 0);
    assert_int_equal(bt_server_backlog(lab.server), 1); /* its rest may come */
    run_for(10 * MS);
    assert_int_equal(bt_server_backlog(lab.server), 0);
    run_for(10 * MS); /* a periodic FEEDBACK: given up, it takes no place */
    assert_int_equal(lab.feedback[lab.feedbacks - 1].n, 3);
    lab_end(&lab);
}

static void k15_one_source_holds_no_second_credit(void **state)
{
    (void)state;
    start(3);
    struct bt_addr who = stranger(1), other = stranger(2);
    half_open(&who, 1);
    run_for(2 * PATIENCE);
    half_open(&who, 2);
    run_for(PATIENCE / 4);
    assert_int_equal(outstanding(), 0);
    run_for(BT_PATIENCE_ALL * PATIENCE); /* strangers are out of debt, the source is not */
    half_open(&who, 3);
    run_for(PATIENCE / 4);
    assert_int_equal(outstanding(), 0);
    half_open(&other, 4);
    run_for(PATIENCE / 4);
    assert_int_equal(outstanding(), 1);
    run_for(BT_PATIENCE_SOURCE * PATIENCE);
    half_open(&who, 5);
    run_for(PATIENCE / 4);
    assert_int_equal(outstanding(), 1);
    lab_end(&lab);
}

static void k15_all_strangers_together_are_bounded(void **state)
{
    (void)state;
    start(3);
    for (uint32_t i = 0; i < 12; i++) { /* at once: one credit of the three is left to others */
        struct bt_addr who = stranger(i);
        half_open(&who, 1);
    }
    run_for(PATIENCE / 4);
    assert_int_equal(outstanding(), 2);
    run_for(PATIENCE);
    uint64_t held = 0, steps = 0;
    for (uint32_t i = 0; i < 4000; i++) { /* each from an address of its own, for 40 ms */
        struct bt_addr who = stranger(100 + i);
        half_open(&who, 1);
        run_for(PATIENCE / 10);
        held += outstanding();
        steps++;
    }
    assert_true(held * BT_PATIENCE_ALL <= steps + steps / 10);
    assert_true(held > 0); /* strangers are not shut out for ever */
    lab_end(&lab);
}

static void k15_proven_source_keeps_its_credit_while_strangers_attack(void **state)
{
    (void)state;
    start(3);
    for (uint32_t i = 0; i < BT_PATIENCE_PROVEN; i++) {
        lab_call(&lab, 5000, 8, SEC);
        run_for(MS);
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct bt_addr who = stranger(i);
        half_open(&who, 1);
        run_for(PATIENCE);
    }
    run_for(PATIENCE);
    assert_int_equal(outstanding(), 0);
    uint64_t early = bt_server_counters(lab.server)[BT_SERVER_CREDITS_EARLY];
    lab_call(&lab, 5000, 8, SEC);
    lab_run(&lab, 0);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_CREDITS_EARLY], early);
    lab_end(&lab);
}

/* what comes late runs, is answered, counts once, and takes a place off n meanwhile. */
static void k15_rest_that_comes_late_is_served(void **state)
{
    (void)state;
    start(3);
    lab.hold = true;
    lab.faults.delay[LAB_REQN] = 1000;
    lab.faults.delay_ns = 3 * PATIENCE;
    for (int i = 0; i < 6; i++) {
        lab_call(&lab, 5000, 8, SEC);
    }
    run_for(MS);
    assert_int_equal(lab.executed, 6);
    assert_int_equal(outstanding(), 0);
    run_for(11 * MS); /* a periodic FEEDBACK */
    assert_int_equal(lab.feedback[lab.feedbacks - 1].n, 1);
    lab_answer_all(&lab);
    lab_run(&lab, 0);
    run_for(11 * MS);
    const struct bt_feedback *fb = &lab.feedback[lab.feedbacks - 1];
    assert_int_equal(fb->n, 3);
    assert_int_equal(fb->received, 6);
    assert_int_equal(fb->served, 6);
    int named = 0;
    for (int i = 0; i < lab.feedbacks; i++) {
        bool pair = (lab.feedback[i].flags & BT_FEEDBACK_PAIR) != 0;
        named += pair;
        assert_true(!pair || lab.feedback[i].flags == BT_FEEDBACK_PAIR); /* it was joined before */
    }
    assert_int_equal(named, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(lab.call[i].end, LAB_SUCCESS);
        assert_true(lab.call[i].intact);
    }
    lab_end(&lab);
}

/* memory for the rest goes to those who send it. */
static void k15_table_full_of_half_open_requests_takes_honest_ones(void **state)
{
    (void)state;
    start(3);
    for (uint32_t i = 0; i < 200; i++) { /* a table of 16 */
        struct bt_addr who = stranger(i);
        half_open(&who, 1);
        if (i % 10 == 0) {
            lab_call(&lab, 5000, 8, SEC);
            run_for(PATIENCE);
        }
    }
    lab_run(&lab, 0);
    for (int i = 0; i < lab.calls; i++) {
        assert_int_equal(lab.call[i].end, LAB_SUCCESS);
    }
    assert_true(lab.sent[LAB_DROP] >= 100); /* who gave way is told */
    run_for(10 * MS);
    assert_int_equal(outstanding(), 0);
    lab_end(&lab);
}

/* The same first packet again, while it is known and when it is done, one in the worker's own name: each came with a
 * credit. */
static void k15_unwanted_first_packets_hold_no_credit(void **state)
{
    (void)state;
    start(3);
    struct bt_addr who = stranger(1);
    struct bt_server_router_state was, st;
    half_open(&who, 1);
    run_for(2 * PATIENCE);
    assert_true(bt_server_router_state(lab.server, 0, &was));
    half_open(&who, 1);
    half_open(&lab.saddr, 2);
    lab_run(&lab, lab.now + 20 * MS); /* collected */
    half_open(&who, 1);
    run_for(PATIENCE / 4);
    assert_true(bt_server_router_state(lab.server, 0, &st));
    assert_int_equal(st.received, was.received + 3);
    assert_int_equal(lab.feedback[lab.feedbacks - 1].served, st.received);
    lab_end(&lab);
}

/* A router that reads 16 bytes takes each as one more answered: there must be one for each request, and no more. */
static void k15_legacy_router_gets_each_credit_once(void **state)
{
    (void)state;
    lab_init(&lab, 16);
    lab.path = LAB_TRANSPARENT;
    lab.ccfg.extensions = false;
    lab.faults.delay[LAB_REQN] = 1000;
    lab.faults.delay_ns = 3 * PATIENCE;
    lab_start(&lab);
    struct bt_server_router r = {.request = lab.raddr, .feedback = lab.rfeedback, .legacy = true};
    struct bt_txq txq;
    bt_txq_init(&txq);
    assert_int_equal(bt_server_set_routers(lab.server, lab.now, &r, 1, &txq), 0);
    lab_transmit(&lab, &txq);
    run_for(MS);
    int before = lab.feedbacks;
    for (int i = 0; i < 6; i++) {
        lab_call(&lab, 5000, 8, SEC);
    }
    lab_run(&lab, 0);
    run_for(10 * MS);
    assert_int_equal(lab.feedbacks - before, 6);
    lab_end(&lab);
}

/* A part of a direct request from `client`: index 0 is the first of three, 1 the next. */
static void part(const struct bt_addr *client, uint16_t index)
{
    static uint8_t p[1472];
    memset(p, 0, sizeof p);
    p[0] = 0xCC;
    p[1] = 8;
    p[3] = index == 0 ? 0xA0 : 0x20;
    bt_put16(p + 4, 1);
    bt_put16(p + 6, index == 0 ? 3 : index);
    lab_inject_server(&lab, p, index == 0 ? 22 : sizeof p, client);
}

static int dropped_of(const struct bt_addr *client)
{
    int n = 0;
    for (uint32_t i = 0; i < lab.flights; i++) {
        const struct bt_pkt *pkt = lab.flight[i].pkt;
        n += bt_addr_eq(&pkt->dst, client) && pkt->data[2] >> 4 == BT_DROP;
    }
    return n;
}

/* first who sent nothing but a beginning, oldest first; then who sent more. */
static void r65_who_sent_more_gives_way_last(void **state)
{
    (void)state;
    lab_init(&lab, 17);
    lab.scfg.max_pending = 3;
    lab_start(&lab);
    struct bt_addr who[6];
    for (uint32_t i = 0; i < 6; i++) {
        who[i] = stranger(i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        part(&who[i], 0);
    }
    part(&who[0], 1);
    for (uint32_t i = 3; i < 5; i++) { /* the second and the third give way */
        assert_int_equal(dropped_of(&who[i - 2]), 0);
        part(&who[i], 0);
        assert_int_equal(dropped_of(&who[i - 2]), 1);
        assert_int_equal(dropped_of(&who[0]), 0);
    }
    part(&who[3], 1);
    part(&who[4], 1);
    part(&who[5], 0); /* all have sent more: the oldest */
    assert_int_equal(dropped_of(&who[0]), 1);
    assert_int_equal(bt_server_counters(lab.server)[BT_SERVER_DISPLACED], 3);
    lab_run(&lab, lab.now + 20 * MS);
    assert_int_equal(bt_server_backlog(lab.server), 0);
    lab_end(&lab);
}

/* what is known of a source is of that one alone, though two of one place in the table exclude each other. */
static void r64_patience_is_with_each_source_apart(void **state)
{
    static struct bt_patience p;
    const uint32_t a = 7, b = 7 + BT_PATIENCE_SOURCES, other = 9;
    (void)state;
    memset(&p, 0, sizeof p);
    for (uint32_t i = 0; i < BT_PATIENCE_PROVEN; i++) {
        assert_int_equal(p.source[a].whole, i);
        bt_patience_whole(&p, a);
    }
    bt_patience_whole(&p, a);
    assert_int_equal(p.source[a].whole, BT_PATIENCE_PROVEN);
    bt_patience_in_vain(&p, other, 1000, 10); /* a stranger's debt is all strangers' */
    assert_int_equal(p.all_until_ns, 1000 + 10 * BT_PATIENCE_ALL);
    assert_int_equal(p.source[other].until_ns, 1000 + 10 * BT_PATIENCE_SOURCE);
    assert_true(bt_patience_allows(&p, a, 1000));
    assert_false(bt_patience_allows(&p, b, 1000)); /* of the same place, and not proven */
    assert_false(bt_patience_allows(&p, b, 999 + 10 * BT_PATIENCE_ALL));
    assert_true(bt_patience_allows(&p, b, 1000 + 10 * BT_PATIENCE_ALL));
    assert_false(bt_patience_allows(&p, other, 999 + 10 * BT_PATIENCE_SOURCE));
    assert_true(bt_patience_allows(&p, other, 1000 + 10 * BT_PATIENCE_SOURCE));
    uint64_t all = p.all_until_ns;
    bt_patience_in_vain(&p, a, 1000, 10); /* its own alone, and it has to prove itself anew */
    assert_int_equal(p.all_until_ns, all);
    assert_int_equal(p.source[a].whole, 0);
    bt_patience_in_vain(&p, a, 1000, 10);
    assert_int_equal(p.all_until_ns, all + 10 * BT_PATIENCE_ALL);
    assert_int_equal(p.source[a].until_ns, 1000 + 20 * BT_PATIENCE_SOURCE);
    assert_true(bt_patience_allows(&p, b, 1000 + 20 * BT_PATIENCE_ALL)); /* not the debt of that one */
    assert_false(bt_patience_allows(&p, a, 1000 + 20 * BT_PATIENCE_ALL));
    bt_patience_whole(&p, b);
    assert_int_equal(p.source[a].hash, b);
    assert_int_equal(p.source[a].whole, 1);
    assert_int_equal(p.source[a].until_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k15_credit_of_half_open_request_goes_back_early),
        cmocka_unit_test(k15_one_source_holds_no_second_credit),
        cmocka_unit_test(k15_all_strangers_together_are_bounded),
        cmocka_unit_test(k15_proven_source_keeps_its_credit_while_strangers_attack),
        cmocka_unit_test(k15_rest_that_comes_late_is_served),
        cmocka_unit_test(k15_table_full_of_half_open_requests_takes_honest_ones),
        cmocka_unit_test(k15_unwanted_first_packets_hold_no_credit),
        cmocka_unit_test(k15_legacy_router_gets_each_credit_once),
        cmocka_unit_test(r65_who_sent_more_gives_way_last),
        cmocka_unit_test(r64_patience_is_with_each_source_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
