// SPDX-License-Identifier: Apache-2.0
// What a server's configuration means to its threads, and what a server tells of them and of its flow control: each
// figure under its own name, in the unit that the name says.
#include "unit.h"

#include <string.h>

#include "named.h"
#include "run/run_internal.h"
#include "run/told.h"

static struct bt_run *run;
static struct bt_ctl_samples samples;

static void handle(void *arg, struct bobtail_request *request)
{
    (void)arg;
    (void)request;
}

// Four threads that do not run, at a port of the kernel's choice.
static void open_run(enum bt_sched_mode mode)
{
    char why[256] = "";
    struct bt_run_tcp tcp = {.framing = BT_FRAMING_U32, .max_message = 1000, .connections = 1};
    tcp.local = bt_addr_v4u(0x7f000001, 0);
    struct bt_run_setup setup = {
        .mode = mode, .threads = 4, .batch = 64, .seed = 1, .name = "told", .handler = handle, .tcp = &tcp};
    run = bt_run_open(&setup, why, sizeof why);
    if (run == NULL) {
        fail_msg("%s", why);
    }
}

static void z15_modes_have_words(void **state)
{
    enum bt_sched_mode mode = BT_SCHED_RUN_TO_COMPLETION;
    (void)state;
    assert_true(bt_told_mode("WorkStealing", &mode));
    assert_int_equal(mode, BT_SCHED_WORK_STEALING);
    assert_true(bt_told_mode("RunToCompletion", &mode));
    assert_int_equal(mode, BT_SCHED_RUN_TO_COMPLETION);
    assert_false(bt_told_mode("workstealing", &mode) || bt_told_mode("", &mode) ||
                 bt_told_mode("WorkStealing2", &mode));
}

static void d3_a_port_has_one_thread_or_a_lane_of_them(void **state)
{
    (void)state;
    assert_int_equal(bt_told_threads(BT_SCHED_RUN_TO_COMPLETION, 1), 1);
    assert_int_equal(bt_told_threads(BT_SCHED_RUN_TO_COMPLETION, 63), 63);
    assert_int_equal(bt_told_threads(BT_SCHED_RUN_TO_COMPLETION, 65), BT_RUN_THREADS_MAX);
    assert_int_equal(bt_told_threads(BT_SCHED_WORK_STEALING, 1), BT_RUN_LANE);
    assert_int_equal(bt_told_threads(BT_SCHED_WORK_STEALING, 3), 3 * BT_RUN_LANE);
    assert_int_equal(bt_told_threads(BT_SCHED_WORK_STEALING, 5), BT_RUN_THREADS_MAX);
}

// A document of another mode is for whoever replaces this process.
static void d4_what_can_change_changes(void **state)
{
    (void)state;
    for (int steals = 0; steals < 2; steals++) {
        enum bt_sched_mode mode = steals ? BT_SCHED_WORK_STEALING : BT_SCHED_RUN_TO_COMPLETION;
        struct bt_config_scheduling c = {.batch = 7, .min_cores = 2, .max_cores = 3, .ordering = BT_ORDER_PER_CLIENT};
        open_run(mode);
        uint64_t cores = atomic_load(&run->wanted);
        c.mode = steals ? BT_SCHEDULE_WORK_STEALING : BT_SCHEDULE_RUN_TO_COMPLETION;
        bt_told_apply(run, mode, &c); // the document has none
        assert_true(run->batch == 64 && !run->per_client && atomic_load(&run->wanted) == cores);
        c.given = true;
        c.mode = steals ? BT_SCHEDULE_RUN_TO_COMPLETION : BT_SCHEDULE_WORK_STEALING;
        bt_told_apply(run, mode, &c);
        assert_true(run->batch == 64 && !run->per_client && atomic_load(&run->wanted) == cores);
        c.mode = steals ? BT_SCHEDULE_WORK_STEALING : BT_SCHEDULE_RUN_TO_COMPLETION;
        bt_told_apply(run, mode, &c);
        assert_true(run->batch == 7 && run->per_client);
        assert_true(atomic_load(&run->wanted) == (steals ? UINT64_C(3) << 32 | 2 : cores));
        c.ordering = BT_ORDER_PER_REQUEST;
        bt_told_apply(run, mode, &c);
        assert_false(run->per_client);
        bt_run_close(run);
    }
}

