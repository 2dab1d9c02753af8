// SPDX-License-Identifier: Apache-2.0
// Life of the workers: join, leave, silence, restart, black holes.
#include <string.h>

#include "router/bed.h"

#define PERIOD (10 * MS)

/* Lets time pass while the given workers say that they are idle. */
static void pass(struct bed *b, uint64_t span, const uint32_t *alive, size_t alive_n, struct bed_report *said)
{
    for (uint64_t t = 0; t < span; t += PERIOD) {
        bed_tick(b, PERIOD);
        for (size_t i = 0; i < alive_n; i++) {
            bed_feedback(b, alive[i], &said[alive[i]]);
        }
    }
}

static void r113_nobody_is_eligible_before_join(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 2);
    bed_send(&b, 1);
    assert_int_equal(bed_take(&b), -1);
    assert_int_equal(bed_held(&b), 1); /* it waits for the first to join */
    bed_join(&b, 1, 2);
    assert_int_equal(bed_take(&b), 1);
    assert_int_equal(bed_counter(&b, BT_RC_JOINED), 1);
    /* the first FEEDBACK from an allowed source joins as well */
    bed_feedback(&b, 0, &(struct bed_report){.n = 2, .incarnation = 1});
    assert_true(bed_row(&b, 0).eligible);
    bed_close(&b);
}

static void r113_leave_drains_and_join_returns(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    bed_join(&b, 0, 2);
    bed_send(&b, 1);
    assert_int_equal(bed_take(&b), 0);
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .n = 2, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    assert_false(bed_row(&b, 0).eligible);
    bed_send(&b, 2);
    assert_int_equal(bed_take(&b), -1);
    /* what was sent before LEAVE and arrives after it does not take the worker back */
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .n = 2, .incarnation = 1});
    assert_false(bed_row(&b, 0).eligible);
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .served = 1, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    assert_int_equal(bed_outstanding(&b, 0), 0);
    bed_tick(&b, 200 * MS);
    assert_int_equal(bed_counter(&b, BT_RC_FORGOTTEN), 1);
    assert_false(bed_row(&b, 0).joined);
    bed_feedback(&b, 0,
                 &(struct bed_report){.received = 1, .served = 1, .n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    assert_true(bed_row(&b, 0).eligible);
    assert_int_equal(bed_take(&b), 0); /* the one that waited */
    assert_int_equal(bed_counter(&b, BT_RC_LEFT), 1);
    bed_close(&b);
}

static void r113_n_zero_stops_requests(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    bed_join(&b, 0, 2);
    bed_feedback(&b, 0, &(struct bed_report){.n = 0, .incarnation = 1});
    bed_send(&b, 1);
    assert_int_equal(bed_held(&b), 1);
    bed_feedback(&b, 0, &(struct bed_report){.n = 1, .incarnation = 1});
    assert_int_equal(bed_take(&b), 0);
    bed_close(&b);
}

static void r114_strangers_are_counted_and_ignored(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 2);
    struct bt_addr stranger = bt_addr_v4u(0x0a010000, 8007); /* right host, wrong port */
    bed_feedback(&b, 0, &(struct bed_report){.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN, .from = &stranger});
    assert_int_equal(bed_malformed(&b, BT_M21), 1);
    assert_int_equal(bed_counter(&b, BT_RC_JOINED), 0);
    bed_close(&b);
}

static void r115_n_follows_the_worker_below_the_configured_depth(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 4);
    bed_join(&b, 0, 64);
    assert_int_equal(bed_row(&b, 0).n, 4);
    for (uint16_t i = 0; i < 6; i++) {
        bed_send(&b, i);
    }
    assert_int_equal(bed_outstanding(&b, 0), 4);
    bed_feedback(&b, 0, &(struct bed_report){.received = 4, .served = 1, .n = 2, .incarnation = 1});
    assert_int_equal(bed_outstanding(&b, 0), 3); /* lowered below what is there: nothing is recalled */
    bed_feedback(&b, 0, &(struct bed_report){.received = 4, .served = 2, .n = 2, .incarnation = 1});
    assert_int_equal(bed_outstanding(&b, 0), 2);
    bed_feedback(&b, 0, &(struct bed_report){.received = 4, .served = 3, .n = 2, .incarnation = 1});
    assert_int_equal(bed_outstanding(&b, 0), 2); /* one was held */
    b.config.depth = 1;
    bed_apply(&b);
    bed_tick(&b, 0);
    assert_int_equal(bed_held(&b), 1);
    bed_close(&b);
}

