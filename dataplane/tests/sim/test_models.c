// SPDX-License-Identifier: Apache-2.0
// The yardsticks themselves: closed forms against queueing.md's printed table, the pure models
// against the closed forms, and the parts (agenda, samples, streams) against their definitions.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "closed.h"
#include "event.h"
#include "oracle.h"
#include "sample.h"
#include "stream.h"

static void near(double got, double want, double relative)
{
    if (fabs(got - want) > relative * fabs(want) + 1e-12) {
        fail_msg("got %.9g, want %.9g within %g", got, want, relative);
    }
}

/* queueing.md §3: rho, M/M/1 p99, Erlang C, E[W], M/M/16 p99, M/M/64 p99, M/D/1 p99. */
static const double printed[6][7] = {
    {0.3, 6.579, 0.000045, 0.00000, 4.605, 4.605, 2.891},   {0.5, 9.210, 0.009019, 0.00113, 4.606, 4.605, 4.336},
    {0.7, 15.351, 0.129676, 0.02702, 4.639, 4.605, 7.485},  {0.8, 23.026, 0.304884, 0.09528, 4.735, 4.610, 11.356},
    {0.9, 46.052, 0.591343, 0.36959, 5.270, 4.661, 22.898}, {0.95, 92.103, 0.780192, 0.97524, 7.217, 4.842, 45.938},
};

static void q50_q52_closed_forms_match_the_printed_table(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        double rho = printed[i][0];
        near(sim_mm1_quantile(rho, 0.99), printed[i][1], 1e-4);
        assert_true(fabs(sim_erlang_c(16, rho) - printed[i][2]) < 6e-7);
        assert_true(fabs(sim_mmn_wait(16, rho) - printed[i][3]) < 6e-6);
        near(sim_mmn_quantile(16, rho, 0.99), printed[i][4], 2e-4);
        near(sim_mmn_quantile(64, rho, 0.99), printed[i][5], 2e-4);
    }
}

static void q54_md1_quantiles_match_the_printed_table(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        near(sim_md1_quantile(printed[i][0], 0.99), printed[i][6], 2e-4);
    }
    /* The alternating series, where its cancellation is still harmless. */
    double rho = 0.7, t = 3.4, sum = 0;
    for (int k = 0; k <= 3; k++) {
        sum += pow(-rho * (t - k), k) / tgamma(k + 1) * exp(rho * (t - k));
    }
    near(sim_md1_wait_cdf(rho, t), (1 - rho) * sum, 1e-9);
}

static void q51_erlang_b_recursion_base_cases(void **state)
{
    (void)state;
    near(sim_erlang_b(1, 0.5), 0.5 / 1.5, 1e-12);
    near(sim_erlang_b(2, 1), 0.2, 1e-12);
    near(sim_erlang_c(1, 0.7), 0.7, 1e-12); /* one server: Pr[wait] = rho */
}

static void q53_q55_q56_q57_means(void **state)
{
    (void)state;
    near(sim_mg1_wait(0.8, 0), 0.5 * 0.8 / 0.2, 1e-12);
    near(sim_mg1_wait(0.8, 1), 0.8 / 0.2, 1e-12);
    near(sim_mg1_wait(0.8, 2.25), 1.625 * 0.8 / 0.2, 1e-12);
    near(1 + sim_mg1_wait(0.5, 1), sim_mm1_mean(0.5), 1e-12);
    near(sim_mg1ps_mean(0.8, 1), 5, 1e-12);
    near(sim_kingman_wait(0.9, 1, 1), sim_mg1_wait(0.9, 1), 1e-12);
    near(sim_mgn_wait_approx(16, 0.9, 1), sim_mmn_wait(16, 0.9), 1e-12);
}

/* conservation (the load of each kind times its wait is the same in both orders), and Phipps' integral against
 * Cobham's sum over a thousand kinds of equally many requests. */