// Figures that differ, so that none can stand for another.
static void set_figures(void)
{
    open_run(BT_SCHED_WORK_STEALING);
    atomic_store(&run->core[0].turns, 20);
    atomic_store(&run->core[3].turns, 5); // in its third handler
    atomic_store(&run->core[1].slow, 3);
    atomic_store(&run->core[2].died, 4);
    atomic_store(&run->core[2].longest, 1000);
    atomic_store(&run->core[3].longest, 400);
    atomic_store(&run->assisted, 5);
    atomic_store(&run->parks, 6);
    atomic_store(&run->lane[0].active, 7);
    atomic_store(&run->lane[0].least, 8);
    atomic_store(&run->lane[0].most, 9);
    run->ns_per_tick = 0.5;
}

static void d6_the_state_of_its_threads(void **state)
{
    struct bt_ctl_scheduling s;
    (void)state;
    set_figures();
    bt_told_state(run, BT_SCHED_WORK_STEALING, &s);
    assert_string_equal(s.mode, "WorkStealing");
    assert_true(s.active == 7 && s.least == 8 && s.most == 9 && s.processors == run_processors());
    assert_true(s.stolen == 0 && s.parks == 6 && s.slow == 3 && s.longest_ns == 500);
    struct bt_run_lanes lanes;
    bt_run_read_lanes(run, &lanes);
    assert_int_equal(s.lanes, lanes.lanes);
    bt_told_state(run, BT_SCHED_RUN_TO_COMPLETION, &s);
    assert_string_equal(s.mode, "RunToCompletion");
    bt_run_close(run);
}

// The value of a counter or gauge of this name; UINT64_MAX: there is none.
static uint64_t value_of(const struct bt_ctl_sample *s, size_t n, const char *name, const char *value)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(s[i].desc.name, name) == 0 && same_word(s[i].desc.value, value)) {
            return s[i].value;
        }
    }
    return UINT64_MAX;
}

struct figure {
    const char *name, *value;
    uint64_t is;
};

static void are(const struct bt_ctl_sample *s, size_t n, const struct figure *figures, size_t figures_n)
{
    assert_int_equal(n, figures_n);
    for (size_t i = 0; i < figures_n; i++) {
        if (value_of(s, n, figures[i].name, figures[i].value) != figures[i].is) {
            fail_msg("%s is %llu", figures[i].name,
                     (unsigned long long)value_of(s, n, figures[i].name, figures[i].value));
        }
    }
}

#define ARE(s, n, figures) are(s, n, figures, sizeof(figures) / sizeof *(figures))

static void d6_what_is_counted_of_its_threads(void **state)
{
    const struct figure counters[] = {{"server_handled_total", NULL, 12},       {"server_stolen_total", NULL, 0},
                                      {"server_borrowed_total", NULL, 0},       {"server_slow_handlers_total", NULL, 3},
                                      {"server_assisted_turns_total", NULL, 5}, {"server_threads_died_total", NULL, 4},
                                      {"server_parks_total", NULL, 6}};
    const struct figure gauges[] = {{"server_threads", NULL, 16},
                                    {"server_threads_active", NULL, 7},
                                    {"server_threads_allowed", NULL, 9},
                                    {"server_processors", NULL, run_processors()},
                                    {"server_handler_longest_nanoseconds", NULL, 500}};
    (void)state;
    set_figures();
    memset(&samples, 0, sizeof samples);
    bt_told_counters(run, 16, &samples);
    ARE(samples.counters, samples.n_counters, counters);
    ARE(samples.gauges, samples.n_gauges, gauges);
    bt_run_close(run);
}

