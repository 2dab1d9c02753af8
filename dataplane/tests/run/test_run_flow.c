// SPDX-License-Identifier: Apache-2.0
// Flow control of a port: its clients by address, and input that makes no sense (F-8, F-10, F-17, F-49).
#include "unit.h"

#include "run/flow.h"
#include "wire/fc_signal.h"

#define US 1000ull
#define MS 1000000ull

static const struct bt_fc_objective objective = {
    .wait_ns = 100e3, .percentile = 0.99, .cores = 1, .model = BT_FC_REFINED};
static const struct bt_server_came asks = {.asked = true}, silent = {0}, routed = {.asked = true, .routed = true};
static struct bt_flow *flow;
static struct bt_server_flow hooks;
static uint64_t now;

static struct bt_addr client(uint32_t i)
{
    return bt_addr_v4u(0x0a000000u + i, 40000);
}

static int begin(void **state)
{
    const uint64_t seed[2] = {1, 2};
    (void)state;
    flow = bt_flow_new(seed);
    hooks = bt_flow_hooks(flow);
    now = 1000 * MS;
    bt_flow_set(flow, &objective, now);
    return 0;
}

static int end(void **state)
{
    (void)state;
    bt_flow_free(flow);
    return 0;
}

// A request of client i, `gap` after the last one, that takes so long. The number it got.
static uint32_t request(uint32_t i, struct bt_server_came came, uint64_t gap, uint64_t takes)
{
    struct bt_addr from = client(i);
    now += gap;
    uint32_t at = hooks.arrived(hooks.arg, &from, came, now);
    if ((at & BT_FLOW_REFUSED) == 0) {
        struct bt_server_took took = {now, now + takes};
        hooks.left(hooks.arg, at, &took);
    }
    return at;
}

static struct bt_flow_figures figures(void)
{
    struct bt_flow_figures f;
    bt_flow_read(flow, now, &f);
    return f;
}

static void f13_clients_are_told_apart(void **state)
{
    (void)state;
    uint32_t a = request(1, asks, 50 * US, 10 * US), b = request(2, asks, 50 * US, 10 * US);
    assert_int_not_equal(a, b);
    assert_int_equal(request(1, asks, 50 * US, 10 * US), a);
    assert_int_equal(hooks.signal(hooks.arg, a, now), BT_FC_TOKENS);
    assert_int_equal(hooks.signal(hooks.arg, BT_FLOW_NONE, now), BT_FC_TOKENS);
    assert_int_equal(figures().clients, 2);
    assert_int_equal(figures().admitted, 0); // not known yet
}

static void overload(uint32_t clients, struct bt_server_came came, uint32_t requests)
{
    for (uint32_t i = 0; i < requests; i++) {
        request(i % clients, came, 8 * US, 10 * US); // 1.25 of what the core can do
    }
}

static void f18_who_obeys_not_is_refused(void **state)
{
    (void)state;
    overload(4, asks, 20000);
    struct bt_flow_figures f = figures();
    assert_true(f.throttling && f.refused > 1000);
    assert_true(f.load > 1 && f.admitted > 0.5 && f.admitted < 0.85);
    assert_true((hooks.signal(hooks.arg, BT_FLOW_NONE, now) & BT_FC_IDLE_BIT) != 0);
}

static void f49_who_takes_no_part_or_was_routed_is_never_refused(void **state)
{
    (void)state;
    overload(4, silent, 20000);
    assert_true(figures().throttling);
    assert_int_equal(figures().clients, 0);
    overload(4, routed, 20000);
    assert_int_equal(figures().refused, 0);
    assert_int_equal(figures().clients, 4);
}

// What others take is not given a second time: a client that asks gets less beside them.
static void f49_those_who_take_no_part_leave_less_for_the_others(void **state)
{
    uint32_t told[2] = {0};
    for (int others = 0; others < 2; others++) {
        begin(state);
        for (uint32_t i = 0; i < 40000; i++) {
            request(i % 8, others != 0 && i % 8 != 0 ? silent : routed, 11 * US, 10 * US);
            if (i >= 20000 && i % 8 == 0) {
                struct bt_addr from = client(0);
                uint32_t at = hooks.arrived(hooks.arg, &from, routed, now);
                uint16_t bits = hooks.signal(hooks.arg, at, now);
                hooks.left(hooks.arg, at, NULL);
                told[others] += bits & BT_FC_IDLE_BIT ? bits & BT_FC_VALUE_MAX : 0; // silence
            }
        }
        if (others == 0) {
            end(state);
        }
    }
    assert_true(told[0] > 0 && told[1] > told[0]);
}

