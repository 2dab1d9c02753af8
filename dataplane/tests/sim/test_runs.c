// SPDX-License-Identifier: Apache-2.0
// Whole runs: repeatability, identities with the pure models and realised faults.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report.h"
#include "router/router_config.h"

static struct sim_scenario base(uint64_t seed)
{
    struct sim_scenario s;
    sim_scenario_defaults(&s);
    s.seed = seed;
    s.requests = 20000;
    s.service = (struct sim_dist){SIM_DIST_EXPONENTIAL, 1e6, 0};
    s.load = 0.9;
    s.settle_ms = 0;
    return s;
}

static struct sim_trace traced(const struct sim_scenario *s, struct sim_result *r)
{
    struct sim_trace t = {calloc(s->requests, sizeof(struct sim_job)), calloc(s->requests, sizeof(uint64_t)), 0};
    assert_non_null(t.job);
    assert_non_null(t.sojourn_ns);
    sim_run(s, r, &t);
    assert_int_equal(sim_broken(&r->verdict), 0);
    return t;
}

static void release(struct sim_trace *t)
{
    free(t->job);
    free(t->sojourn_ns);
}

static void q60_same_seed_same_run_other_policy_same_load(void **state)
{
    (void)state;
    struct sim_scenario s = base(3), other = base(3), third = base(4);
    struct sim_result r1, r2, r3, r4;
    other.policy = BT_ROUTER_RANDOM;
    struct sim_trace a = traced(&s, &r1), b = traced(&s, &r2), c = traced(&other, &r3), d = traced(&third, &r4);
    assert_memory_equal(a.sojourn_ns, b.sojourn_ns, a.n * sizeof *a.sojourn_ns);
    assert_int_equal(r1.packets, r2.packets);
    assert_memory_equal(a.job, c.job, a.n * sizeof *a.job);
    assert_memory_not_equal(a.sojourn_ns, c.sojourn_ns, a.n * sizeof *a.sojourn_ns);
    assert_memory_not_equal(a.job, d.job, a.n * sizeof *a.job);
    release(&a);
    release(&b);
    release(&c);
    release(&d);
}

static void q62_jbsq1_is_the_central_queue_request_by_request(void **state)
{
    (void)state;
    struct sim_scenario s = base(9);
    struct sim_result r;
    s.depth = 1;
    struct sim_trace t = traced(&s, &r);
    uint64_t *model = calloc(t.n, sizeof *model);
    assert_non_null(model);
    sim_oracle_central(t.job, t.n, s.workers, model);
    assert_memory_equal(model, t.sojourn_ns, t.n * sizeof *model);
    assert_true(r.idle_while_waiting_ns == 0); /* */
    free(model);
    release(&t);
}

/* The comparison above must be able to fail: JBSQ(2) is not the central queue. */
static void jbsq2_differs_from_the_central_queue(void **state)
{
    (void)state;
    struct sim_scenario s = base(9);
    struct sim_result r;
    s.depth = 2;
    struct sim_trace t = traced(&s, &r);
    uint64_t *model = calloc(t.n, sizeof *model);
    assert_non_null(model);
    sim_oracle_central(t.job, t.n, s.workers, model);
    assert_memory_not_equal(model, t.sojourn_ns, t.n * sizeof *model);
    assert_true(r.idle_while_waiting_ns > 0);
    free(model);
    release(&t);
}

static void r146_delay_limits_throughput_to_n_over_the_cycle(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        struct sim_scenario s = base(2);
        struct sim_result r;
        s.service.kind = SIM_DIST_DETERMINISTIC;
        s.depth = n;
        s.load = 1.3;
        s.central_limit = 256;
        s.delay.router_server_ns = s.delay.server_router_ns = 750000;
        sim_run(&s, &r, NULL);
        double want = n < 3 ? n / 2.5 : 1;
        assert_true(r.throughput > want * 0.98 && r.throughput < want * 1.02);
    }
}