static void f13_an_objective_is_in_nanoseconds_and_parts_of_one(void **state)
{
    struct bt_config_flow c = {.given = true, .wait_us = 250, .per_100k = 99900, .model = BT_WAIT_PAPER};
    (void)state;
    struct bt_fc_objective o = bt_told_objective(&c);
    assert_true(o.wait_ns == 250e3 && o.percentile == 0.999 && o.model == BT_FC_PAPER && o.cores == 0);
    c.model = BT_WAIT_REFINED;
    assert_true(bt_told_objective(&c).model == BT_FC_REFINED);
}

static const struct bt_flow_figures flow = {.on = true,
                                            .throttling = true,
                                            .load = 0.25,
                                            .admitted = 0.5,
                                            .service_ns = 1234.5,
                                            .cv2 = 2.5,
                                            .refused = 3,
                                            .clients = 4,
                                            .counters = {[BT_FLOW_THROTTLED_SIGNALS] = 10,
                                                         [BT_FLOW_CLOCK_BACK] = 11,
                                                         [BT_FLOW_UNMEASURED] = 12,
                                                         [BT_FLOW_DISPERSED] = 13,
                                                         [BT_FLOW_CROWDED] = 14}};

static void f13_the_state_of_its_flow_control(void **state)
{
    struct bt_ctl_flow out;
    (void)state;
    bt_told_flow_state(&flow, &out);
    assert_true(out.on && out.throttling && !out.alarm);
    assert_true(out.load_ppm == 250000 && out.admitted_ppm == 500000 && out.service_ns == 1234);
    assert_true(out.cv2_milli == 2500 && out.refused == 3 && out.clients == 4 && out.silences == 10);
    bt_told_flow_state(&(struct bt_flow_figures){.alarm = true}, &out);
    assert_true(!out.on && !out.throttling && out.alarm && out.load_ppm == 0);
}

static void f13_what_is_counted_of_its_flow_control(void **state)
{
    const struct figure counters[] = {{"server_flow_silences_total", NULL, 10},
                                      {"server_flow_ignored_total", "clock_back", 11},
                                      {"server_flow_ignored_total", "no_end", 12},
                                      {"server_flow_dispersed_decisions_total", NULL, 13},
                                      {"server_flow_crowded_total", NULL, 14}};
    const struct figure gauges[] = {{"server_flow_load_millionths", NULL, 250000},
                                    {"server_flow_admitted_millionths", NULL, 500000},
                                    {"server_flow_throttling", NULL, 1},
                                    {"server_flow_dispersed", NULL, 0}};
    (void)state;
    memset(&samples, 0, sizeof samples);
    bt_told_flow_counters(&flow, &samples);
    ARE(samples.counters, samples.n_counters, counters);
    ARE(samples.gauges, samples.n_gauges, gauges);
    struct bt_flow_figures off = flow;
    off.on = false;
    memset(&samples, 0, sizeof samples);
    bt_told_flow_counters(&off, &samples);
    ARE(samples.counters, samples.n_counters, counters); // what was counted stays
    assert_int_equal(samples.n_gauges, 0);
    each_has_a_name(bt_flow_counter_desc, BT_FLOW_COUNTERS, "server_flow_");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z15_modes_have_words),
        cmocka_unit_test(d3_a_port_has_one_thread_or_a_lane_of_them),
        cmocka_unit_test(d4_what_can_change_changes),
        cmocka_unit_test(d6_the_state_of_its_threads),
        cmocka_unit_test(d6_what_is_counted_of_its_threads),
        cmocka_unit_test(f13_an_objective_is_in_nanoseconds_and_parts_of_one),
        cmocka_unit_test(f13_the_state_of_its_flow_control),
        cmocka_unit_test(f13_what_is_counted_of_its_flow_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
