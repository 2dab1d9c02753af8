// SPDX-License-Identifier: Apache-2.0
// Hedged reads in the simulator: the model against closed forms and a known queue, the policies against each other
// the gate.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "fanout_cells.h"
#include "fanout_model.h"

#define ALL ((1u << SIM_FANOUT_POLICIES) - 1)

static struct sim_fanout_point point[SIM_FANOUT_POLICIES];

static struct sim_fanout_model running_example(double load, uint32_t requests)
{
    struct sim_fanout_model m;
    sim_fanout_defaults(&m);
    m.load = load;
    m.requests = requests;
    assert_null(sim_fanout_refuse(&m));
    return m;
}

static void assert_near(double value, double expected, double share)
{
    if (fabs(value - expected) > share * expected) {
        fail_msg("%g is not within %g %% of %g", value, share * 100, expected);
    }
}

/* Without load p99 solves (1-p) e^-x + p min(1, e^-(x-D)) = 1 - 0.99^(1/N); a hedged service has p². */
static double unloaded_p99(double p, double d, double shards)
{
    double q = 1 - pow(0.99, 1 / shards), low = 0, high = 100;
    while (high - low > 1e-6) {
        double x = (low + high) / 2;
        double beyond = (1 - p) * exp(-x) + p * fmin(1, exp(-(x - d)));
        *(beyond > q ? &low : &high) = x;
    }
    return low;
}

/* P is drawn once per request and shard and shared by the copies: anything else misses both values. */
static void r247_unloaded_tails_are_those_of_the_closed_form(void **state)
{
    (void)state;
    struct sim_fanout_model m = running_example(0.001, 20000);
    sim_fanout_run(&m, ALL, point);
    assert_near(point[SIM_FANOUT_PSQ].p99, unloaded_p99(m.p, m.d, m.shards), 0.03);
    for (uint32_t i = SIM_FANOUT_NAIVE; i < SIM_FANOUT_POLICIES; i++) {
        if (i != SIM_FANOUT_DELAYED) { /* it adds the delay */
            assert_near(point[i].p99, unloaded_p99(m.p * m.p, m.d, m.shards), 0.04);
        }
    }
}

/* M/M/1: sojourn is exponential with mean 1/(1-load). */
static void r247_one_replica_is_a_known_queue_for_all(void **state)
{
    (void)state;
    struct sim_fanout_model m = running_example(0.5, 150000);
    m.shards = m.replicas = 1;
    m.p = 0;
    sim_fanout_run(&m, ALL, point);
    for (uint32_t i = 0; i < SIM_FANOUT_POLICIES; i++) {
        assert_near(point[i].p99, log(100) * 2, 0.05);
        assert_near(point[i].p50, log(2) * 2, 0.03);
        assert_near(point[i].busy, 0.5, 0.02);
        assert_near(point[i].copies, 1, 1e-9);
    }
}

/* The order at 20 % load, and values of an independent simulator of the same model. */
static void r247_the_running_example_at_20_percent(void **state)
{
    (void)state;
    const double p99[SIM_FANOUT_POLICIES] = {18.3, 17.0, 16.7, 14.1, 10.9, 10.3, 10.2, 9.2, 8.7};
    struct sim_fanout_model m = running_example(0.2, 30000);
    sim_fanout_run(&m, ALL, point);
    for (uint32_t i = 0; i < SIM_FANOUT_POLICIES; i++) {
        assert_near(point[i].p99, p99[i], 0.04);
    }
    assert_near(point[SIM_FANOUT_LAEDGE].copies, 1.85, 0.01);
    assert_near(point[SIM_FANOUT_NAIVE].copies, 2, 1e-9);
    assert_near(point[SIM_FANOUT_PSQ].p50, 4.47, 0.02);
    assert_near(point[SIM_FANOUT_LAEDGE].p50, 5.29, 0.02);
}

