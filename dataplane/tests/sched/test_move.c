// SPDX-License-Identifier: Apache-2.0
// Migration of flow groups (Z-13): nothing lost, nothing out of order, one at a time, and it ends without traffic.
#include "sched/bed.h"

static const uint64_t group_0[8] = {1}, groups_0_4[8] = {0x11};

static enum bt_sched_moved step(struct bed *b, uint32_t home, bool empty, uint64_t now)
{
    return bt_sched_move_step(b->s, home, empty, now);
}

static void executes(struct bed *b, uint32_t core, const char *events)
{
    while (bed_next(b, core) == BT_SCHED_NETWORK) {
        bed_done(b, b->w.home);
    }
    assert_int_equal(b->w.kind, BT_SCHED_HANDLE);
    assert_string_equal(bed_events(b), events);
    bed_handled(b, core);
}

static void z13_old_home_first_then_new_home(void **state)
{
    static struct bed b;
    (void)state;
    bed_stealing(&b);
    bed_network(&b, 0);
    bed_deliver(&b, 0, 0, 0); /* ready when it leaves */
    bed_deliver(&b, 0, 1, 4); /* of another group: it stays */
    assert_true(bt_sched_move(b.s, 0, 1, group_0, 100));
    assert_true(bt_sched_move_pending(b.s));
    assert_false(bt_sched_moving(b.s, 0));
    assert_int_equal(step(&b, 1, true, 0), BT_SCHED_MOVE_NOTHING);
    assert_int_equal(step(&b, 0, true, 0), BT_SCHED_MOVE_REDIRECT);
    assert_true(bt_sched_moving(b.s, 0));
    assert_true(bt_sched_move_set(b.s, 0));
    assert_false(bt_sched_move_set(b.s, 4));
    assert_true(bed_deliver(&b, 0, 2, 0)); /* late, at the old home */
    bed_done(&b, 0);
    bed_network(&b, 1);
    assert_true(bed_deliver(&b, 1, 3, 0)); /* early, at the new one */
    assert_int_equal(step(&b, 1, true, 0), BT_SCHED_MOVE_NOTHING);
    assert_int_equal(step(&b, 0, false, 0), BT_SCHED_MOVE_NOTHING); /* something still waits there */
    assert_true(bed_deliver(&b, 0, 4, 0));
    assert_int_equal(step(&b, 0, true, 0), BT_SCHED_MOVE_NOTHING);
    assert_int_equal(bt_sched_home(b.s, 0), 0);
    assert_int_equal(step(&b, 1, true, 0), BT_SCHED_MOVE_DONE);
    assert_int_equal(bt_sched_home(b.s, 0), 1);
    assert_false(bt_sched_move_pending(b.s));
    bed_done(&b, 1);
    executes(&b, 0, "1");
    executes(&b, 1, "0 2 4 3");
    struct bt_sched_counts counts;
    bt_sched_read_counts(b.s, 1, &counts);
    assert_int_equal(counts.moved, 1);
}

static void z13_it_ends_without_traffic(void **state)
{
    static struct bed b;
    (void)state;
    bed_stealing(&b);
    assert_int_equal(bt_sched_move_phase(b.s), BT_SCHED_PHASE_REST);
    assert_true(bt_sched_move(b.s, 0, 3, groups_0_4, 100));
    assert_int_equal(bt_sched_move_phase(b.s), BT_SCHED_PHASE_ASKED);
    assert_int_equal(step(&b, 0, true, 1000), BT_SCHED_MOVE_REDIRECT);
    assert_int_equal(step(&b, 3, true, 1099), BT_SCHED_MOVE_NOTHING);
    assert_int_equal(step(&b, 0, true, 1099), BT_SCHED_MOVE_NOTHING);
    assert_int_equal(step(&b, 3, true, 1099), BT_SCHED_MOVE_NOTHING); /* not yet */
    assert_int_equal(bt_sched_move_phase(b.s), BT_SCHED_PHASE_HOLDING);
    assert_int_equal(step(&b, 3, true, 1100), BT_SCHED_MOVE_NOTHING); /* it asks for the rest */
    assert_int_equal(bt_sched_move_phase(b.s), BT_SCHED_PHASE_CLOSING);
    assert_int_equal(step(&b, 0, true, 1100), BT_SCHED_MOVE_NOTHING);
    assert_int_equal(bt_sched_move_phase(b.s), BT_SCHED_PHASE_HANDED);
    assert_int_equal(step(&b, 3, true, 1100), BT_SCHED_MOVE_DONE);
    assert_int_equal(bt_sched_move_phase(b.s), BT_SCHED_PHASE_REST);
    assert_int_equal(bt_sched_home(b.s, 0), 3);
    assert_int_equal(bt_sched_home(b.s, 4), 3);
}

