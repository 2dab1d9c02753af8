// SPDX-License-Identifier: Apache-2.0
// Admission control (spec/sven.md): the dice, the classes, the loop and its controllers. What the router makes of it is
// in test_admit.c.
#include <stdlib.h>
#include <string.h>

#include "router/bed.h"
#include "router/objective.h"

#define MOST_SHARE ((double)BT_ADMISSION_MOST / BT_ADMISSION_ONE)

static void begin(struct bt_admission *a, const struct bt_admission_config *config)
{
    bt_admission_init(a, 1, NULL);
    bt_admission_apply(a, config, 0);
    bt_admission_tick(a, 0); /* begins the first window */
}

/* The objective by one of the controllers, in force at time 0. */
static struct bt_admission_config begin_by(struct bt_admission *a, unsigned controller, uint64_t *now)
{
    struct bt_admission_config config = objective((enum bt_admission_controller)controller);
    *now = 0;
    begin(a, &config);
    return config;
}

/* One period in which so many samples took so long. */
static void period(struct bt_admission *a, uint64_t *now, unsigned samples, uint64_t latency_ns)
{
    for (unsigned i = 0; i < samples; i++) {
        if (!bt_admission_refuse(a, *now, 0, false)) {
            bt_admission_served(a, 0, false, latency_ns);
        }
    }
    *now += 20 * MS;
    bt_admission_tick(a, *now);
}

static double share(const struct bt_admission *a, uint64_t now, unsigned class)
{
    struct bt_admission_class_stats s;
    bt_admission_class_stats(a, now, class, &s);
    return (double)s.share / BT_ADMISSION_ONE;
}

/* the published word alone decides. */
static void r216_the_dice_follow_the_level(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_AIAD);
    const double wanted[] = {0, 0.01, 0.25, 0.5, 0.99};
    begin(&a, &config);
    for (unsigned k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        unsigned refused = 0;
        atomic_store(&a.level, (uint32_t)(wanted[k] * BT_ADMISSION_ONE));
        for (unsigned i = 0; i < 1000000; i++) {
            refused += bt_admission_refuse(&a, 0, 0, false);
        }
        assert_true(refused / 1e6 >= wanted[k] - 0.002 && refused / 1e6 <= wanted[k] + 0.002);
        assert_false(bt_admission_refuse(&a, 0, 0, true)); /* spared */
    }
}

/* the lowest class up to 0.99, then the next; some never. */
static void r222_lower_classes_first(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_AIAD);
    config.droppable = 1u << 0 | 1u << 4 | 1u << 7;
    begin(&a, &config);
    atomic_store(&a.level, BT_ADMISSION_MOST / 2);
    assert_true(share(&a, 0, 0) > 0.49 && share(&a, 0, 4) == 0 && share(&a, 0, 7) == 0);
    atomic_store(&a.level, BT_ADMISSION_MOST + BT_ADMISSION_MOST / 4);
    assert_true(share(&a, 0, 0) == MOST_SHARE && share(&a, 0, 4) > 0.24 && share(&a, 0, 7) == 0);
    atomic_store(&a.level, a.top);
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        bool droppable = ((unsigned)config.droppable >> c & 1u) != 0;
        assert_true(share(&a, 0, c) == (droppable ? MOST_SHARE : 0));
    }
}

