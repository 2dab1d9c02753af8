// SPDX-License-Identifier: Apache-2.0
// Admission control in the simulator: the shipped loop in front of queues (R-230, X-10 in short).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "admission_model.h"
#include "router/router_config.h"

static struct sim_admission_result result;
static struct sim_admission_part all;

/* Two steps beyond the capacity of 1.6 M requests/s, half of each left out. */
static struct sim_admission_model overload(enum sim_dist_kind kind, double seconds)
{
    struct sim_admission_model m;
    sim_admission_defaults(&m);
    m.service.kind = kind;
    m.rate[0] = 1.6e6;
    m.rate[1] = 1.8e6;
    m.steps = 2;
    m.step_ns = (uint64_t)(seconds * 1e9);
    m.settle_ns = m.step_ns / 2;
    m.window_ns = m.step_ns / 4;
    assert_null(sim_admission_refuse(&m));
    return m;
}

static double p_over_slo(const struct sim_admission_model *m)
{
    sim_admission_merge(m, &result, 0, &all);
    return (double)bt_hist_percentile(&all.latency, m->admission.per_100k) / (double)m->admission.slo_ns;
}

static double good(void)
{
    return (double)all.within * 1e9 / (double)all.span_ns;
}

/* Capacity under the objective, random FIFO: 1.47, 1.35 and 1.23 M requests/s (sven.md §6). R-201: the same constants
 * for every service. */
static void r230_track_holds_the_objective_beyond_capacity(void **state)
{
    (void)state;
    const struct {
        enum sim_dist_kind kind;
        double capacity;
    } cases[] = {{SIM_DIST_DETERMINISTIC, 1.47e6}, {SIM_DIST_EXPONENTIAL, 1.35e6}, {SIM_DIST_BIMODAL10, 1.23e6}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sim_admission_model m = overload(cases[i].kind, 0.8);
        sim_admission_run(&m, &result);
        assert_true(p_over_slo(&m) <= 1.1);
        assert_true(good() >= 0.9 * cases[i].capacity);
    }
}

/* 32 workers of 5 ms behind JBSQ(2), 50 ms at p99, 1.5 times what they can do; a pause of 100 ms every 2 s on average.
 */
static struct sim_admission_model pausing(void)
{
    struct sim_admission_model m;
    sim_admission_defaults(&m);
    m.policy = BT_ROUTER_JBSQ;
    m.depth = 2;
    m.workers = 32;
    m.service = (struct sim_dist){SIM_DIST_EXPONENTIAL, 5e6, 1};
    m.admission.slo_ns = 50000000;
    m.rate[0] = 9600;
    m.steps = 1;
    m.step_ns = 60000000000u;
    m.settle_ns = 10000000000u;
    m.pause_every_ns = 2000000000u;
    m.pause_ns = 100000000u;
    assert_null(sim_admission_refuse(&m));
    return m;
}

/* no refusal mends a pause, and none may be tried at the cost of the service. */
static void r260_a_service_that_pauses_is_not_refused_away(void **state)
{
    (void)state;
    struct sim_admission_model m = pausing();
    double capacity = 6400 * (1 - 0.1 / 2); /* of workers that stand still for 5 % of the time */
    for (m.seed = 1; m.seed <= 4; m.seed++) {
        sim_admission_run(&m, &result);
        assert_true(p_over_slo(&m) <= 1.1);
        assert_true(good() >= 0.9 * capacity);
    }
}

/* ... and when the overload is over nobody is refused for long. */
static void r260_it_opens_again_after_the_overload(void **state)
{
    (void)state;
    struct sim_admission_model m = pausing();
    m.pause_every_ns = 0;
    m.rate[1] = 5760;
    m.steps = 2;
    sim_admission_run(&m, &result);
    assert_true(result.step[0].refused > result.step[0].arrived / 4);
    assert_true(result.step[1].refused < result.step[1].arrived / 1000);
}

/* nor is a priority refused while requests of class 0 still find idle workers. */
static void r260_priorities_are_spared_behind_a_central_queue(void **state)
{
    (void)state;
    struct sim_admission_model m = pausing();
    m.mix[0] = 0.6;
    m.mix[4] = 0.3;
    m.mix[7] = 0.1;
    sim_admission_run(&m, &result);
    sim_admission_merge(&m, &result, 0, &all);
    assert_true(all.refused_class[0] > all.arrived_class[0] / 3);
    assert_true(all.refused_class[4] < all.arrived_class[4] / 20);
    assert_int_equal(all.refused_class[7], 0);
    assert_true(good() >= 0.9 * 6400 * 0.95);
    m.rate[0] = 19200; /* classes 4 and 7 alone are too much now */
    sim_admission_run(&m, &result);
    sim_admission_merge(&m, &result, 0, &all);
    double lowest = (double)all.refused_class[0] / (double)all.arrived_class[0];
    double next = (double)all.refused_class[4] / (double)all.arrived_class[4];
    assert_true(lowest > 0.8 && next > 0.1 && next < lowest - 0.2);
    assert_true(good() >= 0.85 * 6400 * 0.95);
}

