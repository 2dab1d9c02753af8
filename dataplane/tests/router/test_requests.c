// SPDX-License-Identifier: Apache-2.0
// The request path: what is forwarded to whom, what is held, what gets DROP.
#include <string.h>

#include "router/bed.h"

static void r102_fewest_outstanding_then_the_fifo(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 2);
    bed_join_all(&b, 2);
    uint32_t got[4] = {0};
    for (uint16_t i = 0; i < 8; i++) {
        bed_send(&b, i);
        int w = bed_take(&b);
        assert_in_range(w, 0, 3);
        got[w]++;
        if (i == 3) {
            for (int j = 0; j < 4; j++) {
                assert_int_equal(got[j], 1); /* idle ones first */
            }
        }
    }
    bed_send(&b, 100);
    bed_send(&b, 101);
    assert_int_equal(bed_take(&b), -1);
    assert_int_equal(bed_held(&b), 2);
    bed_feedback(&b, 2, &(struct bed_report){.received = 2, .served = 1, .n = 2, .incarnation = 1});
    assert_int_equal(bed_held(&b), 1);
    assert_int_equal(bed_take(&b), 2);
    assert_int_equal(bed_outstanding(&b, 2), 2);
    bed_close(&b);
}

static uint16_t take_id(struct bed *b)
{
    struct bt_pkt *pkt = bed_packet(b);
    assert_non_null(pkt);
    uint16_t id = (uint16_t)(pkt->data[4] << 8 | pkt->data[5]);
    bt_pool_put(b->pool, pkt);
    return id;
}

static void r104_held_requests_leave_in_order_of_arrival(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 3, 1);
    bed_join_all(&b, 1);
    for (uint16_t i = 0; i < 40; i++) {
        bed_send(&b, i);
    }
    uint64_t served[3] = {0};
    uint32_t w = 0;
    for (uint16_t i = 0; i < 40; i++) {
        if (i >= 3) {
            w = (w + 1) % 3;
            served[w]++;
            bed_feedback(&b, w,
                         &(struct bed_report){.received = served[w], .served = served[w], .n = 1, .incarnation = 1});
        }
        assert_int_equal(take_id(&b), i);
    }
    bed_close(&b);
}

static void r105_the_fifo_is_bounded_in_number(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 1);
    b.config.central_limit = 3;
    bed_build(&b);
    bed_join_all(&b, 1);
    for (uint16_t i = 0; i < 5; i++) {
        bed_send(&b, i);
    }
    assert_int_equal(bed_take(&b), 0);
    assert_true(bed_take_drop(&b, 4));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_QUEUE_FULL), 1);
    assert_int_equal(bed_held(&b), 3);
    bed_close(&b);
}

static void r105_the_fifo_is_bounded_in_time(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    bed_send(&b, 1);
    assert_int_equal(bed_take(&b), 0);
    bed_send(&b, 2);
    bed_tick(&b, SEC / 2);
    bed_send(&b, 3);
    assert_true(bt_router_next(b.r) <= b.now + SEC / 2);
    bed_tick(&b, SEC / 2 - 1);
    assert_int_equal(bed_held(&b), 2);
    bed_tick(&b, 1);
    assert_true(bed_take_drop(&b, 2));
    assert_int_equal(bed_held(&b), 1);
    bed_tick(&b, SEC / 2);
    assert_true(bed_take_drop(&b, 3));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_QUEUE_TIMEOUT), 2);
    bed_close(&b);
}

/* After a pause of the router FEEDBACK is read before timers run: credit must not wake what is too old. */
static void r105_credit_does_not_revive_the_expired(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    bed_send(&b, 1);
    assert_int_equal(bed_take(&b), 0);
    bed_send(&b, 2);
    b.now += SEC - MS;
    bed_send(&b, 3);
    b.now += MS;
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .served = 1, .n = 1, .incarnation = 1});
    assert_true(bed_take_drop(&b, 2));
    assert_int_equal(take_id(&b), 3);
    assert_int_equal(bed_counter(&b, BT_RC_DROP_QUEUE_TIMEOUT), 1);
    bed_close(&b);
}