static void r222_the_level_for_a_number_of_requests(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_TRACK);
    begin(&a, &config);
    struct bt_admission_report report = {
        .arrived = {[0] = 100, [1] = 500, [4] = 200}, .refused = {[0] = 95, [4] = 195}, .arrivals = 800};
    double left;
    assert_int_equal(bt_admission_level_for(&a, &report, 0, &left), 0);
    assert_int_equal(bt_admission_level_for(&a, &report, 50, &left), BT_ADMISSION_ONE / 2);
    uint32_t level = bt_admission_level_for(&a, &report, 99 + 100, &left); /* class 3 had no requests to refuse */
    assert_true(left == 0 && bt_admission_share(&a, level, 0) == BT_ADMISSION_MOST);
    assert_in_range(bt_admission_share(&a, level, 4), BT_ADMISSION_ONE / 2 - 64, BT_ADMISSION_ONE / 2 + 64);
    level = bt_admission_level_for(&a, &report, 99 + 20, &left); /* more than there are of the lowest class */
    assert_true(left == 0 && bt_admission_share(&a, level, 0) == BT_ADMISSION_MOST);
    assert_in_range(bt_admission_share(&a, level, 4), BT_ADMISSION_ONE / 10 - 64, BT_ADMISSION_ONE / 10 + 64);
    assert_int_equal(bt_admission_level_for(&a, &report, 99 + 220, &left), a.top); /* and of the next one */
    assert_true(left > 21.9 && left < 22.1);
    assert_int_equal(bt_admission_level_for(&a, &report, 800, &left), a.top);
    assert_true(left > 500 && left < 504); /* class 1 is spared */
    report.refused[0] =
        80; /* of the others half found idle workers, so half of class 4 may be refused at most */
    level = bt_admission_level_for(&a, &report, 800, &left);
    assert_in_range(bt_admission_share(&a, level, 4), BT_ADMISSION_ONE / 2 - 64, BT_ADMISSION_ONE / 2 + 64);
    report.refused[0] = 70;
    level = bt_admission_level_for(&a, &report, 800, &left);
    assert_true(bt_admission_share(&a, level, 0) == BT_ADMISSION_MOST && bt_admission_share(&a, level, 4) == 0);
    config = objective(BT_CONTROL_AIAD); /* which does not look for idle workers */
    begin(&a, &config);
    level = bt_admission_level_for(&a, &report, 99 + 150, &left);
    assert_in_range(bt_admission_share(&a, level, 4), BT_ADMISSION_ONE / 4 * 3 - 64, BT_ADMISSION_ONE / 4 * 3 + 64);
}

/* the classes below one that has to be refused are refused with it, but not for longer, had they requests or
 * not. */
static void r222_a_rare_class_is_not_left_refused(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_TRACK);
    uint64_t now = 0;
    begin(&a, &config);
    for (unsigned k = 0; k < 400; k++) { /* requests of class 4 only, first too slow */
        for (unsigned i = 0; i < 4000; i++) {
            if (!bt_admission_refuse(&a, now, 4, false)) {
                bt_admission_served(&a, 4, false, k < 5 ? 900 * US : 60 * US);
            }
        }
        now += 20 * MS;
        bt_admission_tick(&a, now);
        assert_true(k != 4 || share(&a, now, 0) == MOST_SHARE);
    }
    assert_true(share(&a, now, 4) == 0 && share(&a, now, 0) == 0);
}

/* the other thread counts on while the loop reads. It may see a refusal and not yet the request. */
static void r218_more_refused_than_arrived_is_nothing_admitted(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_TRACK);
    begin(&a, &config);
    a.state.admit = 0.5;
    atomic_store(&a.level, BT_ADMISSION_ONE / 2);
    for (unsigned i = 0; i < 4000; i++) {
        bt_admission_served(&a, 0, false, 255 * US);
    }
    atomic_store(&a.arrived[0], 1000);
    atomic_store(&a.refused[0], 1001);
    bt_admission_tick(&a, 20 * MS);
    assert_int_equal(a.decisions, 1);
    assert_true(share(&a, 20 * MS, 0) > 0.49 && share(&a, 20 * MS, 0) < 0.51); /* on target: it holds */
}

/* who is marked is served like everybody, so all that arrived was let in, and all of it completes. */
static void r225_marked_requests_count_as_admitted(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_TRACK);
    unsigned marks = 0;
    config.mode = BT_ADMISSION_DEGRADE;
    begin(&a, &config);
    a.state.admit = 0.5;
    atomic_store(&a.level, BT_ADMISSION_ONE / 2);
    for (unsigned i = 0; i < 4000; i++) {
        bool marked = bt_admission_refuse(&a, 0, 0, false);
        bt_admission_served(&a, 0, marked, 255 * US);
        marks += marked;
    }
    assert_true(marks > 1800);
    bt_admission_tick(&a, 20 * MS);
    assert_int_equal(a.decisions, 1);
    assert_true(share(&a, 20 * MS, 0) > 0.49 && share(&a, 20 * MS, 0) < 0.51); /* on target: it holds */
}

/* above the level at which everything droppable is refused there is none, whatever a controller makes of it: it
 * would take as long to come down from. */
static void r222_no_level_above_the_top(void **state)
{
    (void)state;
    static struct bt_admission a;
    for (unsigned k = 0; k < BT_CONTROLLERS; k++) {
        uint64_t now;
        begin_by(&a, k, &now);
        atomic_store(&a.level, a.top + BT_ADMISSION_ONE / 4);
        for (unsigned i = 0; i < 2000 && k == BT_CONTROL_AIAD; i++) {
            bt_admission_served(&a, 0, false, 900 * US);
        }
        while (a.decisions ==
               0) { /* by Track for want of samples, and nothing having arrived it leaves all as it was */
            now += 20 * MS;
            assert_true(now <= SEC);
            bt_admission_tick(&a, now);
        }
        assert_int_equal(atomic_load(&a.level), a.top);
    }
}