static void faults_are_counted_when_they_happen(void **state)
{
    (void)state;
    struct sim_scenario s = base(5);
    struct sim_result r;
    s.requests = 2000;
    s.timeout_ns = 1000000000;
    s.settle_ms = 2500;
    s.faults_n = 2;
    s.fault[0] = (struct sim_fault){"a", SIM_PKT_REQ0, SIM_FAULT_LOSS, 0.05, 0, 0, UINT64_MAX};
    s.fault[1] = (struct sim_fault){"b", SIM_PKT_FEEDBACK, SIM_FAULT_DUPLICATE, 0.05, 1000, 0, UINT64_MAX};
    sim_run(&s, &r, NULL);
    assert_int_equal(sim_broken(&r.verdict), 0);
    assert_true(r.seen.lost[SIM_PKT_REQ0] > 100);
    assert_true(r.seen.duplicated[SIM_PKT_FEEDBACK] > 50);
    assert_int_equal(r.seen.lost[SIM_PKT_REPLY], 0);
    assert_int_equal(r.outcome[SIM_TIMEOUT], r.seen.lost[SIM_PKT_REQ0]);
    s.faults_n = 0;
    sim_run(&s, &r, NULL);
    assert_int_equal(sim_faults_total(&r.seen), 0);
}

/* the copy of a corrupted FEEDBACK is as corrupted: the ledger must not take the worker's word from it. */
static void copies_of_corrupted_packets_are_corrupted(void **state)
{
    (void)state;
    struct sim_scenario s = base(5);
    struct sim_result r;
    s.requests = 500;
    s.tagged = true;
    s.faults_n = 2;
    s.fault[0] = (struct sim_fault){"a", SIM_PKT_FEEDBACK, SIM_FAULT_DUPLICATE, 1, 1000, 0, UINT64_MAX};
    s.fault[1] = (struct sim_fault){"b", SIM_PKT_FEEDBACK, SIM_FAULT_CORRUPT, 1, 0, 0, UINT64_MAX};
    sim_run(&s, &r, NULL);
    uint64_t copies = 0, corrupted = 0;
    for (int kind = 0; kind < SIM_PKTS; kind++) { /* a flipped bit makes some look like another kind */
        copies += r.seen.duplicated[kind];
        corrupted += r.seen.corrupted[kind];
    }
    assert_true(copies > 10);
    assert_int_equal(corrupted, 2 * copies);
    assert_int_equal(r.verdict.checked[SIM_INV_UNCHANGED], corrupted);
    assert_int_equal(r.router_counter[BT_RC_FEEDBACK], 0);
}

/* what comes while a thread of the router stands still waits at its port, and is judged when it is read. */
static void bad_packets_that_wait_are_judged(void **state)
{
    (void)state;
    struct sim_scenario s = base(5);
    struct sim_result r;
    s.requests = 500;
    s.settle_ms = 500;
    s.tagged = true;
    s.router_threads = 2;
    s.garbage_per_second = 10000;
    s.events_n = 2;
    s.event[0] = (struct sim_happening){.kind = SIM_EV_PAUSE_THREAD, .at_ns = 2000000, .for_ns = 12000000, .value = 1};
    s.event[1] =
        (struct sim_happening){.kind = SIM_EV_PAUSE_THREAD, .at_ns = 10000000, .for_ns = 12000000, .number = 1};
    sim_run(&s, &r, NULL);
    assert_int_equal(sim_broken(&r.verdict), 0);
    assert_int_equal(r.seen.happened[SIM_EV_PAUSE_THREAD], 2);
    assert_true(r.seen.garbage > 200);
    assert_int_equal(r.verdict.checked[SIM_INV_UNCHANGED], r.seen.garbage);
}

/* A number of the expectation list that does not hold must break the run. */
static void expectations_can_fail(void **state)
{
    (void)state;
    struct sim_scenario s = base(5);
    struct sim_result r;
    s.requests = 500;
    s.expect_n = 1;
    s.expect[0] = (struct sim_expect){"success", 500, 500, 7};
    sim_run(&s, &r, NULL);
    sim_judge_expectations(&s, &r);
    assert_int_equal(sim_broken(&r.verdict), 0);
    s.expect[0].low = 501;
    s.expect[0].high = 502;
    sim_judge_expectations(&s, &r);
    assert_int_equal(r.verdict.broken[SIM_INV_EXPECTED], 1);
    assert_non_null(strstr(r.verdict.first, "line 7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q60_same_seed_same_run_other_policy_same_load),
        cmocka_unit_test(q62_jbsq1_is_the_central_queue_request_by_request),
        cmocka_unit_test(jbsq2_differs_from_the_central_queue),
        cmocka_unit_test(r146_delay_limits_throughput_to_n_over_the_cycle),
        cmocka_unit_test(faults_are_counted_when_they_happen),
        cmocka_unit_test(copies_of_corrupted_packets_are_corrupted),
        cmocka_unit_test(bad_packets_that_wait_are_judged),
        cmocka_unit_test(expectations_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