static void r106_sticky_goes_to_the_master_without_credit(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 1);
    bed_join_all(&b, 1);
    for (uint16_t i = 0; i < 5; i++) {
        bed_request(&b, i, BT_POLICY_STICKY, 8);
        assert_int_equal(bed_take(&b), 0);
    }
    assert_int_equal(bed_outstanding(&b, 0), 5);
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED_STICKY), 5);
    bed_send(&b, 9); /* others still go around the loaded master */
    assert_int_not_equal(bed_take(&b), 0);
    bed_close(&b);
}

static void r106_sticky_without_master_gets_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 1);
    bed_join(&b, 1, 1);
    bed_request(&b, 7, BT_POLICY_STICKY, 8);
    assert_true(bed_take_drop(&b, 7));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_NO_MASTER), 1);
    bed_close(&b);
}

static void r12_policies_not_implemented_get_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 1);
    bed_join_all(&b, 1);
    for (uint8_t policy = 2; policy < 16; policy++) {
        bed_request(&b, policy, policy, 8);
        assert_true(bed_take_drop(&b, policy));
    }
    assert_int_equal(bed_counter(&b, BT_RC_DROP_POLICY), 14);
    assert_int_equal(bed_malformed(&b, BT_M6), 0); /* 4–15 are unknown, 2 and 3 another program's: all got an answer */
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED), 0);
    bed_close(&b);
}

static void requests_without_members_get_drop(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 0, 1);
    bed_send(&b, 3);
    assert_true(bed_take_drop(&b, 3));
    bed_request(&b, 4, BT_POLICY_STICKY, 8);
    assert_true(bed_take_drop(&b, 4));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_NO_MEMBERS), 2);
    bed_close(&b);
}

/* what may be forwarded besides the ordinary single packet. */
static void multi_packet_req0_is_forwarded_and_counts_one_credit(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    const uint8_t first[] = {0xcc, 8, 0x00, 0x80 | 0x20, 0, 1, 0, 9, 'a', 'b', 'c'};
    bed_request_bytes(&b, &b.client, first, sizeof first);
    assert_int_equal(bed_take(&b), 0);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    const uint8_t empty[] = {0xcc, 8, 0x00, 0xc0, 0, 2, 0, 1};
    bed_request_bytes(&b, &b.client, empty, sizeof empty);
    assert_int_equal(bed_held(&b), 1);
    bed_close(&b);
}

static void r122_holds_back_for_an_idle_worker(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 2, 3);
    b.config.hold_back_packets = 2;
    b.config.hold_back_ns = 5000;
    bed_build(&b);
    bed_join_all(&b, 3);
    bed_send(&b, 1);
    bed_send(&b, 2);
    assert_in_range(bed_take(&b), 0, 1);
    assert_in_range(bed_take(&b), 0, 1); /* idle workers: at once */
    bed_send(&b, 3);
    assert_int_equal(bed_take(&b), -1);
    assert_int_equal(bt_router_next(b.r), b.now + 5000);
    bed_tick(&b, 4999);
    assert_int_equal(bed_take(&b), -1);
    bed_tick(&b, 1); /* patience is over: a busy worker will do */
    assert_in_range(bed_take(&b), 0, 1);
    bed_send(&b, 4);
    bed_feedback(&b, 0, &(struct bed_report){.received = 2, .served = 2, .n = 3, .incarnation = 1});
    assert_int_equal(bed_take(&b), 0); /* became idle in time */
    bed_send(&b, 5);
    bed_send(&b, 6);
    assert_int_equal(bed_held(&b), 2);
    bed_send(&b, 7); /* one more than may wait */
    assert_int_equal(bed_held(&b), 2);
    assert_int_equal(take_id(&b), 5); /* the oldest leaves for it, not the newcomer */
    assert_int_equal(bed_counter(&b, BT_RC_HELD_BACK), 4);
    bed_close(&b);
}