/* Workers that pause serve less, by just as much. */
static void a_pause_takes_its_share_of_the_capacity(void **state)
{
    (void)state;
    struct sim_admission_model m = pausing();
    m.admission.mode = BT_ADMISSION_OBSERVE;
    m.pause_every_ns = 400000000u;
    sim_admission_run(&m, &result);
    sim_admission_merge(&m, &result, 0, &all);
    double answered = (double)all.latency.total * 1e9 / (double)all.span_ns;
    assert_true(answered > 0.72 * 6400 && answered < 0.78 * 6400);
    m.pause_ns = m.pause_every_ns;
    assert_non_null(sim_admission_refuse(&m));
}

static void r230_without_it_the_latency_grows_without_bound(void **state)
{
    (void)state;
    struct sim_admission_model m = overload(SIM_DIST_EXPONENTIAL, 0.2);
    m.admission.mode = BT_ADMISSION_OBSERVE;
    sim_admission_run(&m, &result);
    assert_true(p_over_slo(&m) > 10);
    assert_int_equal(all.refused, 0);
    assert_true(good() < 0.5e6);
}

/* 0.01 every 20 ms: after 0.1 s it is far from what the load needs. */
static void r220_the_published_loop_takes_its_time(void **state)
{
    (void)state;
    struct sim_admission_model m = overload(SIM_DIST_EXPONENTIAL, 0.2);
    m.admission.controller = BT_CONTROL_AIAD;
    sim_admission_run(&m, &result);
    double slow = p_over_slo(&m);
    m.admission.controller = BT_CONTROL_TRACK;
    sim_admission_run(&m, &result);
    assert_true(p_over_slo(&m) < slow);
}

/* priorities 4 and 7 are spared while refusing class 0 is enough; class 1 always is. */
static void r222_priorities_are_spared(void **state)
{
    (void)state;
    struct sim_admission_model m = overload(SIM_DIST_EXPONENTIAL, 0.4);
    m.mix[0] = 0.5;
    m.mix[1] = 0.1;
    m.mix[4] = 0.3;
    m.mix[7] = 0.1;
    sim_admission_run(&m, &result);
    assert_true(p_over_slo(&m) <= 1.1);
    assert_true(all.refused_class[0] > 0);
    assert_int_equal(all.refused_class[1] + all.refused_class[4] + all.refused_class[7], 0);
    m.rate[0] = m.rate[1] = 3.2e6; /* now even all of class 0 is not enough */
    sim_admission_run(&m, &result);
    sim_admission_merge(&m, &result, 0, &all);
    assert_true((double)all.refused_class[0] > 0.95 * (double)all.arrived_class[0]);
    assert_true(all.refused_class[4] > 0);
    assert_int_equal(all.refused_class[1] + all.refused_class[7], 0);
}

/* A burst of twice the capacity for 50 ms is not paid for with seconds of refusals afterwards. */
static void r221_a_burst_is_soon_forgotten(void **state)
{
    (void)state;
    struct sim_admission_model m = overload(SIM_DIST_EXPONENTIAL, 0.05);
    const double rates[] = {1e6, 3.2e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6};
    m.steps = sizeof rates / sizeof *rates;
    m.settle_ns = 0;
    for (uint32_t i = 0; i < m.steps; i++) {
        m.rate[i] = rates[i];
    }
    sim_admission_run(&m, &result);
    assert_true(result.step[1].refused > result.step[1].arrived / 3);
    const struct sim_admission_part *last = &result.step[m.steps - 1];
    assert_true(last->refused < last->arrived / 100);
}

static void r230_the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    struct sim_admission_model m = overload(SIM_DIST_BIMODAL10, 0.1);
    m.policy = BT_ROUTER_JBSQ;
    sim_admission_run(&m, &result);
    uint64_t requests = result.requests, refused = result.step[1].refused, within = result.step[1].within;
    sim_admission_run(&m, &result);
    assert_int_equal(result.requests, requests);
    assert_int_equal(result.step[1].refused, refused);
    assert_int_equal(result.step[1].within, within);
    m.seed = 2;
    sim_admission_run(&m, &result);
    assert_int_not_equal(result.requests, requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r230_track_holds_the_objective_beyond_capacity),
        cmocka_unit_test(r260_a_service_that_pauses_is_not_refused_away),
        cmocka_unit_test(r260_it_opens_again_after_the_overload),
        cmocka_unit_test(r260_priorities_are_spared_behind_a_central_queue),
        cmocka_unit_test(a_pause_takes_its_share_of_the_capacity),
        cmocka_unit_test(r230_without_it_the_latency_grows_without_bound),
        cmocka_unit_test(r220_the_published_loop_takes_its_time),
        cmocka_unit_test(r222_priorities_are_spared),
        cmocka_unit_test(r221_a_burst_is_soon_forgotten),
        cmocka_unit_test(r230_the_same_seed_gives_the_same_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
