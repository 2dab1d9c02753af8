// SPDX-License-Identifier: Apache-2.0
// The timing wheel against a plain sorted model.
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/wheel.h"

#define TIMERS 512

struct item {
    struct bt_timer timer; // first
    uint64_t deadline;
    int fired;
};

struct world {
    struct bt_wheel wheel;
    struct item item[TIMERS];
    uint64_t now;
    uint64_t last_tick;
    struct bt_rng rng;
    bool rearm;
};

static void on_fire(void *arg, struct bt_timer *t)
{
    struct world *w = arg;
    struct item *it = (struct item *)(void *)t;
    assert_false(bt_timer_armed(t));
    assert_true(it->deadline <= w->now);        // never early
    assert_true(w->wheel.tick >= w->last_tick); // in order
    w->last_tick = w->wheel.tick;
    it->fired++;
    if (w->rearm && bt_rng_below(&w->rng, 4) == 0) {
        it->fired = 0;
        it->deadline = w->now + (bt_rng_next(&w->rng) >> (20 + bt_rng_below(&w->rng, 30)));
        bt_wheel_add(&w->wheel, t, it->deadline);
    }
    if (w->rearm && bt_rng_below(&w->rng, 8) == 0) { // delete somebody, perhaps due as well
        bt_wheel_del(&w->wheel, &w->item[bt_rng_below(&w->rng, TIMERS)].timer);
    }
}

static uint64_t rounded(uint64_t ns)
{
    return (ns + 255) & ~255ull;
}

static void r27_random_schedule_matches_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        static struct world w;
        memset(&w, 0, sizeof w);
        bt_rng_seed(&w.rng, seed);
        w.now = bt_rng_next(&w.rng) >> (1 + bt_rng_below(&w.rng, 40));
        w.rearm = seed % 2;
        bt_wheel_init(&w.wheel, w.now);
        for (int step = 0; step < 3000; step++) {
            struct item *it = &w.item[bt_rng_below(&w.rng, TIMERS)];
            unsigned what = bt_rng_below(&w.rng, 10);
            if (what < 5) {
                it->deadline = w.now + (bt_rng_next(&w.rng) >> (22 + bt_rng_below(&w.rng, 42)));
                it->fired = 0;
                bt_wheel_add(&w.wheel, &it->timer, it->deadline);
            } else if (what == 5) {
                bt_wheel_del(&w.wheel, &it->timer);
            } else {
                uint64_t next = bt_wheel_next(&w.wheel);
                if (what < 8 && next != UINT64_MAX && next > w.now) {
                    w.now = next;
                } else {
                    w.now += bt_rng_next(&w.rng) >> (24 + bt_rng_below(&w.rng, 40));
                }
                bt_wheel_advance(&w.wheel, w.now, on_fire, &w);
            }
            uint64_t next = bt_wheel_next(&w.wheel);
            uint32_t armed = 0;
            for (int i = 0; i < TIMERS; i++) {
                if (!bt_timer_armed(&w.item[i].timer)) {
                    continue;
                }
                armed++;
                if (what >= 6 && rounded(w.item[i].deadline) + 256 <= (w.now & ~255ull)) {
                    fail_msg("seed %llu step %d: timer %d overdue", (unsigned long long)seed, step, i);
                }
                assert_true(next <= rounded(w.item[i].deadline) + 256);
            }
            assert_int_equal(armed, w.wheel.armed);
            assert_true((armed == 0) == (next == UINT64_MAX));
        }
    }
}

static void r27_wakeups_make_progress(void **state)
{
    (void)state;
    static struct world w;
    memset(&w, 0, sizeof w);
    w.now = 123456789;
    bt_wheel_init(&w.wheel, w.now);
    w.item[0].deadline = w.now + 3600ull * 1000000000;
    bt_wheel_add(&w.wheel, &w.item[0].timer, w.item[0].deadline);
    int wakeups = 0;
    while (!w.item[0].fired) {
        uint64_t next = bt_wheel_next(&w.wheel);
        assert_true(next > w.now && ++wakeups < 12);
        w.now = next;
        bt_wheel_advance(&w.wheel, w.now, on_fire, &w);
    }
    assert_int_equal(w.now, rounded(w.item[0].deadline));
}

static void r27_past_and_far_deadlines(void **state)
{
    (void)state;
    static struct world w;
    memset(&w, 0, sizeof w);
    w.now = 1u << 20;
    bt_wheel_init(&w.wheel, w.now);
    bt_wheel_add(&w.wheel, &w.item[0].timer, 0);
    bt_wheel_add(&w.wheel, &w.item[1].timer, UINT64_MAX);
    bt_wheel_del(&w.wheel, &w.item[2].timer); // never armed: harmless
    bt_wheel_advance(&w.wheel, w.now, on_fire, &w);
    assert_int_equal(w.item[0].fired, 0); // not inside the tick it was added in
    w.now += 256;
    bt_wheel_advance(&w.wheel, w.now, on_fire, &w);
    assert_int_equal(w.item[0].fired, 1);
    assert_true(bt_timer_armed(&w.item[1].timer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r27_random_schedule_matches_model),
        cmocka_unit_test(r27_wakeups_make_progress),
        cmocka_unit_test(r27_past_and_far_deadlines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
