// SPDX-License-Identifier: Apache-2.0
// A flow's states and the order of its events (Z-21, Z-22), batches (Z-04), and what a setup may be.
#include "sched/bed.h"

static void z21_idle_ready_busy(void **state)
{
    static struct bed b;
    (void)state;
    bed_stealing(&b);
    bed_network(&b, 0);
    assert_true(bed_deliver(&b, 0, 0, 0));
    assert_true(bed_deliver(&b, 0, 1, 0)); /* ready already: it is in the queue once */
    assert_true(bed_deliver(&b, 0, 2, 4));
    bed_done(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
    assert_int_equal(b.w.flow, 0);
    assert_string_equal(bed_events(&b), "0 1");
    struct bt_sched_work first = b.w;
    bed_network(&b, 0);
    assert_true(bed_deliver(&b, 0, 3, 0)); /* busy: it waits in the flow */
    bed_done(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
    assert_int_equal(b.w.flow, 4);
    bed_handled(&b, 0);
    bed_network(&b, 0);
    bed_done(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NOTHING);
    b.w = first;
    bed_handled(&b, 0); /* its replies have left: ready again */
    bed_network(&b, 0);
    bed_done(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
    assert_string_equal(bed_events(&b), "3");
    bed_handled(&b, 0);
    bed_network(&b, 0);
    bed_done(&b, 0);
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NOTHING);
}

static void z22_take_max_bounds_what_a_handler_gets(void **state)
{
    static struct bed b;
    static const char *const want[] = {"0 1", "3", "2"};
    (void)state;
    bed_init(&b, (struct bt_sched_setup){
                     .mode = BT_SCHED_WORK_STEALING, .cores = 1, .flows = 2, .groups = 1, .take_max = 2});
    bed_network(&b, 0);
    for (uint32_t e = 0; e < 3; e++) {
        bed_deliver(&b, 0, e, 0);
    }
    bed_deliver(&b, 0, 3, 1);
    bed_done(&b, 0);
    for (int i = 0; i < 3; i++) { /* the rest goes to the end of the queue */
        assert_int_equal(bed_next(&b, 0), BT_SCHED_HANDLE);
        assert_string_equal(bed_events(&b), want[i]);
        bed_handled(&b, 0);
        bed_network(&b, 0);
        bed_done(&b, 0);
    }
    assert_int_equal(bed_next(&b, 0), BT_SCHED_NOTHING);
}

static void z04_a_batch_is_what_is_there_up_to_its_bound(void **state)
{
    (void)state;
    assert_int_equal(bt_sched_batch(0, 64), 0);
    assert_int_equal(bt_sched_batch(63, 64), 63);
    assert_int_equal(bt_sched_batch(64, 64), 64);
    assert_int_equal(bt_sched_batch(1000, 64), 64);
    assert_int_equal(bt_sched_batch(1000, 1), 1);
}

static void setups_out_of_bounds(void **state)
{
    static _Alignas(64) uint8_t memory[1 << 16];
    const struct bt_sched_setup good = {.cores = 2, .flows = 4, .groups = 4},
                                bad[] = {
                                    {.cores = 0, .flows = 4, .groups = 4},
                                    {.cores = 65, .flows = 4, .groups = 4},
                                    {.cores = 2, .flows = 0, .groups = 4},
                                    {.cores = 2, .flows = (1 << 24) + 1, .groups = 4},
                                    {.cores = 2, .flows = 4, .groups = 0},
                                    {.cores = 2, .flows = 4, .groups = 513},
                                };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(bt_sched_bytes(&bad[i]), 0);
        assert_null(bt_sched_init(memory, sizeof memory, &bad[i]));
    }
    size_t bytes = bt_sched_bytes(&good);
    assert_true(bytes > 0 && bytes <= sizeof memory);
    assert_null(bt_sched_init(memory, bytes - 1u, &good));
    assert_null(bt_sched_init(memory + 8, bytes, &good));
    assert_null(bt_sched_init(NULL, bytes, &good));
    assert_non_null(bt_sched_init(memory, bytes, &good));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z21_idle_ready_busy),
        cmocka_unit_test(z22_take_max_bounds_what_a_handler_gets),
        cmocka_unit_test(z04_a_batch_is_what_is_there_up_to_its_bound),
        cmocka_unit_test(setups_out_of_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
