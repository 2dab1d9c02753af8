// SPDX-License-Identifier: Apache-2.0
// The switch's pipeline (W-2 to W-7) by hand, and its story at rest under every fault.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "switch_pipeline.h"
#include "switch_story.h"

enum { WORKERS = 20 };

struct bed {
    struct sim_pipeline p;
    struct sim_pipeline_worker w[WORKERS];
};

static void init(struct bed *b, uint32_t depth)
{
    struct sim_pipeline_config c = {WORKERS, depth, 16, 3, 1000, 100};
    sim_pipeline_init(&b->p, &c, b->w);
}

/* A FEEDBACK and its second pass. What it changed. */
static int32_t heard(struct bed *b, uint32_t now, uint32_t w, struct sim_pipeline_report r)
{
    int32_t delta = 0;
    if (!sim_pipeline_report(&b->p, now, w, &r, &delta)) {
        return 0;
    }
    sim_pipeline_credit(&b->p, w, r.life, delta);
    return delta;
}

/* W-2: a fresh switch gives nobody anything, and admits as many to the loop as it may (W-6). */
static void w2_nobody_gets_anything_before_it_joined(void **state)
{
    (void)state;
    struct bed b;
    struct sim_pipeline_loop loop[5];
    init(&b, 2);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sim_pipeline_first(&b.p, 0, &loop[i]), SIM_PIPELINE_WAITS);
        assert_int_equal(loop[i].admitted, i < 3);
    }
    assert_int_equal(sim_pipeline_again(&b.p, 1, &loop[4]), SIM_PIPELINE_FULL);
    assert_int_equal(sim_pipeline_again(&b.p, 1001, &loop[0]), SIM_PIPELINE_LATE);
    assert_int_equal(b.p.held, 2);
}

/* W-3, R-109: the same FEEDBACK again, or an older one, changes nothing. */
static void w3_feedback_sets(void **state)
{
    (void)state;
    struct bed b;
    struct sim_pipeline_loop loop;
    init(&b, 4);
    assert_int_equal(heard(&b, 0, 7, (struct sim_pipeline_report){4, 9, 0, 0, false}), 4);
    for (int i = 0; i < 4; i++) {
        uint32_t w = sim_pipeline_first(&b.p, 0, &loop);
        while (w == SIM_PIPELINE_WAITS) {
            w = sim_pipeline_again(&b.p, 0, &loop);
        }
        assert_int_equal(w, 7);
    }
    assert_int_equal(b.w[7].credits, 0);
    struct sim_pipeline_report two = {4, 9, 3, 2, false}, one = {4, 9, 2, 1, false};
    assert_int_equal(heard(&b, 1, 7, two), 2);
    assert_int_equal(heard(&b, 1, 7, two), 0);
    assert_int_equal(heard(&b, 1, 7, one), 0);
    assert_int_equal(b.w[7].credits, 2);
    /* less n, then none at all. */
    assert_int_equal(heard(&b, 1, 7, (struct sim_pipeline_report){1, 9, 3, 2, false}), -3);
    assert_int_equal(heard(&b, 1, 7, (struct sim_pipeline_report){4, 9, 4, 4, true}), 1);
    assert_int_equal(b.w[7].credits, 0);
}

/* what never arrived gives its credit back T_loss later, and gives it up again when it was only late. */
static void r111_lost_and_late(void **state)
{
    (void)state;
    struct bed b;
    struct sim_pipeline_loop loop;
    init(&b, 1);
    struct sim_pipeline_report idle = {1, 9, 0, 0, false};
    heard(&b, 0, 3, idle);
    assert_int_equal(sim_pipeline_first(&b.p, 0, &loop), 3);
    assert_int_equal(heard(&b, 99, 3, idle), 0);
    assert_int_equal(heard(&b, 150, 3, idle), 0); /* sampled now */
    assert_int_equal(heard(&b, 250, 3, idle), 1);
    assert_int_equal(b.w[3].lost, 1);
    assert_int_equal(heard(&b, 260, 3, (struct sim_pipeline_report){1, 9, 1, 0, false}), -1);
    assert_int_equal(heard(&b, 270, 3, (struct sim_pipeline_report){1, 9, 1, 1, false}), 1);
    assert_int_equal(b.w[3].credits, 1);
}

/* what was said of a former life counts no more when it comes round. */
static void r112_a_former_life(void **state)
{
    (void)state;
    struct bed b;
    int32_t before = 0;
    init(&b, 2);
    heard(&b, 0, 0, (struct sim_pipeline_report){2, 5, 0, 0, false});
    b.w[0].credits = 0;
    assert_true(sim_pipeline_report(&b.p, 1, 0, &(struct sim_pipeline_report){2, 5, 2, 2, false}, &before));
    assert_int_equal(heard(&b, 2, 0, (struct sim_pipeline_report){2, 6, 1, 0, false}), 1);
    sim_pipeline_credit(&b.p, 0, 5, before);
    assert_int_equal(b.w[0].credits, 1);
    assert_int_equal(heard(&b, 3, 0, (struct sim_pipeline_report){2, 5, 3, 3, false}), 0); /* a straggler */
}

/* after any faults all credits are there at rest. */
static void r141_nothing_is_missing_at_rest(void **state)
{
    (void)state;
    FILE *null = fopen("/dev/null", "w");
    assert_non_null(null);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t missing = sim_switch_story(seed, 20000, null);
        if (missing != 0) {
            fail_msg("seed %llu: %llu", (unsigned long long)seed, (unsigned long long)missing);
        }
    }
    fclose(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(w2_nobody_gets_anything_before_it_joined),
        cmocka_unit_test(w3_feedback_sets),
        cmocka_unit_test(r111_lost_and_late),
        cmocka_unit_test(r112_a_former_life),
        cmocka_unit_test(r141_nothing_is_missing_at_rest),
    };
    return cmocka_run_group_tests_name("sim pipeline", tests, NULL, NULL);
}