static void q20_waits_of_the_shortest_first(void **state)
{
    (void)state;
    double load = 0.8, fast = load * 0.45, residual = load * 3.25 / 2;
    double first = residual / (1 - fast), second = first / (1 - load);
    near(sim_mg1_priority_wait(load, 2.25, fast, 0.9), 0.9 * first + 0.1 * second, 1e-12);
    near(fast * first + (load - fast) * second, load * sim_mg1_wait(load, 2.25), 1e-12);
    near(sim_mg1_priority_wait(load, 1, 0, 0), sim_mg1_wait(load, 1), 1e-12);
    enum { CLASSES = 1000 };
    double before = 0, sum = 0;
    for (int i = 1; i <= CLASSES; i++) {
        double x = -log(1 - (double)i / CLASSES); /* all that is shorter than x makes 1 − e^(−x)(1+x) of the work */
        double upto = i == CLASSES ? load : load * (1 - exp(-x) * (1 + x));
        sum += load / ((1 - before) * (1 - upto)) / CLASSES;
        before = upto;
    }
    near(sim_mm1_sjf_wait(load), sum, 2e-3);
}

/* Two equal service times are M/D/1; for bimodal-1 the values of queueing.md §4 up to their noise. */
static void two_point_service_agrees_with_md1_and_with_simulation(void **state)
{
    (void)state;
    near(sim_mg1_two_point_quantile(0.8, 0.99, 1, 1, 0.5), sim_md1_quantile(0.8, 0.99), 2e-3);
    near(sim_mg1_two_point_quantile(0.9, 0.99, 1, 1, 0.1), sim_md1_quantile(0.9, 0.99), 2e-3);
    near(sim_mg1_two_point_quantile(0.5, 0.99, 0.5, 5.5, 0.1), 14.3, 0.02);
    near(sim_mg1_two_point_quantile(0.8, 0.99, 0.5, 5.5, 0.1), 37.1, 0.02);
}

/* Max load with p99 <= 10·S of §3. */
static void q7_max_load_within_ten_service_times(void **state)
{
    (void)state;
    near(sim_mm1_quantile(0.5395, 0.99), 10, 1e-3);
    near(sim_mmn_quantile(16, 0.9677, 0.99), 10, 5e-3);
    near(sim_md1_quantile(0.7735, 0.99), 10, 1e-3);
}

static void every_distribution_has_mean_one_and_its_c2(void **state)
{
    (void)state;
    for (int k = 0; k < SIM_DIST_KINDS; k++) {
        struct sim_dist d = {(enum sim_dist_kind)k, 1e6, 0.5, 3, 4};
        struct bt_rng g;
        sim_stream_seed(&g, 7, SIM_STREAM_SERVICE);
        double sum = 0, square = 0;
        const int n = 2000000;
        for (int i = 0; i < n; i++) {
            double x = (double)sim_dist_draw(&d, &g) / 1e6;
            sum += x;
            square += x * x;
        }
        double mean = sum / n, c2 = square / n / (mean * mean) - 1;
        near(mean, 1, k == SIM_DIST_BIMODAL2 ? 0.05 : 0.005);
        if (k != SIM_DIST_BIMODAL2) {
            assert_true(fabs(c2 - sim_dist_c2(&d)) < 0.02 * fmax(1, sim_dist_c2(&d)));
        }
    }
}

struct models {
    double mean_central, mean_partitioned, p99_central, p99_partitioned;
};

