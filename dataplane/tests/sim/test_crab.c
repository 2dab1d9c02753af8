// SPDX-License-Identifier: Apache-2.0
// CRAB's choice of a server in the simulator: known queues, and the published order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>

#include "crab_model.h"

static struct sim_crab_point at(const struct sim_crab_model *m, enum sim_crab_variant v)
{
    struct sim_crab_point p;
    assert_int_equal(sim_crab_run(m, v, &p), 0);
    return p;
}

static void assert_near(double value, double expected, double share)
{
    if (fabs(value - expected) > share * expected) {
        fail_msg("%g is not within %g %% of %g", value, share * 100, expected);
    }
}

/* behind a random choice each server is an M/M/1 queue. */
static void q50_random_choice_makes_queues_of_their_own(void **state)
{
    (void)state;
    const struct sim_crab_model m = {.clients = 4,
                                     .servers = 4,
                                     .load = 0.6,
                                     .report_every = 1,
                                     .requests = 1000000,
                                     .exponential = true,
                                     .seed = 5};
    assert_near(at(&m, SIM_CRAB_RANDOM).p99, -log(0.01) / 0.4, 0.03);
    assert_near(at(&m, SIM_CRAB_RANDOM).p50, -log(0.5) / 0.4, 0.03);
}

/* Central round robin over fixed service is one FCFS queue of 16 servers (spec crab.md, table of section 8). */
static void q40_p99_of_the_three_published_ways(void **state)
{
    (void)state;
    static const struct {
        double load, random, distributed, central;
    } want[] = {{0.5, 4.32, 3.58, 1.00}, {0.8, 11.3, 5.19, 1.54}, {0.9, 22.2, 5.86, 2.27}};
    for (unsigned i = 0; i < 3; i++) {
        const struct sim_crab_model m = {
            .clients = 16, .servers = 16, .load = want[i].load, .report_every = 1, .requests = 1500000, .seed = 7};
        double random = at(&m, SIM_CRAB_RANDOM).p99, distributed = at(&m, SIM_CRAB_DISTRIBUTED).p99;
        double central = at(&m, SIM_CRAB_CENTRAL).p99;
        assert_near(random, want[i].random, 0.06);
        assert_near(distributed, want[i].distributed, 0.04);
        assert_near(central, want[i].central, 0.02);
    }
}

/* C-62: what servers tell of themselves helps where nobody sees all connections. */
static void c62_reports_beat_chance(void **state)
{
    (void)state;
    const struct sim_crab_model m = {.clients = 16,
                                     .servers = 16,
                                     .load = 0.8,
                                     .report_every = 0.5,
                                     .requests = 400000,
                                     .exponential = true,
                                     .seed = 9};
    double random = at(&m, SIM_CRAB_RANDOM).p99, two = at(&m, SIM_CRAB_TWO).p99, least = at(&m, SIM_CRAB_LEAST).p99;
    assert_true(two < 0.6 * random);
    assert_true(least < two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q50_random_choice_makes_queues_of_their_own),
        cmocka_unit_test(q40_p99_of_the_three_published_ways),
        cmocka_unit_test(c62_reports_beat_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