static void r107_policy_changes_at_run_time_keep_counters(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 4, 2);
    bed_join_all(&b, 2);
    for (uint16_t i = 0; i < 12; i++) {
        bed_send(&b, i); /* 8 forwarded, 4 held */
    }
    bed_discard(&b);
    assert_int_equal(bed_held(&b), 4);
    for (int policy = BT_ROUTER_JSQ; policy < BT_ROUTER_POLICIES; policy++) {
        b.config.policy = (enum bt_router_policy)policy;
        bed_apply(&b);
        assert_true(bt_router_next(b.r) <= b.now); /* pushing policies have no reason to hold */
        bed_tick(&b, 0);
        assert_int_equal(bed_held(&b), 0);
        bed_send(&b, (uint16_t)(100 + policy));
    }
    bed_discard(&b);
    uint32_t sum = 0;
    for (uint32_t w = 0; w < 4; w++) {
        sum += bed_outstanding(&b, w);
        assert_int_equal(bed_row(&b, w).sent, bed_outstanding(&b, w));
    }
    assert_int_equal(sum, 16);
    b.config.policy = BT_ROUTER_JBSQ;
    bed_apply(&b);
    bed_send(&b, 200);
    assert_int_equal(bed_held(&b), 1);
    bed_close(&b);
}

/* while no queue reaches n, JBSQ(n) is JSQ, choice by choice. */
static void q33_jbsq_with_ample_n_is_jsq(void **state)
{
    (void)state;
    struct bed a, b;
    bed_open(&a, 16, 64);
    bed_defaults(&b, 16, 64);
    b.config.policy = BT_ROUTER_JSQ;
    bed_build(&b);
    bed_join_all(&a, 64);
    bed_join_all(&b, 64);
    uint64_t done[16] = {0}, sent[16] = {0};
    struct bt_rng rng;
    bt_rng_seed(&rng, 42);
    for (int step = 0; step < 5000; step++) {
        uint32_t w = bt_rng_below(&rng, 16);
        if (bt_rng_below(&rng, 2) == 0 && sent[w] > done[w]) {
            done[w]++;
            struct bed_report report = {.received = sent[w], .served = done[w], .n = 64, .incarnation = 1};
            bed_feedback(&a, w, &report);
            bed_feedback(&b, w, &report);
            continue;
        }
        bed_send(&a, (uint16_t)step);
        bed_send(&b, (uint16_t)step);
        int wa = bed_take(&a), wb = bed_take(&b);
        assert_int_equal(wa, wb);
        assert_in_range(wa, 0, 15);
        sent[wa]++;
    }
    bed_close(&a);
    bed_close(&b);
}

/* JBSQ(1) is one queue: first come first served, never an idle worker while a request is held. */
static void q33_jbsq1_is_a_single_queue(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 8, 1);
    bed_join_all(&b, 1);
    uint64_t done[8] = {0};
    bool busy[8] = {false};
    uint16_t next_in = 0, next_out = 0;
    struct bt_rng rng;
    bt_rng_seed(&rng, 1);
    for (int step = 0; step < 20000; step++) {
        uint32_t w = bt_rng_below(&rng, 8);
        if (bt_rng_below(&rng, 9) >= 4 && busy[w]) {
            busy[w] = false;
            done[w]++;
            bed_feedback(&b, w, &(struct bed_report){.received = done[w], .served = done[w], .n = 1, .incarnation = 1});
        } else if (bed_held(&b) < 100) {
            bed_send(&b, next_in++);
        }
        struct bt_pkt *pkt;
        while ((pkt = bed_packet(&b)) != NULL) {
            assert_int_equal((uint16_t)(pkt->data[4] << 8 | pkt->data[5]), next_out++);
            for (uint32_t i = 0; i < 8; i++) {
                if (bt_addr_eq(&pkt->dst, &b.members[i])) {
                    assert_false(busy[i]);
                    busy[i] = true;
                }
            }
            bt_pool_put(b.pool, pkt);
        }
        bool idle = false;
        for (uint32_t i = 0; i < 8; i++) {
            idle = idle || !busy[i];
        }
        assert_true(!idle || bed_held(&b) == 0);
    }
    bed_close(&b);
}