static struct models simulate(enum sim_dist_kind kind, double rho, size_t n)
{
    struct bt_rng arrivals, service, choice;
    sim_stream_seed(&arrivals, 11, SIM_STREAM_ARRIVAL);
    sim_stream_seed(&service, 11, SIM_STREAM_SERVICE);
    sim_stream_seed(&choice, 11, SIM_STREAM_CHOICE);
    struct sim_dist gap = {SIM_DIST_EXPONENTIAL, 1e6 / (16 * rho), 0}, work = {kind, 1e6, 0, 2, 4};
    struct sim_job *jobs = malloc(n * sizeof *jobs);
    uint16_t *to = malloc(n * sizeof *to);
    struct sim_samples out;
    assert_non_null(jobs);
    assert_non_null(to);
    sim_samples_init(&out, n);
    out.n = n;
    uint64_t t = 0;
    for (size_t i = 0; i < n; i++) {
        t += sim_dist_draw(&gap, &arrivals);
        jobs[i] = (struct sim_job){t, sim_dist_draw(&work, &service)};
        to[i] = (uint16_t)sim_below(&choice, 16);
    }
    struct models m;
    sim_oracle_central(jobs, n, 16, out.v);
    m.mean_central = sim_samples_mean(&out) / 1e6;
    m.p99_central = (double)sim_samples_percentile(&out, 99) / 1e6;
    sim_oracle_partitioned(jobs, to, n, 16, out.v);
    m.mean_partitioned = sim_samples_mean(&out) / 1e6;
    m.p99_partitioned = (double)sim_samples_percentile(&out, 99) / 1e6;
    sim_samples_free(&out);
    free(jobs);
    free(to);
    return m;
}

static void q61_pure_models_agree_with_closed_forms(void **state)
{
    (void)state;
    struct models m = simulate(SIM_DIST_EXPONENTIAL, 0.8, 3000000);
    near(m.mean_central, 1 + sim_mmn_wait(16, 0.8), 0.01);
    near(m.p99_central, sim_mmn_quantile(16, 0.8, 0.99), 0.02);
    near(m.mean_partitioned, sim_mm1_mean(0.8), 0.01);
    near(simulate(SIM_DIST_DETERMINISTIC, 0.8, 3000000).mean_partitioned, 1 + sim_mg1_wait(0.8, 0), 0.01);
    near(simulate(SIM_DIST_BIMODAL1, 0.5, 3000000).mean_partitioned, 1 + sim_mg1_wait(0.5, 2.25), 0.01);
}

/* K-14, Q-59: the forms against what they become, and the pure model against the forms. */
static void k14_erlang_and_hyperexponential_agree_with_closed_forms(void **state)
{
    (void)state;
    near(sim_mh2_1_quantile(0.8, 1, 0.99), sim_mm1_quantile(0.8, 0.99), 1e-9);
    near(sim_hyper_share(4), 0.887298, 1e-5);
    assert_true(sim_me2_1_quantile(0.8, 0.99) > sim_md1_quantile(0.8, 0.99));
    assert_true(sim_me2_1_quantile(0.8, 0.99) < sim_mm1_quantile(0.8, 0.99));
    struct models erlang = simulate(SIM_DIST_ERLANG, 0.8, 3000000);
    near(erlang.mean_partitioned, 1 + sim_mg1_wait(0.8, 0.5), 0.01);
    near(erlang.p99_partitioned, sim_me2_1_quantile(0.8, 0.99), 0.02);
    struct models hyper = simulate(SIM_DIST_HYPEREXPONENTIAL, 0.7, 3000000);
    near(hyper.mean_partitioned, 1 + sim_mg1_wait(0.7, 4), 0.01);
    near(hyper.p99_partitioned, sim_mh2_1_quantile(0.7, 4, 0.99), 0.02);
}

static void q60_streams_differ_by_purpose_and_repeat_by_seed(void **state)
{
    (void)state;
    struct bt_rng a, b, c;
    sim_stream_seed(&a, 5, SIM_STREAM_ARRIVAL);
    sim_stream_seed(&b, 5, SIM_STREAM_ARRIVAL);
    sim_stream_seed(&c, 5, SIM_STREAM_SERVICE);
    uint64_t x = bt_rng_next(&a);
    assert_true(x == bt_rng_next(&b));
    assert_true(x != bt_rng_next(&c));
}