static void f10_input_that_makes_no_sense_is_counted_and_not_learned_from(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1200; i++) {
        request(1, silent, 100 * US, 10 * US);
    }
    struct bt_flow_figures before = figures();
    struct bt_addr from = client(1);
    const struct bt_server_took bad[] = {
        {now + 50, now + 40}, // a clock set back
        {now, 0},             // nobody said when it ended
    };
    for (unsigned i = 0; i < 2; i++) {
        hooks.left(hooks.arg, hooks.arrived(hooks.arg, &from, silent, now), &bad[i]);
    }
    hooks.left(hooks.arg, hooks.arrived(hooks.arg, &from, silent, now - 500 * MS), NULL); // time itself
    struct bt_flow_figures after = figures();
    assert_int_equal(after.counters[BT_FLOW_CLOCK_BACK], 1);
    assert_int_equal(after.counters[BT_FLOW_UNMEASURED], 1);
    assert_true(after.service_ns == before.service_ns && after.cv2 == before.cv2);
    assert_true(after.load < 1);
}

static void f8_dispersed_services_are_clamped_and_alarmed(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        request(1, silent, 20 * US, i % 1000 == 0 ? 5005 * US : 5 * US); // c² is 249
    }
    struct bt_flow_figures f = figures();
    assert_true(f.alarm);
    assert_true(f.counters[BT_FLOW_DISPERSED] > 0);
    assert_true(f.admitted >= BT_FC_LOAD_MIN && f.admitted <= 0.1);
    for (uint32_t i = 0; i < 20000; i++) {
        request(1, silent, 20 * US, 5 * US);
    }
    assert_false(figures().alarm);
}

static void f17_clients_are_bounded_and_the_idle_give_way(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * BT_FLOW_CLIENTS; i++) {
        request(i, asks, 100, 10);
    }
    struct bt_flow_figures f = figures();
    assert_int_equal(f.clients, BT_FLOW_CLIENTS);
    assert_true(f.counters[BT_FLOW_CROWDED] > 0); // all of them within 32 ms
    now += 100 * MS;
    uint64_t crowded = f.counters[BT_FLOW_CROWDED];
    for (uint32_t i = 0; i < BT_FLOW_CLIENTS / 2; i++) {
        assert_true(request(0x100000 + i, asks, 100, 10) >= 2);
    }
    assert_int_equal(figures().counters[BT_FLOW_CROWDED], crowded);
    assert_int_equal(figures().clients, BT_FLOW_CLIENTS);
}

static void off_is_off(void **state)
{
    (void)state;
    struct bt_addr from = client(1);
    uint32_t at = hooks.arrived(hooks.arg, &from, asks, now);
    bt_flow_set(flow, NULL, now);
    hooks.left(hooks.arg, at, NULL); // one that came before
    assert_int_equal(hooks.arrived(hooks.arg, &from, asks, now), BT_FLOW_NONE);
    assert_int_equal(hooks.signal(hooks.arg, BT_FLOW_NONE, now), 0);
    assert_false(figures().on);
    bt_flow_set(flow, &objective, now);
    overload(4, asks, 5000);
    assert_true(figures().throttling);
}

/* Another goal takes effect with what was learned so far, and nobody is forgotten. */
static void f13_another_goal_is_met_at_once(void **state)
{
    struct bt_fc_objective other = objective;
    (void)state;
    overload(4, routed, 20000);
    struct bt_flow_figures before = figures();
    bt_flow_set(flow, &objective, now); // the same
    request(0, routed, 8 * US, 10 * US);
    assert_true(figures().admitted == before.admitted);
    other.wait_ns = objective.wait_ns / 4;
    bt_flow_set(flow, &other, now);
    overload(4, routed, 2000);
    struct bt_flow_figures strict = figures();
    assert_true(strict.admitted > 0 && strict.admitted < before.admitted - 0.05);
    assert_true(strict.clients == before.clients && strict.service_ns > 9e3 && strict.service_ns < 11e3);
    bt_flow_set(flow, &objective, now);
    overload(4, routed, 2000);
    assert_true(figures().admitted > strict.admitted + 0.05);
}