/* Listing 11.1: ±0.01 every 20 ms, on the smoothed share. */
static void r221_aiad_is_the_published_loop(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_AIAD);
    uint64_t now = 0;
    begin(&a, &config);
    for (unsigned k = 1; k <= 50; k++) { /* 0 → 0.5 takes 1 s */
        period(&a, &now, 4000, 400 * US);
        assert_true(share(&a, now, 0) > k * 0.01 - 1e-6 && share(&a, now, 0) < k * 0.01 + 1e-6);
    }
    assert_int_equal(now, SEC);
    double before = share(&a, now, 0);
    period(&a, &now, 4000, 100 * US); /* share 0.3 of the way: still a violation */
    assert_true(share(&a, now, 0) > before);
    for (unsigned k = 0; k < 200; k++) {
        period(&a, &now, 4000, 100 * US);
    }
    assert_true(share(&a, now, 0) == 0);
    for (unsigned k = 0; k < 200; k++) {
        period(&a, &now, 200000, 400 * US);
    }
    assert_true(share(&a, now, 0) == MOST_SHARE); /* never above 0.99 in one class */
}

static void r221_track_holds_still_in_its_band(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_TRACK);
    uint64_t now = 0;
    begin(&a, &config);
    for (unsigned k = 0; k < 20; k++) {
        period(&a, &now, 4000, 200 * US);
        assert_true(share(&a, now, 0) == 0); /* met: nothing to do */
    }
    period(&a, &now, 4000, 900 * US);
    double after_attack = share(&a, now, 0);
    assert_true(after_attack > 0.05 && after_attack < 0.35);
    for (unsigned k = 0; k < 200; k++) {
        period(&a, &now, 4000, 255 * US); /* on target: first the debt of the attack is paid, then it holds */
    }
    double held = share(&a, now, 0);
    for (unsigned k = 0; k < 20; k++) {
        period(&a, &now, 4000, 255 * US);
    }
    assert_true(share(&a, now, 0) > held - 0.02 && share(&a, now, 0) < held + 0.02);
}

/* Faster attack than release. */
static void r221_track_attacks_faster_than_it_releases(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_TRACK);
    uint64_t now = 0;
    unsigned attack = 0, release = 0;
    begin(&a, &config);
    for (; share(&a, now, 0) < 0.5; attack++) {
        period(&a, &now, 20000, 1500 * US);
    }
    for (; share(&a, now, 0) > 0.01; release++) {
        period(&a, &now, 20000, 60 * US);
        assert_true(release < 400);
    }
    assert_true(attack < 10 && release > 2 * attack);
}

/* Completions against admissions say what the workers can take: one period finds it at any overload. */
static void r221_track_finds_the_capacity_in_one_period(void **state)
{
    (void)state;
    for (unsigned overload = 2; overload <= 4; overload++) {
        static struct bt_admission a;
        struct bt_admission_config config = objective(BT_CONTROL_TRACK);
        begin(&a, &config);
        for (unsigned i = 0; i < 4000 * overload; i++) {
            assert_false(bt_admission_refuse(&a, 0, 0, false));
            if (i % overload == 0) {
                bt_admission_served(&a, 0, false, 310 * US);
            }
        }
        bt_admission_tick(&a, 20 * MS);
        double wanted = 1 - (overload > 2 ? 0.5 : 1.0 / overload); /* a ratio below one half is taken as one half */
        assert_true(share(&a, 20 * MS, 0) > wanted - 0.01 && share(&a, 20 * MS, 0) < wanted + 0.03);
    }
}

/* One period in which every other request finds an idle worker. */
static void half_spared(struct bt_admission *a, uint64_t *now, uint64_t latency_ns)
{
    for (unsigned i = 0; i < 4000; i++) {
        if (!bt_admission_refuse(a, *now, 0, i % 2 == 0)) {
            bt_admission_served(a, 0, false, latency_ns);
        }
    }
    *now += 20 * MS;
    bt_admission_tick(a, *now);
}

/* idle workers are kept busy, until that alone has been too much for 3 s; and again once the overload is over.
 */