static void z13_a_flow_that_is_executed_holds_its_group(void **state)
{
    static struct bed b;
    (void)state;
    bed_stealing(&b);
    bed_network(&b, 0);
    bed_deliver(&b, 0, 0, 0);
    bed_done(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
    struct bt_sched_work w = b.w;
    bed_network(&b, 0);
    bed_deliver(&b, 0, 1, 0); /* waits in the busy flow */
    bt_sched_move(b.s, 0, 1, group_0, 0);
    step(&b, 0, true, 0);
    bed_deliver(&b, 0, 2, 0);
    bed_done(&b, 0);
    step(&b, 1, true, 0);
    for (int i = 0; i < 3; i++) {
        step(&b, 0, true, 0);
        assert_int_equal(step(&b, 1, true, 0), BT_SCHED_MOVE_NOTHING);
    }
    b.w = w;
    bed_handled(&b, 0);
    step(&b, 0, true, 0);
    assert_int_equal(step(&b, 1, true, 0), BT_SCHED_MOVE_DONE);
    executes(&b, 1, "1 2");
}

static void z13_one_at_a_time_and_from_where_they_are(void **state)
{
    static struct bed b;
    static const uint64_t none[8] = {0}, apart[8] = {3};
    (void)state;
    bed_stealing(&b);
    assert_false(bt_sched_move(b.s, 0, 1, none, 0));
    assert_false(bt_sched_move(b.s, 0, 1, apart, 0)); /* group 1 is at core 1 */
    assert_false(bt_sched_move(b.s, 0, 0, group_0, 0));
    assert_false(bt_sched_move(b.s, 0, 4, group_0, 0));
    assert_true(bt_sched_move(b.s, 0, 1, group_0, 0));
    assert_false(bt_sched_move(b.s, 2, 3, (const uint64_t[8]){4}, 0));
    assert_false(bt_sched_sleep(b.s, 0)); /* nobody sleeps over it */
}

static void z13_a_packet_at_a_third_core_is_refused(void **state)
{
    static struct bed b;
    struct bt_sched_counts counts;
    (void)state;
    bed_stealing(&b);
    assert_false(bed_deliver(&b, 2, 0, 0));
    bt_sched_move(b.s, 0, 1, group_0, 0);
    step(&b, 0, true, 0);
    assert_false(bed_deliver(&b, 2, 0, 0));
    step(&b, 1, true, 0);
    step(&b, 0, true, 0);
    assert_false(bed_deliver(&b, 0, 0, 0)); /* it said that nothing more would come */
    assert_int_equal(step(&b, 1, true, 0), BT_SCHED_MOVE_DONE);
    assert_false(bed_deliver(&b, 0, 0, 0));
    assert_true(bed_deliver(&b, 1, 0, 0));
    bt_sched_read_counts(b.s, 2, &counts);
    assert_int_equal(counts.astray, 2);
    bt_sched_read_counts(b.s, 0, &counts);
    assert_int_equal(counts.astray, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z13_old_home_first_then_new_home),
        cmocka_unit_test(z13_it_ends_without_traffic),
        cmocka_unit_test(z13_a_flow_that_is_executed_holds_its_group),
        cmocka_unit_test(z13_one_at_a_time_and_from_where_they_are),
        cmocka_unit_test(z13_a_packet_at_a_third_core_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