/* Those of whom nothing can be kept wait for longest while the port is at its limit. */
static void f17_the_crowd_is_told_to_wait_for_longest(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < BT_FLOW_CLIENTS; i++) {
        assert_true(request(i, routed, 5 * US, 10 * US) >= 2);
    }
    uint32_t at = request(BT_FLOW_CLIENTS, routed, 5 * US, 10 * US);
    assert_int_equal(at, 1);
    assert_int_equal(figures().counters[BT_FLOW_CROWDED], 1);
    assert_true(figures().throttling);
    assert_int_equal(hooks.signal(hooks.arg, at, now), bt_fc_write_idle(BT_FC_VALUE_MAX));
    assert_int_equal(figures().clients, BT_FLOW_CLIENTS);
    assert_int_equal(request(0, routed, 5 * US, 10 * US), 2); // the first one is known still
    assert_int_equal(figures().counters[BT_FLOW_CROWDED], 1);
}

static void figures_of_several_ports_add_up(void **state)
{
    const struct bt_flow_figures one = {.on = true,
                                        .alarm = true,
                                        .load = 0.5,
                                        .admitted = 0.6,
                                        .service_ns = 7,
                                        .cv2 = 2,
                                        .refused = 3,
                                        .clients = 4,
                                        .counters = {1, 2, 3, 4, 5}},
                                 two = {.on = true,
                                        .throttling = true,
                                        .load = 0.1,
                                        .admitted = 0.6,
                                        .service_ns = 9,
                                        .cv2 = 1,
                                        .refused = 30,
                                        .clients = 40,
                                        .counters = {10, 20, 30, 40, 50}};
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        struct bt_flow_figures sum = {0};
        bt_flow_add(&sum, turned ? &two : &one);
        bt_flow_add(&sum, turned ? &one : &two);
        assert_true(sum.on && sum.alarm && sum.throttling);
        assert_true(sum.load == one.load && sum.admitted == one.admitted);
        assert_true(sum.service_ns == one.service_ns && sum.cv2 == one.cv2); // of the one that is closest to its limit
        assert_true(sum.refused == 33 && sum.clients == 44);
        for (uint64_t i = 0; i < BT_FLOW_COUNTERS; i++) {
            assert_int_equal(sum.counters[i], 11 * (i + 1));
        }
    }
    struct bt_flow_figures still = {0};
    bt_flow_add(&still, &(struct bt_flow_figures){.refused = 1});
    assert_true(!still.on && !still.alarm && !still.throttling && still.refused == 1);
}

/* Who has not seen enough to have a limit is not the closest to it, whichever comes first. */
static void who_has_learned_speaks_for_all(void **state)
{
    const struct bt_flow_figures calm = {.on = true, .load = 0.1, .admitted = 0.6},
                                 busy = {.on = true, .load = 0.5, .admitted = 0.55, .throttling = true},
                                 begun = {.on = true, .load = 0.9}, off = {0};
    const struct bt_flow_figures *order[][4] = {{&calm, &busy, &begun, &off},
                                                {&begun, &off, &busy, &calm},
                                                {&off, &begun, &calm, &busy},
                                                {&busy, &begun, &off, &calm}};
    (void)state;
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++) {
        struct bt_flow_figures sum = {0};
        for (unsigned k = 0; k < 4; k++) {
            bt_flow_add(&sum, order[i][k]);
        }
        assert_true(sum.on && sum.throttling);
        assert_true(sum.load == busy.load && sum.admitted == busy.admitted);
    }
    struct bt_flow_figures sum = {0};
    bt_flow_add(&sum, &off);
    bt_flow_add(&sum, &begun);
    assert_true(sum.on && sum.load == begun.load && sum.admitted == 0);
}

int main(void)
{
#define FRESH(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        FRESH(f13_clients_are_told_apart),
        FRESH(f18_who_obeys_not_is_refused),
        FRESH(f49_who_takes_no_part_or_was_routed_is_never_refused),
        cmocka_unit_test_teardown(f49_those_who_take_no_part_leave_less_for_the_others, end),
        FRESH(f10_input_that_makes_no_sense_is_counted_and_not_learned_from),
        FRESH(f8_dispersed_services_are_clamped_and_alarmed),
        FRESH(f17_clients_are_bounded_and_the_idle_give_way),
        FRESH(off_is_off),
        FRESH(f13_another_goal_is_met_at_once),
        FRESH(f17_the_crowd_is_told_to_wait_for_longest),
        cmocka_unit_test(figures_of_several_ports_add_up),
        cmocka_unit_test(who_has_learned_speaks_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