/* Where everything is busy, load-aware hedging is PSQ's FIFO again; without a hiccup a copy can only cost. */
static void r243_copies_vanish_under_load(void **state)
{
    (void)state;
    struct sim_fanout_model m = running_example(0.95, 20000);
    m.shards = 5;
    sim_fanout_run(&m, ALL, point);
    assert_true(point[SIM_FANOUT_LAEDGE].copies < 1.06);
    assert_near(point[SIM_FANOUT_LAEDGE].p99, point[SIM_FANOUT_PSQ].p99, 0.25);
    assert_true(point[SIM_FANOUT_NAIVE].p99 > 20 * point[SIM_FANOUT_PSQ].p99);
    m = running_example(0.2, 20000);
    m.p = 0;
    sim_fanout_run(&m, 1u << SIM_FANOUT_PSQ | 1u << SIM_FANOUT_LAEDGE | 1u << SIM_FANOUT_LAEDGE_CC_PC, point);
    assert_true(point[SIM_FANOUT_LAEDGE].p99 > 1.1 * point[SIM_FANOUT_PSQ].p99);
    assert_true(point[SIM_FANOUT_LAEDGE_CC_PC].p99 < 1.05 * point[SIM_FANOUT_PSQ].p99);
}

static void r247_more_replicas_and_the_same_seed(void **state)
{
    (void)state;
    struct sim_fanout_point again[SIM_FANOUT_POLICIES];
    struct sim_fanout_model m = running_example(0.6, 8000);
    m.replicas = 6;
    memset(point, 0, sizeof point);
    memset(again, 0, sizeof again);
    sim_fanout_run(&m, ALL, point);
    assert_near(point[SIM_FANOUT_LAEDGE].p99, 9.9, 0.06); /* stays near the unloaded 8.5 */
    sim_fanout_run(&m, ALL, again);
    assert_memory_equal(point, again, sizeof point);
    memset(again, 0, sizeof again);
    sim_fanout_run(&m, 1u << SIM_FANOUT_LAEDGE, again); /* alone it sees the same draws */
    assert_memory_equal(&point[SIM_FANOUT_LAEDGE], &again[SIM_FANOUT_LAEDGE], sizeof *again);
    assert_true(again[SIM_FANOUT_PSQ].copies == 0);
    m.seed = 2;
    sim_fanout_run(&m, ALL, again);
    assert_memory_not_equal(point, again, sizeof point);
}

static double right(const struct sim_fanout_chosen *c)
{
    return (double)c->right / (double)c->n;
}

/* who began last is nearly always who would have ended later, published with more than 99 %; where one of the
 * two had a hiccup it is chance (50 %) or worse (19 %): the later copy is killed, the older one had the hiccup. */
static void r246_preemption_takes_the_right_one(void **state)
{
    (void)state;
    const uint32_t two = 1u << SIM_FANOUT_LAEDGE_CC_PC | 1u << SIM_FANOUT_IDEALIZED | 1u << SIM_FANOUT_LAEDGE_CC;
    struct sim_fanout_model m = running_example(0.4, 30000);
    sim_fanout_run(&m, two, point);
    const struct sim_fanout_chosen *c = point[SIM_FANOUT_LAEDGE_CC_PC].chosen;
    assert_true(right(&c[SIM_FANOUT_ANY_TWIN]) > 0.99 && right(&c[SIM_FANOUT_ANY_TWIN]) < 0.999);
    assert_near(right(&c[SIM_FANOUT_HICCUP_TOGETHER]), 0.5, 0.1);
    assert_near(right(&c[SIM_FANOUT_HICCUP_LATER]), 0.19, 0.15);
    assert_true(c[SIM_FANOUT_ANY_TWIN].n > 100 * c[SIM_FANOUT_HICCUP_LATER].n);
    const struct sim_fanout_chosen *bound = point[SIM_FANOUT_IDEALIZED].chosen; /* it knows */
    assert_true(bound[SIM_FANOUT_ANY_TWIN].n > 0);
    for (uint32_t i = 0; i < SIM_FANOUT_VICTIMS; i++) {
        assert_int_equal(bound[i].right, bound[i].n);
    }
    assert_int_equal(point[SIM_FANOUT_LAEDGE_CC].chosen[SIM_FANOUT_ANY_TWIN].n, 0); /* nobody makes room there */
}

/* What delayed copies cost hangs on what becomes of the other one: all of them cancelled, those that wait, none. */
static void r247_delayed_copies_by_their_cleanup(void **state)
{
    (void)state;
    const double p99[SIM_FANOUT_CLEANUPS] = {14.9, 16.5, 33};
    for (uint32_t i = 0; i < SIM_FANOUT_CLEANUPS; i++) {
        struct sim_fanout_model m = running_example(0.4, 20000);
        m.cleanup = (enum sim_fanout_cleanup)i;
        sim_fanout_run(&m, 1u << SIM_FANOUT_DELAYED, point);
        assert_near(point[SIM_FANOUT_DELAYED].p99, p99[i], 0.03);
    }
}