static void r260_idle_workers_are_kept_busy_unless_that_is_too_much(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_AIAD);
    uint64_t now = 0;
    begin(&a, &config);
    assert_false(bt_admission_keeps_busy(&a)); /* the published loop knows of no workers */
    config = objective(BT_CONTROL_TRACK);
    config.mode = BT_ADMISSION_DEGRADE;
    begin(&a, &config);
    period(&a, &now, 2000, 60 * US);
    assert_int_equal(a.decisions, 1);
    assert_false(bt_admission_keeps_busy(&a)); /* who is marked still waits, and others for it */
    begin_by(&a, BT_CONTROL_TRACK, &now);
    assert_true(bt_admission_keeps_busy(&a));
    uint64_t top_since = 0;
    while (bt_admission_keeps_busy(&a)) {
        half_spared(&a, &now, 900 * US);
        top_since = top_since == 0 && share(&a, now, 0) >= MOST_SHARE - 1e-6 ? now : top_since;
        assert_true(now < 10 * SEC);
    }
    assert_true(top_since != 0 && now - top_since >= 3 * SEC - 20 * MS);
    assert_true(a.state.admit > 0.45 && a.state.admit < 0.55); /* goes on from what it let in */
    for (unsigned k = 0; share(&a, now, 0) > 0; k++) {
        period(&a, &now, 4000, 60 * US);
        assert_true(k < 1000);
    }
    period(&a, &now, 4000, 60 * US);
    assert_true(bt_admission_keeps_busy(&a));
}

/* seconds of pauses between better seconds are no reason to give them up. */
static void r260_pauses_do_not_add_up(void **state)
{
    (void)state;
    static struct bt_admission a;
    uint64_t now;
    begin_by(&a, BT_CONTROL_TRACK, &now);
    for (unsigned k = 0; k < 2000; k++) {
        half_spared(&a, &now, k % 4 == 0 ? 900 * US : 255 * US);
        assert_true(bt_admission_keeps_busy(&a));
    }
}

/* where nearly nobody is refused although the share is high, it falls at once. */
static void r260_a_share_that_meets_nobody_falls_faster(void **state)
{
    (void)state;
    static struct bt_admission a;
    unsigned periods[2];
    for (unsigned spared = 0; spared < 2; spared++) {
        uint64_t now;
        begin_by(&a, BT_CONTROL_TRACK, &now);
        while (share(&a, now, 0) < 0.9) {
            period(&a, &now, 40000, 5 * MS);
        }
        for (periods[spared] = 0; share(&a, now, 0) > 0.1; periods[spared]++) {
            for (unsigned i = 0; i < 40000; i++) {
                if (!bt_admission_refuse(&a, now, 0, spared == 1 && i % 100 != 0)) {
                    bt_admission_served(&a, 0, false, 60 * US);
                }
            }
            now += 20 * MS;
            bt_admission_tick(&a, now);
        }
    }
    assert_true(periods[1] < 30 && periods[0] > 3 * periods[1]);
}

/* it looks again after 1 ms where a window was full, and lets an idle router sleep where it was not. */
static void r221_looks_often_only_where_there_is_much_to_see(void **state)
{
    (void)state;
    static struct bt_admission a;
    uint64_t now;
    begin_by(&a, BT_CONTROL_TRACK, &now);
    period(&a, &now, 2000, 60 * US);
    assert_int_equal(a.decisions, 1);
    assert_int_equal(bt_admission_next(&a), now + MS);
    now = bt_admission_next(&a);
    bt_admission_tick(&a, now);
    assert_int_equal(a.decisions, 1);
    assert_int_equal(bt_admission_next(&a), now + 5 * MS);
}

/* fewer than 1,000 samples extend the window, for p99; 10,000 for p99.9. */
static void r219_few_samples_extend_the_window(void **state)
{
    (void)state;
    static struct bt_admission a;
    for (unsigned k = 0; k < BT_CONTROLLERS; k++) {
        uint64_t now;
        struct bt_admission_config config = begin_by(&a, k, &now);
        for (unsigned i = 0; i < 9; i++) {
            period(&a, &now, 110, 900 * US);
            assert_int_equal(a.decisions, 0);
            assert_true(share(&a, now, 0) == 0);
        }
        assert_int_equal(a.extensions, 9);
        period(&a, &now, 110, 900 * US);
        assert_int_equal(a.decisions, 1);
        assert_true(share(&a, now, 0) > 0);
        config.per_100k = 99900;
        begin(&a, &config);
        now = 0;
        period(&a, &now, 9999, 900 * US);
        assert_int_equal(a.decisions, 0);
        period(&a, &now, 1, 900 * US);
        assert_int_equal(a.decisions, 1);
    }
}