static void drain_keeps_forwarding_until_quiet(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    assert_false(bt_router_drained(b.r, b.now + 100 * SEC, SEC));
    bt_router_drain(b.r, b.now);
    assert_true(bt_router_draining(b.r));
    b.now += SEC / 2;
    bed_send(&b, 1);
    assert_int_equal(bed_take(&b), 0);
    assert_false(bt_router_drained(b.r, b.now + SEC - 1, SEC));
    assert_true(bt_router_drained(b.r, b.now + SEC, SEC));
    bed_send(&b, 2);
    assert_false(bt_router_drained(b.r, b.now + 100 * SEC, SEC)); /* held */
    bed_close(&b);
}

/* F-49: the newest DROP, and what it says of flow control; -1: nothing, -2: there is none. */
static int dropped_with(struct bed *b)
{
    struct bt_r2p2_hdr hdr;
    struct bt_pkt *pkt = bed_packet(b);
    if (pkt == NULL) {
        return -2;
    }
    bool drop = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_CLIENT, &hdr) == BT_M_OK && hdr.type == BT_DROP &&
                hdr.payload_len == 4 && memcmp(hdr.payload, "DROP", 4) == 0;
    int said = !drop ? -2 : hdr.opt.present == BT_HAS_FLOW && hdr.ext ? hdr.opt.flow : -1;
    bt_pool_put(b->pool, pkt);
    return said;
}

static void send_asking(struct bed *b, uint16_t req_id, bool asks)
{
    struct bt_r2p2_hdr h = {
        .type = BT_REQUEST, .first = true, .last = true, .ext = true, .count_or_index = 1, .req_id = req_id};
    h.opt.present = asks ? BT_HAS_FLOW : 0;
    h.opt.flow = 0x7fff;
    bed_request_as(b, h, 0);
}

static void f49_a_drop_says_when_to_come_again(void **state)
{
    (void)state;
    struct bed b;
    struct bed_report report = {.n = 1, .incarnation = 1};
    bed_defaults(&b, 1, 1);
    b.config.central_limit = 1;
    bed_build(&b);
    bed_join_all(&b, 1);
    send_asking(&b, 1, true);
    struct bt_pkt *pkt = bed_packet(&b);
    struct bt_r2p2_hdr hdr;
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr), BT_M_OK);
    assert_int_equal(hdr.opt.present, BT_HAS_FLOW | BT_HAS_FORWARDED); /* it is passed on */
    bt_pool_put(b.pool, pkt);
    send_asking(&b, 2, true); /* held */
    send_asking(&b, 3, true);
    assert_int_equal(dropped_with(&b), -1); /* no worker has said anything */
    report.signal = 0x8000 | 1234;
    bed_feedback(&b, 0, &report);
    send_asking(&b, 4, true);
    assert_int_equal(dropped_with(&b), 0x8000 | 1234);
    send_asking(&b, 5, false); /* who does not ask hears nothing */
    assert_int_equal(dropped_with(&b), -1);
    report.signal = 16; /* tokens: who drops has none to give (F-31) */
    bed_feedback(&b, 0, &report);
    send_asking(&b, 6, true);
    assert_int_equal(dropped_with(&b), 0x81f4);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r102_fewest_outstanding_then_the_fifo),
        cmocka_unit_test(r104_held_requests_leave_in_order_of_arrival),
        cmocka_unit_test(r105_the_fifo_is_bounded_in_number),
        cmocka_unit_test(f49_a_drop_says_when_to_come_again),
        cmocka_unit_test(r105_the_fifo_is_bounded_in_time),
        cmocka_unit_test(r105_credit_does_not_revive_the_expired),
        cmocka_unit_test(r106_sticky_goes_to_the_master_without_credit),
        cmocka_unit_test(r106_sticky_without_master_gets_drop),
        cmocka_unit_test(r12_policies_not_implemented_get_drop),
        cmocka_unit_test(requests_without_members_get_drop),
        cmocka_unit_test(multi_packet_req0_is_forwarded_and_counts_one_credit),
        cmocka_unit_test(r122_holds_back_for_an_idle_worker),
        cmocka_unit_test(r107_policy_changes_at_run_time_keep_counters),
        cmocka_unit_test(q33_jbsq_with_ample_n_is_jsq),
        cmocka_unit_test(q33_jbsq1_is_a_single_queue),
        cmocka_unit_test(drain_keeps_forwarding_until_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
