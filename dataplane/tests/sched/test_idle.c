// SPDX-License-Identifier: Apache-2.0
// What a core looks at, and in which order (Z-03, Z-24); who may do whose network (D-2); who is woken.
#include "sched/bed.h"

static void look(struct bed *b, uint32_t core)
{
    bed_network(b, core);
    bed_done(b, core);
}

static void ready_at(struct bed *b, uint32_t home, uint32_t event, uint32_t flow)
{
    bed_network(b, home);
    assert_true(bed_deliver(b, home, event, flow));
    bed_done(b, home);
}

static void z24_own_then_queues_of_others_then_their_networks(void **state)
{
    static struct bed b;
    (void)state;
    bed_stealing(&b);
    ready_at(&b, 1, 0, 1);
    ready_at(&b, 0, 1, 0);
    bt_sched_waiting(b.s, 2, 5);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
    assert_int_equal(b.w.flow, 0); /* own before another one's */
    bed_handled(&b, 0);
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
    assert_int_equal(b.w.flow, 1); /* a queue before a network */
    bed_handled(&b, 0);
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NETWORK);
    assert_int_equal(b.w.home, 2);
    bt_sched_waiting(b.s, 2, 0);
    bed_done(&b, 2);
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NOTHING);
    struct bt_sched_counts counts;
    bt_sched_read_counts(b.s, 0, &counts);
    assert_int_equal(counts.handled, 2);
    assert_int_equal(counts.stolen, 1);
    assert_int_equal(counts.borrowed, 1);
}

/* From a random core on: each of the others is robbed first about as often. */
static void z24_the_order_among_others_is_random(void **state)
{
    static struct bed b;
    uint32_t first[4] = {0};
    (void)state;
    bed_stealing(&b);
    for (uint32_t i = 0; i < 3000; i++) {
        for (uint32_t home = 1; home < 4; home++) {
            ready_at(&b, home, home, home);
        }
        for (uint32_t taken = 0; taken < 3; taken++) {
            look(&b, 0);
            assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
            first[b.w.home] += taken == 0;
            bed_handled(&b, 0);
        }
        look(&b, 0);
        assert_int_equal(bed_next(&b, 0), BT_SCHED_NOTHING);
        for (uint32_t home = 1; home < 4; home++) {
            assert_int_equal(bed_next(&b, home), BT_SCHED_NOTHING);
        }
    }
    for (uint32_t home = 1; home < 4; home++) {
        assert_in_range(first[home], 850, 1150);
    }
}

static void z03_run_to_completion_leaves_others_alone(void **state)
{
    static struct bed b;
    (void)state;
    bed_init(&b, (struct bt_sched_setup){.mode = BT_SCHED_RUN_TO_COMPLETION, .cores = 2, .flows = 4, .groups = 2});
    bed_network(&b, 0);
    bed_deliver(&b, 0, 0, 0);
    bed_deliver(&b, 0, 1, 1);
    bed_done(&b, 0);
    bt_sched_waiting(b.s, 0, 3);
    look(&b, 1);
    assert_int_equal(bed_next(&b, 1), BT_SCHED_NOTHING);
    assert_true(bt_sched_sleep(b.s, 1));
    for (uint32_t flow = 0; flow < 2; flow++) { /* the batch to its end, then the network */
        assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
        assert_int_equal(b.w.flow, flow);
        assert_int_equal(b.w.wake, BT_SCHED_NONE);
        bed_handled(&b, 0);
    }
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NOTHING);
    assert_false(bt_sched_sleep(b.s, 0)); /* packets wait */
}

static void d2_a_taken_token_is_left(void **state)
{
    static struct bed b;
    (void)state;
    bed_stealing(&b);
    bed_network(&b, 1);
    bt_sched_waiting(b.s, 1, 9);
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NOTHING);
    bed_done(&b, 1);
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NETWORK);
    assert_int_equal(b.w.home, 1);
    assert_int_equal(bed_next(&b, 1), BT_SCHED_NOTHING); /* its own token is with core 0: it goes on */
}

/* What a thief ends it sends, if nobody does the home's network; else who does finds it. */
static void d2_finished_flows_leave_by_the_holder(void **state)
{
    static struct bed b;
    (void)state;
    bed_stealing(&b);
    ready_at(&b, 1, 0, 1);
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
    assert_true(bt_sched_executed(b.s, 0, 1));
    assert_int_equal(bt_sched_finished(b.s, 1), 1);
    bt_sched_replied(b.s, 1, 1);
    assert_int_equal(bt_sched_finished(b.s, 1), BT_SCHED_NONE);
    assert_false(bt_sched_release(b.s, 1));
    assert_int_equal(bed_next(&b, 1), BT_SCHED_NOTHING);
    ready_at(&b, 1, 0, 1);
    assert_int_equal(bed_next(&b, 1), BT_SCHED_HANDLE);
    struct bt_sched_work w = b.w;
    bed_network(&b, 1);
    assert_false(bt_sched_executed(b.s, 0, w.flow));
    assert_true(bt_sched_release(b.s, 1)); /* there is something after all */
    bed_done(&b, 1);
}

static void d2_a_home_may_keep_its_network(void **state)
{
    static struct bed b;
    (void)state;
    bed_init(&b, (struct bt_sched_setup){
                     .mode = BT_SCHED_WORK_STEALING, .cores = 2, .flows = 2, .groups = 2, .keep_stack = true});
    bt_sched_open(b.s, 1, 1);
    ready_at(&b, 1, 0, 1);
    bt_sched_waiting(b.s, 1, 1);
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE); /* it steals */
    assert_false(bt_sched_executed(b.s, 0, 1));         /* and sends nothing */
    look(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NOTHING);
    assert_true(bt_sched_sleep(b.s, 0));
    assert_int_equal(bed_next(&b, 1), BT_SCHED_NOTHING);
    bed_network(&b, 1);
    assert_int_equal(bt_sched_finished(b.s, 1), 1);
}

static void z24_sleepers_are_named_when_flows_are_left(void **state)
{
    static struct bed b;
    (void)state;
    bed_stealing(&b);
    assert_true(bt_sched_sleep(b.s, 2));
    assert_true(bt_sched_sleep(b.s, 3));
    bed_network(&b, 0);
    bed_deliver(&b, 0, 0, 0);
    bed_deliver(&b, 0, 1, 4);
    bed_done(&b, 0);
    assert_false(bt_sched_sleep(b.s, 1)); /* there is something to steal */
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
    assert_int_equal(b.w.wake, 2);
    bed_network(&b, 2);
    bed_done(&b, 2);
    assert_int_equal(bed_next(&b, 2), BT_SCHED_HANDLE);
    assert_int_equal(b.w.wake, BT_SCHED_NONE); /* nothing is left */
    assert_true(bt_sched_rouse(b.s, 3));
    assert_false(bt_sched_rouse(b.s, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z24_own_then_queues_of_others_then_their_networks),
        cmocka_unit_test(z24_the_order_among_others_is_random),
        cmocka_unit_test(z03_run_to_completion_leaves_others_alone),
        cmocka_unit_test(d2_a_taken_token_is_left),
        cmocka_unit_test(d2_finished_flows_leave_by_the_holder),
        cmocka_unit_test(d2_a_home_may_keep_its_network),
        cmocka_unit_test(z24_sleepers_are_named_when_flows_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
