// SPDX-License-Identifier: Apache-2.0
// Servers on src/sched in virtual time against recursions that need no scheduler: run to completion is one queue a core
// and stealing leaves no core idle while a request waits.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "policy_model.h"
#include "sched/sched.h"
#include "sched_figures.h"
#include "sched_lanes.h"
#include "sched_sweep.h"

enum { N = 20000 };

struct run {
    struct sim_job job[N];
    uint64_t sojourn[N], want[N];
    struct sim_policy_counts counts;
};

static struct sim_policy_model model(enum sim_policy_kind kind, enum sim_dist_kind service, double load)
{
    struct sim_policy_model m;
    sim_policy_defaults(&m);
    m.kind = kind;
    m.service.kind = service;
    m.load = load;
    m.requests = N;
    m.interrupts = true;
    return m;
}

static void play(struct run *r, const struct sim_policy_model *m)
{
    sim_policy_jobs(m, r->job);
    sim_policy_play(m, r->job, N, r->sojourn, &r->counts);
}

/* The network's choices again: groups are spread over the cores in turn. */
static void q2_run_to_completion_is_a_queue_a_core(void **state)
{
    static struct run r;
    static uint16_t home[N];
    (void)state;
    for (uint32_t batch = 1; batch <= 64; batch *= 8) {
        struct sim_policy_model m = model(SIM_POLICY_RUN_TO_COMPLETION, SIM_DIST_BIMODAL1, 0.8);
        struct bt_rng choice;
        m.batch = batch;
        play(&r, &m);
        sim_stream_seed(&choice, m.seed, SIM_STREAM_CHOICE);
        for (size_t i = 0; i < N; i++) {
            home[i] = (uint16_t)(bt_rng_below(&choice, BT_SCHED_GROUPS_MAX) % m.workers);
        }
        sim_oracle_partitioned(r.job, home, N, m.workers, r.want);
        assert_memory_equal(r.sojourn, r.want, sizeof r.want);
        assert_int_equal(r.counts.stolen, 0);
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All services alike: whoever is executed first, a core ends something at the same times as with one queue. */
static void q1_stealing_leaves_no_core_idle(void **state)
{
    static struct run r;
    static const double load[] = {0.3, 0.9, 1.2};
    (void)state;
    for (size_t l = 0; l < sizeof load / sizeof load[0]; l++) {
        struct sim_policy_model m = model(SIM_POLICY_WORK_STEALING, SIM_DIST_DETERMINISTIC, load[l]);
        play(&r, &m);
        sim_oracle_central(r.job, N, m.workers, r.want);
        for (size_t i = 0; i < N; i++) {
            r.sojourn[i] += r.job[i].arrival_ns;
            r.want[i] += r.job[i].arrival_ns;
        }
        qsort(r.sojourn, N, sizeof *r.sojourn, by_value);
        qsort(r.want, N, sizeof *r.want, by_value);
        assert_memory_equal(r.sojourn, r.want, sizeof r.want);
        assert_true(r.counts.stolen > 0);
    }
}

static void one_core_has_nobody_to_rob(void **state)
{
    static struct run r;
    (void)state;
    struct sim_policy_model m = model(SIM_POLICY_WORK_STEALING, SIM_DIST_EXPONENTIAL, 0.7);
    m.workers = 1;
    play(&r, &m);
    sim_oracle_central(r.job, N, 1, r.want);
    assert_memory_equal(r.sojourn, r.want, sizeof r.want);
}

/* Every seed of the sweep tries something, and so do all of them together. */
static void seeds_hold_and_try(void **state)
{
    struct sim_sched_verdict sum = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS(200); seed++) {
        struct sim_sched_verdict v;
        sim_sched_seed(seed, &v);
        if (sim_sched_broken(&v) != 0) {
            print_message("seed %lu is broken\n", (unsigned long)seed);
            fail();
        }
        sim_sched_add(&sum, &v);
    }
    assert_true(sum.stolen > 1000 && sum.borrowed > 100 && sum.moves > 50);
}

static struct sim_policy_model rack(uint32_t workers, double load)
{
    struct sim_policy_model m = model(SIM_POLICY_ROUTER, SIM_DIST_EXPONENTIAL, load);
    m.workers = workers;
    m.depth = 5;
    m.path.dispatch_ns = m.path.feedback_ns = 7500;
    return m;
}

static void d3_a_lane_has_what_hides_the_loop(void **state)
{
    struct sim_policy_model m = rack(64, 0.9);
    (void)state;
    assert_int_equal(sim_sched_lane_n(&m, 16), 48);
    assert_int_equal(sim_sched_lane_n(&m, 8), 28);
    m.path.feedback_ns = 1000000;
    assert_int_equal(sim_sched_lane_n(&m, 16), 64);
}

/* A lane of one core that may have 5 requests is a worker that may: the same requests end at the same times. */
static void d3_lanes_of_one_core_are_workers(void **state)
{
    static const struct sim_sched_lane lane[4] = {{1, 5}, {1, 5}, {1, 5}, {1, 5}};
    struct sim_policy_model m = rack(4, 0.8);
    struct sim_policy_result r;
    (void)state;
    sim_policy_run(&m, &r);
    assert_true(sim_sched_lanes_p99(&m, lane, 4) == r.p99_ns);
}

static void d3_lanes_beat_ports(void **state)
{
    static const struct sim_sched_lane lane[4] = {{16, 48}, {16, 48}, {16, 48}, {16, 48}};
    struct sim_policy_model m = rack(64, 0.9);
    struct sim_policy_result r;
    (void)state;
    sim_policy_run(&m, &r);
    assert_true(sim_sched_lanes_p99(&m, lane, 4) < 0.75 * r.p99_ns);
}

/* A wrong server's figure is one that there is. */
static void planted_servers_have_a_figure(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sim_sched_planted_n; i++) {
        uint32_t found = 0;
        for (uint32_t k = 0; k < sim_sched_figures_n; k++) {
            found += strcmp(sim_sched_planted[i].figure, sim_sched_figures[k].name) == 0;
        }
        assert_int_equal(found, 1);
    }
}

static void bounds_of_a_server(void **state)
{
    struct sim_policy_model m = model(SIM_POLICY_WORK_STEALING, SIM_DIST_EXPONENTIAL, 0.5);
    (void)state;
    assert_null(sim_policy_refuse(&m));
    m.workers = BT_SCHED_CORES_MAX + 1;
    assert_non_null(sim_policy_refuse(&m));
    m.workers = BT_SCHED_CORES_MAX;
    m.batch = 0;
    assert_non_null(sim_policy_refuse(&m));
    m.batch = BT_SCHED_BATCH_MAX + 1;
    assert_non_null(sim_policy_refuse(&m));
    m.kind = SIM_POLICY_CENTRAL; /* it has neither */
    assert_null(sim_policy_refuse(&m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q2_run_to_completion_is_a_queue_a_core),
        cmocka_unit_test(q1_stealing_leaves_no_core_idle),
        cmocka_unit_test(one_core_has_nobody_to_rob),
        cmocka_unit_test(seeds_hold_and_try),
        cmocka_unit_test(d3_a_lane_has_what_hides_the_loop),
        cmocka_unit_test(d3_lanes_of_one_core_are_workers),
        cmocka_unit_test(d3_lanes_beat_ports),
        cmocka_unit_test(planted_servers_have_a_figure),
        cmocka_unit_test(bounds_of_a_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
