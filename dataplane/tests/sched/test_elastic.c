// SPDX-License-Identifier: Apache-2.0
// What is measured (Z-14), when the controller steps (Z-15), and along which ladder (Z-16).
#include "sched/bed.h"

static void take(struct bt_measure *m, uint64_t queued, uint64_t busy, uint64_t idle)
{
    struct bt_meter meter = {0};
    bt_meter_turn(&meter, queued, busy, idle);
    bt_measure_take(m, &meter);
}

static bool near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

static void z14_three_speeds_at_once(void **state)
{
    struct bt_measure m = {0};
    (void)state;
    take(&m, 100, 1000, 1000);
    assert_true(near(m.queue[BT_SPEED_SLOW], 100)); /* the first one is taken as it is */
    take(&m, 0, 0, 2000);
    assert_true(near(m.queue[BT_SPEED_FAST], 50));
    assert_true(near(m.queue[BT_SPEED_MIDDLE], 75));
    assert_true(near(m.queue[BT_SPEED_SLOW], 95));
    assert_true(near(m.idle[BT_SPEED_FAST], 0.75));
    assert_true(near(m.idle[BT_SPEED_SLOW], 0.525));
}

static void z14_means_over_turns_that_found_something(void **state)
{
    struct bt_meter meter = {0};
    struct bt_measure m = {0};
    (void)state;
    bt_measure_take(&m, &meter); /* no time, nothing said */
    assert_false(m.any);
    bt_meter_turn(&meter, 10, 3000, 0);
    bt_meter_turn(&meter, 0, 0, 4000);
    bt_meter_turn(&meter, 30, 1000, 0);
    bt_measure_take(&m, &meter);
    assert_true(near(m.queue[BT_SPEED_FAST], 20));
    assert_true(near(m.turn_ns[BT_SPEED_FAST], 2000));
    assert_true(near(m.idle[BT_SPEED_FAST], 0.5));
    assert_int_equal(meter.turns, 0);
}

static void z14_delay_is_whole_turns(void **state)
{
    struct bt_measure m = {.queue = {65, 64, 0}, .turn_ns = {1000, 1000, 1000}};
    (void)state;
    assert_true(near(bt_measure_delay_ns(&m, BT_SPEED_FAST, 64), 2000));
    assert_true(near(bt_measure_delay_ns(&m, BT_SPEED_MIDDLE, 64), 1000));
    assert_true(near(bt_measure_delay_ns(&m, BT_SPEED_SLOW, 64), 0));
    assert_true(near(bt_measure_delay_ns(&m, BT_SPEED_FAST, 1), 65000));
}

static const double capacity[] = {1, 2, 3, 4};
static const struct bt_elastic_setup setup = {capacity, 4, 250, 0.1, 5};

static void z15_up_at_once_and_as_often_as_needed(void **state)
{
    struct bt_elastic e;
    (void)state;
    bt_elastic_init(&e, &setup, 0);
    assert_int_equal(bt_elastic_tick(&e, 250, 0), BT_STEP_NONE); /* at the bound is within it */
    for (uint32_t rung = 1; rung <= 3; rung++) {
        assert_int_equal(bt_elastic_tick(&e, 251, 0), BT_STEP_UP);
        assert_int_equal(e.rung, rung);
    }
    assert_int_equal(bt_elastic_tick(&e, 1e9, 0), BT_STEP_NONE); /* there is no more */
    assert_int_equal(e.rung, 3);
}