/* A window is not extended for ever: a share of 99 % must come down again when the load has gone. */
static void r219_a_refused_service_opens_again(void **state)
{
    (void)state;
    static struct bt_admission a;
    for (unsigned k = 0; k < BT_CONTROLLERS; k++) {
        uint64_t now;
        begin_by(&a, k, &now);
        for (unsigned i = 0; i < 1000; i++) {
            period(&a, &now, 2000, 5 * MS);
        }
        assert_true(share(&a, now, 0) > 0.9);
        uint64_t from = now;
        while (share(&a, now, 0) > 0.5) {
            period(&a, &now, 4, 50 * US); /* 200 requests a second */
            assert_true(now - from < 200 * SEC);
        }
    }
}

/* frozen for 1 s, then down to 0 within another; then a new start from there, counted. */
static void r223_a_stalled_loop_fails_open(void **state)
{
    (void)state;
    static struct bt_admission a;
    struct bt_admission_config config = objective(BT_CONTROL_TRACK);
    uint64_t now = 0;
    begin(&a, &config);
    for (unsigned i = 0; i < 20; i++) {
        period(&a, &now, 4000, 900 * US);
    }
    double before = share(&a, now, 0);
    assert_true(before > 0.3);
    assert_true(share(&a, now + 1200 * MS - 1, 0) == before);
    double half = share(&a, now + 1700 * MS, 0);
    assert_true(half > before * 0.45 && half < before * 0.55);
    assert_true(share(&a, now + 2200 * MS, 0) == 0);
    assert_false(bt_admission_refuse(&a, now + 3 * SEC, 0, false));
    uint64_t decisions = a.decisions;
    bt_admission_tick(&a, now + 3 * SEC);
    assert_int_equal(a.stalls, 1);
    assert_int_equal(a.decisions, decisions); /* what was counted meanwhile says nothing */
    assert_true(share(&a, now + 3 * SEC, 0) == 0);
    assert_true(a.state.admit == 1); /* and all are let in, until the loop says otherwise */
}

static void a_configuration_is_judged(void **state)
{
    (void)state;
    unsigned field;
    struct bt_admission_config config = objective(BT_CONTROL_TRACK);
    assert_null(bt_admission_judge(&config, &field));
    config.mode = (enum bt_admission_mode)3;
    assert_non_null(bt_admission_judge(&config, &field));
    assert_int_equal(field, 0);
    config = objective((enum bt_admission_controller)7);
    assert_non_null(bt_admission_judge(&config, &field));
    assert_int_equal(field, 1);
    config = objective(BT_CONTROL_AIAD);
    config.slo_ns = 999;
    assert_non_null(bt_admission_judge(&config, &field));
    assert_int_equal(field, 2);
    config = objective(BT_CONTROL_AIAD);
    config.per_100k = 99991;
    assert_non_null(bt_admission_judge(&config, &field));
    assert_int_equal(field, 3);
    config.mode = BT_ADMISSION_OBSERVE;
    assert_null(bt_admission_judge(&config, &field));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r216_the_dice_follow_the_level),
        cmocka_unit_test(r222_lower_classes_first),
        cmocka_unit_test(r222_the_level_for_a_number_of_requests),
        cmocka_unit_test(r222_a_rare_class_is_not_left_refused),
        cmocka_unit_test(r218_more_refused_than_arrived_is_nothing_admitted),
        cmocka_unit_test(r225_marked_requests_count_as_admitted),
        cmocka_unit_test(r222_no_level_above_the_top),
        cmocka_unit_test(r221_aiad_is_the_published_loop),
        cmocka_unit_test(r221_track_holds_still_in_its_band),
        cmocka_unit_test(r221_track_attacks_faster_than_it_releases),
        cmocka_unit_test(r221_track_finds_the_capacity_in_one_period),
        cmocka_unit_test(r260_idle_workers_are_kept_busy_unless_that_is_too_much),
        cmocka_unit_test(r260_pauses_do_not_add_up),
        cmocka_unit_test(r260_a_share_that_meets_nobody_falls_faster),
        cmocka_unit_test(r221_looks_often_only_where_there_is_much_to_see),
        cmocka_unit_test(r219_few_samples_extend_the_window),
        cmocka_unit_test(r219_a_refused_service_opens_again),
        cmocka_unit_test(r223_a_stalled_loop_fails_open),
        cmocka_unit_test(a_configuration_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
