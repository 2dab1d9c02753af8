// SPDX-License-Identifier: Apache-2.0
// Servers that are not first come first served, without packets: against cases worked out by hand, against the single
// queue where they are the same system, against closed forms, and against each other's promises.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "closed.h"
#include "policy_heap.h"
#include "policy_model.h"
#include "report.h"
#include "router/router_config.h"
#include "world.h"

static void near(double got, double want, double tolerance)
{
    if (fabs(got - want) > tolerance * fabs(want)) {
        fail_msg("got %g, want %g within %g %%", got, want, 100 * tolerance);
    }
}

static struct sim_policy_model model(enum sim_policy_kind kind, enum sim_dist_kind service, uint32_t workers,
                                     double load)
{
    struct sim_policy_model m;
    sim_policy_defaults(&m);
    m.kind = kind;
    m.service = (struct sim_dist){service, 1e4, 1};
    m.workers = workers;
    m.load = load;
    m.requests = 200000;
    assert_null(sim_policy_refuse(&m));
    return m;
}

/* Plays a few jobs by hand and compares when each has left. */
static void leaves(struct sim_policy_model *m, const struct sim_job *job, const uint64_t *leave_ns, size_t n)
{
    uint64_t v[16];
    struct sim_policy_counts c;
    assert_true(n <= 16);
    sim_policy_play(m, job, n, v, &c);
    for (size_t i = 0; i < n; i++) {
        if (job[i].arrival_ns + v[i] != leave_ns[i]) {
            fail_msg("job %zu leaves at %llu, not at %llu", i, (unsigned long long)(job[i].arrival_ns + v[i]),
                     (unsigned long long)leave_ns[i]);
        }
    }
}

/* One worker: the first runs to its end though it is long, then by length, and equal ones as they came. */
static void q20_the_shortest_goes_next_and_nobody_is_interrupted(void **state)
{
    (void)state;
    struct sim_policy_model m = model(SIM_POLICY_SJF, SIM_DIST_EXPONENTIAL, 1, 0.5);
    const struct sim_job job[] = {{0, 100}, {10, 50}, {20, 30}, {30, 50}, {175, 1}};
    const uint64_t leave[] = {100, 180, 130, 231, 181};
    leaves(&m, job, leave, 5);
}

/* Deadlines: 260 of the second (10 + 5·50), 245 of the third, 250 of the fourth. The shortest first would be the
 * fourth. */
static void q21_the_earliest_deadline_goes_next(void **state)
{
    (void)state;
    struct sim_policy_model m = model(SIM_POLICY_EDF, SIM_DIST_EXPONENTIAL, 1, 0.5);
    const struct sim_job job[] = {{0, 300}, {10, 50}, {20, 45}, {200, 10}};
    const uint64_t leave[] = {300, 405, 345, 355};
    leaves(&m, job, leave, 4);
}

/* Bimodal-1 of mean 10,000 on two workers: 0.45 of the work is fast, which is no whole worker, so both are slow; on
 * three one is fast. */
static void q22_fast_workers_serve_fast_requests_and_slow_ones_slow_first(void **state)
{
    (void)state;
    struct sim_policy_model m = model(SIM_POLICY_CSCQ, SIM_DIST_BIMODAL1, 3, 0.5);
    const struct sim_job job[] = {
        {0, 55000},     /* slow: a slow worker */
        {1, 5000},      /* fast: the fast one, though a slow one is idle as well */
        {2, 55000},     /* slow: the other slow one */
        {3, 5000},      /* fast: waits for the fast worker */
        {4, 55000},     /* slow: waits, and the fast worker does not take it when it is idle */
        {54000, 5000},  /* fast, at the idle fast worker */
        {54001, 5000},  /* fast: waits; the slow worker that is free first has a slow one to serve, the next takes it */
        {170000, 5000}, /* fast, and so are the next two: the fast worker, and each slow one lends itself */
        {170000, 5000}, {170000, 5000},
    };
    const uint64_t leave[] = {55000, 5001, 55002, 10001, 110000, 59000, 60002, 175000, 175000, 175000};
    leaves(&m, job, leave, 10);
    m.workers = 1; /* no worker is fast: slow first */
    const struct sim_job one[] = {{0, 5000}, {1, 5000}, {2, 55000}};
    const uint64_t one_leaves[] = {5000, 65000, 60000};
    leaves(&m, one, one_leaves, 3);
}