static void z15_down_when_the_rung_below_carries_it(void **state)
{
    struct bt_elastic e;
    (void)state;
    bt_elastic_init(&e, &setup, 3);
    for (int tick = 0; tick < 5; tick++) {
        assert_int_equal(bt_elastic_tick(&e, 0, 1), BT_STEP_NONE); /* hold-off */
    }
    assert_int_equal(bt_elastic_tick(&e, 0, 0.34), BT_STEP_NONE); /* 1 - 3/4 + 0.1 */
    assert_int_equal(bt_elastic_tick(&e, 251, 0.9), BT_STEP_NONE);
    assert_int_equal(bt_elastic_tick(&e, 0, 0.36), BT_STEP_DOWN);
    assert_int_equal(e.rung, 2);
    for (int tick = 0; tick < 5; tick++) {
        assert_int_equal(bt_elastic_tick(&e, 0, 1), BT_STEP_NONE);
    }
    assert_int_equal(bt_elastic_tick(&e, 0, 1), BT_STEP_DOWN);
    bt_elastic_init(&e, &setup, 9);
    assert_int_equal(e.rung, 3);
    bt_elastic_init(&e, &setup, 0);
    for (int tick = 0; tick < 20; tick++) {
        assert_int_equal(bt_elastic_tick(&e, 0, 1), BT_STEP_NONE); /* there is no less */
    }
}

static const struct bt_machine published = {8, 2, 1200, 2400, 100, 3100};

static void z16_the_energy_ladder(void **state)
{
    struct bt_rung r[BT_LADDER_MAX];
    (void)state;
    assert_int_equal(bt_ladder(&published, BT_OBJECTIVE_ENERGY, r, BT_LADDER_MAX), 22);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(r[i].cores, i + 1u);
        assert_int_equal(r[i].smt, 1);
        assert_int_equal(r[i].mhz, 1200);
        assert_int_equal(r[i].background, 7u - i);
    }
    assert_int_equal(r[8].smt, 2);
    assert_int_equal(r[8].mhz, 1200);
    for (uint32_t i = 9; i < 21; i++) {
        assert_int_equal(r[i].mhz, 1300 + 100 * (i - 9u));
        assert_int_equal(r[i].cores * r[i].smt, 16);
    }
    assert_false(r[20].turbo);
    assert_true(r[21].turbo);
    for (uint32_t i = 1; i < 22; i++) {
        assert_true(bt_rung_capacity(&r[i]) > bt_rung_capacity(&r[i - 1u]));
    }
}

static void z16_the_consolidation_ladder(void **state)
{
    struct bt_rung r[BT_LADDER_MAX];
    (void)state;
    assert_int_equal(bt_ladder(&published, BT_OBJECTIVE_CONSOLIDATION, r, BT_LADDER_MAX), 9);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(r[i].cores + r[i].background, 8);
        assert_int_equal(r[i].smt, 2);
        assert_int_equal(r[i].mhz, 2400);
    }
    assert_true(r[8].turbo);
    assert_int_equal(r[8].background, 0);
}

static void z16_other_machines(void **state)
{
    struct bt_rung r[BT_LADDER_MAX];
    const struct bt_machine fixed = {4, 1, 2000, 2000, 0, 0}, odd = {1, 1, 1000, 1250, 100, 0};
    const struct bt_machine bad[] = {{0, 1, 1, 1, 0, 0}, {1, 3, 1, 1, 0, 0}, {1, 0, 1, 1, 0, 0},
                                     {1, 1, 2, 1, 0, 0}, {1, 1, 0, 1, 0, 0}, {1, 1, 1, 2, 1, 2}};
    (void)state;
    assert_int_equal(bt_ladder(&fixed, BT_OBJECTIVE_ENERGY, r, BT_LADDER_MAX), 4); /* nothing but cores */
    assert_int_equal(bt_ladder(&odd, BT_OBJECTIVE_ENERGY, r, BT_LADDER_MAX), 4);
    assert_int_equal(r[3].mhz, 1250); /* the last step is shorter */
    assert_int_equal(bt_ladder(&published, BT_OBJECTIVE_ENERGY, r, 21), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(bt_ladder(&bad[i], BT_OBJECTIVE_ENERGY, r, BT_LADDER_MAX), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z14_three_speeds_at_once),
        cmocka_unit_test(z14_means_over_turns_that_found_something),
        cmocka_unit_test(z14_delay_is_whole_turns),
        cmocka_unit_test(z15_up_at_once_and_as_often_as_needed),
        cmocka_unit_test(z15_down_when_the_rung_below_carries_it),
        cmocka_unit_test(z16_the_energy_ladder),
        cmocka_unit_test(z16_the_consolidation_ladder),
        cmocka_unit_test(z16_other_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