static void agenda_is_ordered_by_time_then_by_pushing(void **state)
{
    (void)state;
    struct sim_agenda a;
    struct bt_rng g;
    sim_agenda_init(&a);
    sim_stream_seed(&g, 3, SIM_STREAM_EVENT);
    uint32_t pushed = 0;
    for (; pushed < 5000; pushed++) { /* spans of all magnitudes, many equal times */
        sim_agenda_push(&a, sim_below(&g, 700) << sim_below(&g, 22), (struct sim_event){.node = pushed});
    }
    struct sim_event e, last = {0};
    uint64_t last_ns = 0;
    uint32_t popped = 0;
    while (sim_agenda_take(&a, UINT64_MAX, &e)) {
        assert_true(a.now > last_ns || (a.now == last_ns && e.node > last.node) || popped == 0);
        last = e;
        last_ns = a.now;
        if (++popped > 20000) {
            continue;
        }
        uint64_t later = popped % 3 == 0 ? 0 : (uint64_t)sim_below(&g, 60) << sim_below(&g, 30);
        sim_agenda_push(&a, a.now + later, (struct sim_event){.node = pushed++});
    }
    assert_int_equal(popped, pushed);
    assert_true(sim_agenda_empty(&a));
    /* A limit leaves what is later untouched, and time may be given earlier events afterwards. */
    sim_agenda_push(&a, a.now + 5000, (struct sim_event){.node = 1});
    sim_agenda_push(&a, a.now + 5001, (struct sim_event){.node = 2});
    assert_false(sim_agenda_take(&a, a.now + 4999, &e));
    sim_agenda_push(&a, a.now + 4000, (struct sim_event){.node = 3});
    static const uint32_t order[] = {3, 1, 2};
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(sim_agenda_take(&a, UINT64_MAX, &e));
        assert_int_equal(e.node, order[k]);
    }
    assert_false(sim_agenda_take(&a, UINT64_MAX, &e));
    sim_agenda_free(&a);
}

static void percentiles_are_order_statistics(void **state)
{
    (void)state;
    struct sim_samples s, t;
    sim_samples_init(&s, 4);
    sim_samples_init(&t, 4);
    for (uint64_t i = 0; i < 1000; i++) {
        sim_samples_add(&s, i * 7919 % 1000 + 1);
        sim_samples_add(&t, 1000 - i);
    }
    assert_int_equal(sim_samples_percentile(&s, 99), 990);
    assert_int_equal(sim_samples_percentile(&s, 50), 500);
    assert_int_equal(sim_samples_percentile(&s, 100), 1000);
    assert_int_equal(sim_samples_percentile(&s, 0.01), 1);
    assert_true(sim_samples_same_multiset(&s, &t));
    t.v[3]++;
    assert_false(sim_samples_same_multiset(&s, &t));
    sim_samples_free(&s);
    sim_samples_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q50_q52_closed_forms_match_the_printed_table),
        cmocka_unit_test(q54_md1_quantiles_match_the_printed_table),
        cmocka_unit_test(q51_erlang_b_recursion_base_cases),
        cmocka_unit_test(q53_q55_q56_q57_means),
        cmocka_unit_test(q20_waits_of_the_shortest_first),
        cmocka_unit_test(two_point_service_agrees_with_md1_and_with_simulation),
        cmocka_unit_test(q7_max_load_within_ten_service_times),
        cmocka_unit_test(every_distribution_has_mean_one_and_its_c2),
        cmocka_unit_test(q61_pure_models_agree_with_closed_forms),
        cmocka_unit_test(k14_erlang_and_hyperexponential_agree_with_closed_forms),
        cmocka_unit_test(q60_streams_differ_by_purpose_and_repeat_by_seed),
        cmocka_unit_test(agenda_is_ordered_by_time_then_by_pushing),
        cmocka_unit_test(percentiles_are_order_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