/* Two workers: alone and with one other a request runs at full rate, three of them at two thirds of it. */
static void q3_what_is_shared_is_shared_evenly(void **state)
{
    (void)state;
    struct sim_policy_model m = model(SIM_POLICY_PS, SIM_DIST_EXPONENTIAL, 2, 0.5);
    const struct sim_job job[] = {{0, 1000}, {0, 1000}, {400, 200}, {5000, 77}};
    /* from 400 on three share two workers: the last has its 200 at 700, when the others had 400 + 200; then 400 to go
     */
    const uint64_t leave[] = {1100, 1100, 700, 5077};
    leaves(&m, job, leave, 4);
    m.workers = 1;
    const struct sim_job one[] = {{0, 100}, {50, 100}};
    const uint64_t one_leaves[] = {150, 200}; /* 50 alone, 100 shared by two, 50 alone */
    leaves(&m, one, one_leaves, 2);
}

static uint64_t *sojourns(const struct sim_policy_model *m, struct sim_job **job, struct sim_policy_counts *counts)
{
    *job = calloc(m->requests, sizeof **job);
    uint64_t *v = calloc(m->requests, sizeof *v);
    assert_true(*job != NULL && v != NULL);
    sim_policy_jobs(m, *job);
    sim_policy_play(m, *job, m->requests, v, counts);
    return v;
}