/* with two routers the worker grants each its share; this router sees nothing but its own n. */
static void r137_share_of_n_is_what_the_worker_grants(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 4);
    bed_join(&b, 0, 4);
    for (uint16_t i = 0; i < 10; i++) {
        bed_send(&b, i);
    }
    assert_int_equal(bed_outstanding(&b, 0), 4);
    for (uint64_t served = 1; served <= 4; served++) { /* a second router appeared: half of it */
        bed_feedback(&b, 0, &(struct bed_report){.received = 4, .served = served, .n = 2, .incarnation = 1});
    }
    assert_int_equal(bed_outstanding(&b, 0), 2);
    bed_close(&b);
}

static void m22_n_above_the_cap_is_rejected(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 4);
    bed_feedback(&b, 0, &(struct bed_report){.n = 65, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    assert_int_equal(bed_malformed(&b, BT_M22), 1);
    assert_false(bed_row(&b, 0).joined);
    bed_feedback(&b, 0, &(struct bed_report){.n = 2, .served = 1, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    assert_int_equal(bed_malformed(&b, BT_M22), 2);
    bed_close(&b);
}

/* Also where the counters wrap, and also of a worker in steady service, whose FEEDBACK goes the short way. */
static void m22_served_never_passes_received_at_the_wrap(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 3);
    const uint64_t before = UINT64_MAX - 2u;
    bed_feedback(&b, 0,
                 &(struct bed_report){
                     .received = before, .served = before, .n = 3, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    for (uint16_t i = 0; i < 3; i++) {
        bed_send(&b, i);
    }
    struct bed_report said = {
        .received = UINT64_MAX, .served = UINT64_MAX - 1u, .n = 3, .incarnation = 1, .flags = BT_FEEDBACK_PAIR};
    bed_feedback(&b, 0, &said);
    assert_int_equal(bed_outstanding(&b, 0), 2);
    said.served = 0; /* three were sent, two received, three served */
    said.req_id = 1;
    bed_feedback(&b, 0, &said);
    assert_int_equal(bed_malformed(&b, BT_M22), 1);
    assert_int_equal(bed_outstanding(&b, 0), 2);
    said.received = 0;
    said.served = UINT64_MAX;
    bed_feedback(&b, 0, &said);
    assert_int_equal(bed_malformed(&b, BT_M22), 1);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    bed_close(&b);
}

static void r112_restart_returns_all_credit(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 3);
    bed_join(&b, 0, 3);
    for (uint16_t i = 0; i < 3; i++) {
        bed_send(&b, i);
    }
    bed_discard(&b);
    bed_feedback(&b, 0, &(struct bed_report){.n = 3, .incarnation = 2, .flags = BT_FEEDBACK_JOIN});
    assert_int_equal(bed_outstanding(&b, 0), 0);
    assert_int_equal(bed_counter(&b, BT_RC_RESTARTED), 1);
    /* a word of its former life */
    bed_feedback(&b, 0, &(struct bed_report){.received = 3, .served = 3, .n = 3, .incarnation = 1});
    assert_int_equal(bed_malformed(&b, BT_M22), 1);
    assert_int_equal(bed_outstanding(&b, 0), 0);
    bed_close(&b);
}

/* A worker whose wall clock was set back starts with an older incarnation. While the former life may still have words
 * on the way it is refused, counted; once nothing valid was heard for T_dead it is believed. */
static void r112_an_older_incarnation_is_believed_after_silence(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    bed_feedback(&b, 0, &(struct bed_report){.n = 2, .incarnation = 900, .flags = BT_FEEDBACK_JOIN});
    bed_send(&b, 1);
    bed_discard(&b);
    const struct bed_report back = {.n = 2, .incarnation = 5, .flags = BT_FEEDBACK_JOIN};
    bed_feedback(&b, 0, &back);
    assert_int_equal(bed_malformed(&b, BT_M22), 1);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    assert_int_equal(bed_row(&b, 0).incarnation, 900);
    bed_tick(&b, SEC - MS);
    bed_feedback(&b, 0, &back);
    assert_int_equal(bed_malformed(&b, BT_M22), 2); /* no sign of life: T_dead is not put off */
    bed_tick(&b, MS);
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .served = 2, .n = 2, .incarnation = 5});
    assert_int_equal(bed_malformed(&b, BT_M22), 3); /* what contradicts itself is never believed */
    bed_feedback(&b, 0, &back);
    assert_int_equal(bed_malformed(&b, BT_M22), 3);
    assert_int_equal(bed_outstanding(&b, 0), 0);
    assert_true(bed_row(&b, 0).eligible);
    assert_int_equal(bed_counter(&b, BT_RC_RESTARTED), 1);
    bed_close(&b);
}

static void r111_credit_of_a_lost_request_returns(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join(&b, 0, 1);
    bed_send(&b, 1);
    bed_discard(&b); /* the network lost it */
    bed_send(&b, 2);
    const uint32_t w = 0;
    struct bed_report said = {.n = 1, .incarnation = 1, .flags = BT_FEEDBACK_PERIODIC};
    pass(&b, 190 * MS, &w, 1, &said);
    assert_int_equal(bed_held(&b), 1);
    pass(&b, 60 * MS, &w, 1, &said);
    assert_int_equal(bed_take(&b), 0);
    assert_int_equal(bed_counter(&b, BT_RC_CREDITS_LOST), 1);
    assert_int_equal(bed_row(&b, 0).lost, 1);
    bed_close(&b);
}

static void r138_silence_makes_suspect_and_feedback_readmits(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 1);
    bed_join_all(&b, 1);
    const uint32_t w = 1;
    struct bed_report said[2] = {{0}, {.n = 1, .incarnation = 1}};
    pass(&b, 990 * MS, &w, 1, said);
    assert_true(bed_row(&b, 0).eligible);
    pass(&b, 200 * MS, &w, 1, said);
    assert_true(bed_row(&b, 0).suspect);
    assert_false(bed_row(&b, 0).eligible);
    assert_true(bed_row(&b, 1).eligible);
    assert_int_equal(bed_counter(&b, BT_RC_SUSPECTED), 1);
    bed_send(&b, 1);
    bed_send(&b, 2);
    assert_int_equal(bed_take(&b), 1);
    assert_int_equal(bed_held(&b), 1);
    bed_feedback(&b, 0, &(struct bed_report){.n = 1, .incarnation = 1});
    assert_int_equal(bed_take(&b), 0);
    assert_int_equal(bed_counter(&b, BT_RC_READMITTED), 1);
    bed_close(&b);
}