static void r248_the_gate_says_why(void **state)
{
    (void)state;
    const struct sim_fanout_point psq = {.p50 = 5, .p99 = 16, .busy = 0.3};
    struct sim_fanout_point full = psq, it = {.p50 = 5, .p99 = 12};
    full.busy = 0.99;
    assert_int_equal(sim_fanout_gate(&psq, &it), SIM_FANOUT_PAYS);
    assert_false(sim_fanout_harms(&psq, &it));
    assert_int_equal(sim_fanout_gate(&full, &it), SIM_FANOUT_OVERLOADED);
    it.p99 = 15;
    assert_int_equal(sim_fanout_gate(&psq, &it), SIM_FANOUT_TAIL);
    assert_false(sim_fanout_harms(&psq, &it));
    it.p99 = 17;
    assert_true(sim_fanout_harms(&psq, &it));
    it = (struct sim_fanout_point){.p50 = 5.3, .p99 = 8};
    assert_int_equal(sim_fanout_gate(&psq, &it), SIM_FANOUT_MEDIAN);
    assert_true(sim_fanout_harms(&psq, &it));
}

/* Three cells of the grid, small: the policy hurts in two of them, the gate keeps it from both. */
static void r248_the_gate_keeps_harm_away(void **state)
{
    (void)state;
    struct sim_fanout_model m = running_example(0.2, 4000);
    struct sim_fanout_cell cells[3] = {{.p = 1e-5, .load = 0.2}, {.p = 1e-3, .load = 0.4}, {.p = 1e-3, .load = 0.02}};
    struct sim_fanout_tally t;
    assert_int_equal(sim_fanout_cells_run(&m, 1, cells, 3), 0);
    sim_fanout_cells_tally(cells, 3, SIM_FANOUT_LAEDGE, &t);
    assert_int_equal(t.harm, 2);
    assert_int_equal(t.on, 1);
    assert_int_equal(t.on_harm, 0);
    assert_int_equal(cells[2].verdict[0], SIM_FANOUT_PAYS);
    assert_int_equal(t.gain[2], 1);
}

static void r247_the_grid_is_as_published(void **state)
{
    (void)state;
    static struct sim_fanout_cell cells[SIM_FANOUT_CELLS_MAX];
    assert_int_equal(sim_fanout_cells_lay(cells, 13), 208);
    assert_near(cells[16].p, 0.1 / pow(10, 1.0 / 3), 1e-9);
    assert_near(cells[207].p, 1e-5, 1e-9);
    assert_int_equal(sim_fanout_cells_lay(cells, SIM_FANOUT_PROBABILITIES), 176);
    assert_near(cells[0].p, 0.1, 1e-9);
    assert_near(cells[175].p, 1e-5, 1e-9);
    assert_near(cells[175].load, 0.8, 1e-9);
}

static void r247_bad_values_are_named(void **state)
{
    (void)state;
    struct sim_fanout_model m = running_example(0.2, 1000);
    m.replicas = 17;
    assert_non_null(strstr(sim_fanout_refuse(&m), "replicas"));
    m = running_example(0.2, 1000);
    m.p = NAN;
    assert_non_null(strstr(sim_fanout_refuse(&m), "p must be 0..1"));
    m = running_example(0.2, 1000);
    m.requests = 10;
    assert_non_null(strstr(sim_fanout_refuse(&m), "requests"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r247_unloaded_tails_are_those_of_the_closed_form),
        cmocka_unit_test(r247_one_replica_is_a_known_queue_for_all),
        cmocka_unit_test(r247_the_running_example_at_20_percent),
        cmocka_unit_test(r243_copies_vanish_under_load),
        cmocka_unit_test(r247_more_replicas_and_the_same_seed),
        cmocka_unit_test(r246_preemption_takes_the_right_one),
        cmocka_unit_test(r247_delayed_copies_by_their_cleanup),
        cmocka_unit_test(r248_the_gate_says_why),
        cmocka_unit_test(r248_the_gate_keeps_harm_away),
        cmocka_unit_test(r247_the_grid_is_as_published),
        cmocka_unit_test(r247_bad_values_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