/* Fixed service: every order is that of arrival, and the deadline is too. */
static void q44_equal_services_are_served_as_they_came(void **state)
{
    (void)state;
    const enum sim_policy_kind kinds[] = {SIM_POLICY_SJF, SIM_POLICY_EDF};
    for (size_t k = 0; k < 2; k++) {
        struct sim_policy_model m = model(kinds[k], SIM_DIST_DETERMINISTIC, 16, 0.95), central = m;
        struct sim_policy_counts c;
        struct sim_job *job, *same;
        central.kind = SIM_POLICY_CENTRAL;
        uint64_t *v = sojourns(&m, &job, &c), *w = sojourns(&central, &same, &c);
        assert_memory_equal(v, w, m.requests * sizeof *v);
        free(v);
        free(w);
        free(job);
        free(same);
    }
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* When one worker has nothing to do depends on no order: each busy period of SJF, EDF, CSCQ and PS ends when that of
 * the single queue does. Work that is lost, made or left lying while the worker is idle moves an end. */
static void q64_one_worker_is_busy_as_long_in_any_order(void **state)
{
    (void)state;
    const enum sim_policy_kind kinds[] = {SIM_POLICY_SJF, SIM_POLICY_EDF, SIM_POLICY_CSCQ, SIM_POLICY_PS};
    for (size_t k = 0; k < 4; k++) {
        struct sim_policy_model m = model(kinds[k], SIM_DIST_BIMODAL1, 1, 0.8);
        struct sim_policy_counts c;
        struct sim_job *job;
        uint64_t *v = sojourns(&m, &job, &c), busy_until = 0;
        for (uint64_t i = 0; i < m.requests; i++) {
            v[i] += job[i].arrival_ns;
        }
        qsort(v, m.requests, sizeof *v, by_time);
        for (uint64_t i = 0; i < m.requests; i++) {
            uint64_t begin = job[i].arrival_ns > busy_until ? job[i].arrival_ns : busy_until;
            busy_until = begin + job[i].service_ns;
            bool last = i + 1 == m.requests || job[i + 1].arrival_ns > busy_until;
            if (last) {
                assert_true(v[i] + 5 >= busy_until && v[i] <= busy_until + 5); /* PS rounds its rates */
            }
        }
        free(v);
        free(job);
    }
}

static double mean_of(enum sim_policy_kind kind, enum sim_dist_kind service, uint32_t workers, double load)
{
    struct sim_policy_result r;
    struct sim_policy_model m = model(kind, service, workers, load);
    m.requests = 1000000;
    sim_policy_run(&m, &r);
    assert_int_equal(r.measured, m.requests - m.requests / 10);
    return r.mean_ns / 1e4;
}

/* The simulated counterpart of every closed form of these disciplines, within Q-61 where a million requests are enough
 * for it; `bobtail-sim figures` has the higher loads. */
static void q61_means_agree_with_closed_forms(void **state)
{
    (void)state;
    const enum sim_dist_kind any[] = {SIM_DIST_DETERMINISTIC, SIM_DIST_EXPONENTIAL, SIM_DIST_BIMODAL1,
                                      SIM_DIST_BIMODAL10};
    for (size_t k = 0; k < 4; k++) { /* the mean of PS does not depend on the distribution */
        near(mean_of(SIM_POLICY_DIRECT_PS, any[k], 16, 0.5), sim_mg1ps_mean(0.5, 1), 0.01);
    }
    /* M/G/n/PS is insensitive as well: the mean of M/M/n */
    near(mean_of(SIM_POLICY_PS, SIM_DIST_EXPONENTIAL, 16, 0.8), 1 + sim_mmn_wait(16, 0.8), 0.01);
    near(mean_of(SIM_POLICY_PS, SIM_DIST_BIMODAL1, 16, 0.8), 1 + sim_mmn_wait(16, 0.8), 0.01);
    double load = 0.5, fast = load * 0.45; /* of bimodal-1: 90 % of the requests */
    near(mean_of(SIM_POLICY_SJF, SIM_DIST_EXPONENTIAL, 1, load), 1 + sim_mm1_sjf_wait(load), 0.01);
    near(mean_of(SIM_POLICY_SJF, SIM_DIST_BIMODAL1, 1, load), 1 + sim_mg1_priority_wait(load, 2.25, fast, 0.9), 0.01);
    near(mean_of(SIM_POLICY_CSCQ, SIM_DIST_BIMODAL1, 1, load), 1 + sim_mg1_priority_wait(load, 2.25, load - fast, 0.1),
         0.01);
}

/* Q-55 of a single request: twice as long takes twice as much time. Bimodal-1 has sizes of 1 and 11. */
static void q55_time_is_in_proportion_to_size(void **state)
{
    (void)state;
    struct sim_policy_model m = model(SIM_POLICY_DIRECT_PS, SIM_DIST_BIMODAL1, 16, 0.8);
    m.requests = 2000000;
    struct sim_policy_counts c;
    struct sim_job *job;
    uint64_t *v = sojourns(&m, &job, &c);
    double sum[2] = {0}, n[2] = {0};
    for (uint64_t i = m.requests / 10; i < m.requests; i++) {
        int is_long = job[i].service_ns > 10000;
        sum[is_long] += (double)v[i] / 1e4;
        n[is_long]++;
    }
    near(sum[0] / n[0], sim_mg1ps_mean(0.8, 0.5), 0.02);
    near(sum[1] / n[1], sim_mg1ps_mean(0.8, 5.5), 0.02);
    free(v);
    free(job);
}

static void the_queue_is_bounded_when_asked(void **state)
{
    (void)state;
    const enum sim_policy_kind kinds[] = {SIM_POLICY_SJF, SIM_POLICY_EDF, SIM_POLICY_CSCQ};
    for (size_t k = 0; k < 3; k++) {
        struct sim_policy_model m = model(kinds[k], SIM_DIST_BIMODAL1, 16, 1.3);
        struct sim_policy_result r;
        m.central_limit = 100;
        sim_policy_run(&m, &r);
        assert_int_equal(r.counts.most_held, 100);
        assert_true(r.counts.dropped > 0 && r.measured + r.counts.dropped <= m.requests);
        near(r.throughput, 1, k < 2 ? 0.35 : 0.2);
    }
}

static void a_path_is_added_once(void **state)
{
    (void)state;
    const enum sim_policy_kind kinds[] = {SIM_POLICY_SJF, SIM_POLICY_EDF, SIM_POLICY_CSCQ, SIM_POLICY_PS,
                                          SIM_POLICY_DIRECT_PS};
    for (size_t k = 0; k < 5; k++) {
        struct sim_policy_model m = model(kinds[k], SIM_DIST_BIMODAL1, 2, 0.1);
        m.path.client_server_ns = 7500;
        m.path.reply_ns = 500;
        const struct sim_job job[] = {{1000, 5000}};
        const uint64_t leave[] = {1000 + 7500 + 5000 + 500};
        leaves(&m, job, leave, 1);
    }
}

/* One server of four threads through the whole protocol, whose queue is the only one. */
static struct sim_trace packets(enum sim_discipline discipline, enum sim_dist_kind service)
{
    struct sim_scenario *s = calloc(1, sizeof *s);
    struct sim_result *r = calloc(1, sizeof *r);
    assert_true(s != NULL && r != NULL);
    sim_scenario_defaults(s);
    s->requests = 40000;
    s->workers = 1;
    s->threads = 4;
    s->discipline = discipline;
    s->policy = BT_ROUTER_JSQ;
    s->service = (struct sim_dist){service, 1e6, 0};
    s->load = 0.85;
    s->settle_ms = 0;
    s->tagged = false;
    struct sim_trace t = {calloc(s->requests, sizeof *t.job), calloc(s->requests, sizeof *t.sojourn_ns), 0};
    assert_true(t.job != NULL && t.sojourn_ns != NULL);
    sim_run(s, r, &t);
    assert_int_equal(r->outcome[SIM_SUCCESS], s->requests);
    assert_int_equal(sim_broken(&r->verdict), 0);
    free(s);
    free(r);
    return t;
}

/* every single request takes as long through packets as without them. */
static void q20_q21_scenarios_and_the_model_agree_request_by_request(void **state)
{
    (void)state;
    static const struct {
        enum sim_discipline scenario;
        enum sim_policy_kind kind;
    } same[] = {{SIM_SERVE_FCFS, SIM_POLICY_CENTRAL}, {SIM_SERVE_SJF, SIM_POLICY_SJF}, {SIM_SERVE_EDF, SIM_POLICY_EDF}};
    const enum sim_dist_kind service[] = {SIM_DIST_EXPONENTIAL, SIM_DIST_BIMODAL1}; /* the second: ties */
    for (size_t i = 0; i < 6; i++) {
        struct sim_trace t = packets(same[i / 2].scenario, service[i % 2]);
        struct sim_policy_model m = model(same[i / 2].kind, service[i % 2], 4, 0.85);
        struct sim_policy_counts c;
        uint64_t *v = calloc(t.n, sizeof *v);
        assert_non_null(v);
        sim_policy_play(&m, t.job, t.n, v, &c);
        assert_memory_equal(v, t.sojourn_ns, t.n * sizeof *v);
        free(v);
        free(t.job);
        free(t.sojourn_ns);
    }
}

static void two_kinds_of_workers_need_two_kinds_of_requests(void **state)
{
    (void)state;
    struct sim_policy_model m;
    sim_policy_defaults(&m);
    m.kind = SIM_POLICY_CSCQ;
    assert_string_equal(sim_policy_refuse(&m),
                        "CSCQ needs two kinds of requests: distribution bimodal1, bimodal2 or bimodal10");
    m.service.kind = SIM_DIST_BIMODAL2;
    assert_null(sim_policy_refuse(&m));
}

static void a_heap_gives_the_smallest_and_of_equal_ones_the_first(void **state)
{
    (void)state;
    struct sim_heap h = {0};
    struct bt_rng g;
    bt_rng_seed(&g, 3);
    uint32_t n = 0;
    for (int round = 0; round < 200; round++) {
        for (uint32_t i = bt_rng_below(&g, 50); i > 0; i--) {
            sim_heap_push(&h, bt_rng_below(&g, 20), n++);
        }
        for (uint32_t i = bt_rng_below(&g, 50); i > 0 && h.n > 0; i--) {
            struct sim_heap_item least = h.v[0];
            for (size_t k = 1; k < h.n; k++) {
                if (h.v[k].key < least.key || (h.v[k].key == least.key && h.v[k].job < least.job)) {
                    least = h.v[k];
                }
            }
            assert_int_equal(sim_heap_pop(&h), least.job);
        }
    }
    sim_heap_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q20_the_shortest_goes_next_and_nobody_is_interrupted),
        cmocka_unit_test(q21_the_earliest_deadline_goes_next),
        cmocka_unit_test(q22_fast_workers_serve_fast_requests_and_slow_ones_slow_first),
        cmocka_unit_test(q3_what_is_shared_is_shared_evenly),
        cmocka_unit_test(q44_equal_services_are_served_as_they_came),
        cmocka_unit_test(q64_one_worker_is_busy_as_long_in_any_order),
        cmocka_unit_test(q61_means_agree_with_closed_forms),
        cmocka_unit_test(q55_time_is_in_proportion_to_size),
        cmocka_unit_test(the_queue_is_bounded_when_asked),
        cmocka_unit_test(a_path_is_added_once),
        cmocka_unit_test(q20_q21_scenarios_and_the_model_agree_request_by_request),
        cmocka_unit_test(two_kinds_of_workers_need_two_kinds_of_requests),
        cmocka_unit_test(a_heap_gives_the_smallest_and_of_equal_ones_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