/* a dead worker costs at most n requests. */
static void r138_a_dead_worker_gets_at_most_n_more(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 3);
    bed_join_all(&b, 3);
    uint64_t served = 0, sent0 = 0;
    for (int i = 0; i < 200; i++) { /* worker 0 is dead, worker 1 answers at once */
        for (int burst = 0; burst < (i == 0 ? 6 : 1); burst++) {
            bed_send(&b, (uint16_t)(i + burst));
        }
        int w;
        while ((w = bed_take(&b)) >= 0) {
            if (w == 0) {
                sent0++;
                continue;
            }
            served++;
            bed_feedback(&b, 1, &(struct bed_report){.received = served, .served = served, .n = 3, .incarnation = 1});
        }
        bed_tick(&b, 10 * MS);
    }
    assert_int_equal(sent0, 3);
    assert_true(bed_row(&b, 0).suspect);
    bed_close(&b);
}

/* who leaves and owes nothing is forgotten at once, not when workers are looked at anyway. */
static void r113_a_worker_that_owes_nothing_leaves_at_once(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join(&b, 0, 1);
    bed_tick(&b, MS);
    bed_feedback(&b, 0, &(struct bed_report){.n = 1, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    assert_true(bt_router_next(b.r) <= b.now + MS);
    bed_tick(&b, MS);
    assert_int_equal(bed_counter(&b, BT_RC_FORGOTTEN), 1);
    bed_close(&b);
}

/* who leaves has T_max to answer what it owes, and not a nanosecond more. */
static void r113_a_worker_that_leaves_has_t_max(void **state)
{
    (void)state;
    for (uint64_t early = 0; early < 2; early++) {
        struct bed b;
        bed_open(&b, 1, 1);
        bed_join(&b, 0, 1);
        bed_send(&b, 1);
        bed_feedback(&b, 0, &(struct bed_report){.received = 1, .n = 1, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
        bed_tick(&b, b.config.request_timeout_ns - early);
        assert_int_equal(bed_counter(&b, BT_RC_FORGOTTEN), 1 - early);
        bed_close(&b);
    }
}

static void r138_icmp_makes_suspect_at_once(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 2, 1);
    bed_join_all(&b, 1);
    bt_router_unreachable(b.r, b.now, &b.members[1]);
    assert_true(bed_row(&b, 1).suspect);
    struct bt_addr other = bt_addr_v4u(0x0a0a0a0a, 1);
    bt_router_unreachable(b.r, b.now, &other);
    assert_int_equal(bed_counter(&b, BT_RC_UNREACHABLE), 1);
    bed_close(&b);
}

/* what a worker that never returns owes is given up after T_max. */
static void r138_credits_of_the_dead_are_written_off(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    bed_join(&b, 0, 2);
    bed_send(&b, 1);
    bed_send(&b, 2);
    bed_discard(&b);
    pass(&b, 12 * SEC, NULL, 0, NULL);
    assert_int_equal(bed_outstanding(&b, 0), 0);
    assert_false(bed_row(&b, 0).joined);
    assert_false(bed_row(&b, 0).suspect); /* who is forgotten is not looked at any more */
    assert_int_equal(bed_counter(&b, BT_RC_FORGOTTEN), 1);
    assert_int_equal(bed_counter(&b, BT_RC_SUSPECTED), 1);
    /* it was only cut off, and has the first of the two still: its own word counts again */
    bed_feedback(&b, 0, &(struct bed_report){.received = 1, .served = 0, .n = 2, .incarnation = 1});
    assert_true(bed_row(&b, 0).eligible);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    bed_close(&b);
}

/* One request to each worker in turn by round robin; bad answers DROPPED at once, good serves. */
static void eject_round(struct bed *b, uint32_t bad, uint64_t *served)
{
    bed_send(b, 1);
    int w = bed_take(b);
    if (w < 0) {
        return;
    }
    served[w]++;
    uint8_t flags = BT_FEEDBACK_PAIR | ((uint32_t)w < bad ? BT_FEEDBACK_DROPPED : 0);
    bed_feedback(
        b, (uint32_t)w,
        &(struct bed_report){
            .received = served[w], .served = served[w], .n = 2, .incarnation = 1, .flags = flags, .req_id = 1});
}

static void open_round_robin(struct bed *b, uint32_t k)
{
    bed_defaults(b, k, 2);
    b->config.policy = BT_ROUTER_ROUND_ROBIN;
    bed_build(b);
    bed_join_all(b, 2);
}

static uint32_t ejected(const struct bed *b)
{
    struct bt_router_stats stats;
    bt_router_read_stats(b->r, b->now, &stats);
    return stats.ejected;
}

static void r139a_black_hole_is_ejected_and_backs_off(void **state)
{
    (void)state;
    struct bed b;
    uint64_t served[8] = {0};
    open_round_robin(&b, 8);
    for (int i = 0; i < 19 * 8; i++) {
        eject_round(&b, 1, served);
        bed_tick(&b, 50000);
    }
    assert_int_equal(ejected(&b), 0); /* 19 requests are no evidence */
    for (int i = 0; i < 50; i++) {
        eject_round(&b, 1, served);
        bed_tick(&b, 50000);
    }
    assert_int_equal(ejected(&b), 1);
    assert_true(bed_row(&b, 0).ejected);
    uint64_t spans[3];
    for (int life = 0; life < 3; life++) {
        uint64_t since = b.now, before = served[0];
        for (int i = 0; bed_row(&b, 0).ejected && i < 100000; i++) {
            eject_round(&b, 1, served);
            bed_feedback(&b, 0,
                         &(struct bed_report){.received = served[0], .served = served[0], .n = 2, .incarnation = 1});
            bed_tick(&b, MS); /* it says that it is idle, and goes on living */
        }
        spans[life] = b.now - since;
        assert_int_equal(served[0], before); /* nothing while out */
        for (int i = 0; !bed_row(&b, 0).ejected && i < 100000; i++) {
            eject_round(&b, 1, served);
            bed_tick(&b, 50000);
        }
    }
    assert_true(spans[0] > 900 * MS && spans[0] < 1300 * MS);
    assert_true(spans[1] > 2 * spans[0] - 300 * MS);
    assert_true(spans[2] > 2 * spans[1] - 300 * MS);
    bed_close(&b);
}

static void r139a_a_failing_pool_is_not_ejected(void **state)
{
    (void)state;
    struct bed b;
    uint64_t served[8] = {0};
    open_round_robin(&b, 8);
    for (int i = 0; i < 800; i++) { /* everybody is overloaded: nobody stands out */
        eject_round(&b, 8, served);
        bed_tick(&b, 50000);
    }
    assert_int_equal(ejected(&b), 0);
    bed_close(&b);
}

static void r139a_never_more_than_half_the_pool(void **state)
{
    (void)state;
    struct bed b;
    uint64_t served[9] = {0};
    open_round_robin(&b, 9);
    for (uint32_t bad = 1; bad <= 6; bad++) { /* they fail one after the other */
        for (int i = 0; i < 600; i++) {
            eject_round(&b, bad, served);
            bed_tick(&b, 10000);
        }
        assert_true(ejected(&b) * 2 <= 9);
    }
    assert_int_equal(ejected(&b), 4);
    assert_true(bed_counter(&b, BT_RC_EJECTION_SPARED) > 0);
    bed_close(&b);
}

/* The share out of the pool is bounded at all times, not only when a worker is ejected: here the healthy half leaves.
 */
static void r139a_a_shrinking_pool_takes_the_ejected_back(void **state)
{
    (void)state;
    struct bed b;
    uint64_t served[4] = {0};
    open_round_robin(&b, 4);
    for (uint32_t bad = 1; bad <= 2; bad++) {
        for (int i = 0; i < 600; i++) {
            eject_round(&b, bad, served);
            bed_tick(&b, 10000);
        }
    }
    assert_int_equal(ejected(&b), 2);
    for (uint32_t w = 2; w < 4; w++) {
        bed_feedback(&b, w,
                     &(struct bed_report){
                         .received = served[w], .served = served[w], .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    }
    bed_send(&b, 7); /* nobody: it waits */
    assert_int_equal(bed_take(&b), -1);
    bed_tick(&b, 100 * MS);
    assert_int_equal(ejected(&b), 1);
    bed_tick(&b, 0);
    assert_in_range(bed_take(&b), 0, 1);
    bed_tick(&b, MS);
    bt_router_unreachable(b.r, b.now, &b.members[bed_row(&b, 0).ejected ? 1 : 0]); /* and then one dies */
    bed_tick(&b, 100 * MS);
    assert_int_equal(ejected(&b), 0);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r113_nobody_is_eligible_before_join),
        cmocka_unit_test(r113_leave_drains_and_join_returns),
        cmocka_unit_test(r113_n_zero_stops_requests),
        cmocka_unit_test(r114_strangers_are_counted_and_ignored),
        cmocka_unit_test(r115_n_follows_the_worker_below_the_configured_depth),
        cmocka_unit_test(r137_share_of_n_is_what_the_worker_grants),
        cmocka_unit_test(m22_n_above_the_cap_is_rejected),
        cmocka_unit_test(m22_served_never_passes_received_at_the_wrap),
        cmocka_unit_test(r112_restart_returns_all_credit),
        cmocka_unit_test(r112_an_older_incarnation_is_believed_after_silence),
        cmocka_unit_test(r111_credit_of_a_lost_request_returns),
        cmocka_unit_test(r138_silence_makes_suspect_and_feedback_readmits),
        cmocka_unit_test(r138_a_dead_worker_gets_at_most_n_more),
        cmocka_unit_test(r113_a_worker_that_owes_nothing_leaves_at_once),
        cmocka_unit_test(r113_a_worker_that_leaves_has_t_max),
        cmocka_unit_test(r138_icmp_makes_suspect_at_once),
        cmocka_unit_test(r138_credits_of_the_dead_are_written_off),
        cmocka_unit_test(r139a_black_hole_is_ejected_and_backs_off),
        cmocka_unit_test(r139a_a_failing_pool_is_not_ejected),
        cmocka_unit_test(r139a_never_more_than_half_the_pool),
        cmocka_unit_test(r139a_a_shrinking_pool_takes_the_ejected_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
