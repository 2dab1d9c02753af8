// SPDX-License-Identifier: Apache-2.0
// Threads that come and go (Z-14 to Z-16, D-3), by hand: how they are shared out to lanes, how many of them may run as
// configured and as there are processors, and which of them are parked.
#include "unit.h"

#include <sched.h>
#include <semaphore.h>
#include <string.h>

#include "run/run_internal.h"

#define MS UINT64_C(1000000)

static struct bt_run *run;
static unsigned processors; // that this process may use; 0: nobody says

int __wrap_sched_getaffinity(pid_t pid, size_t n, cpu_set_t *set);

int __wrap_sched_getaffinity(pid_t pid, size_t n, cpu_set_t *set)
{
    (void)pid;
    memset(set, 0, n);
    for (unsigned i = 0; i < processors; i++) {
        CPU_SET(i, set);
    }
    return processors != 0 ? 0 : -1;
}

static void handle(void *arg, struct bobtail_request *request)
{
    (void)arg;
    (void)request;
}

// So many threads that do not run.
static void open_run(uint32_t threads)
{
    char why[256] = "";
    struct bt_run_tcp tcp = {.framing = BT_FRAMING_U32, .max_message = 1000, .connections = 1};
    tcp.local = bt_addr_v4u(0x7f000001, 0);
    struct bt_run_setup setup = {.mode = BT_SCHED_WORK_STEALING,
                                 .threads = threads,
                                 .batch = 64,
                                 .seed = 1,
                                 .name = "lanes",
                                 .handler = handle,
                                 .tcp = &tcp};
    run = bt_run_open(&setup, why, sizeof why);
    if (run == NULL) {
        fail_msg("%s", why);
    }
}

static int begin(void **state)
{
    (void)state;
    processors = 64;
    open_run(20);
    run->elastic = true; // as with ports, which this has none of
    return 0;
}

static int end(void **state)
{
    (void)state;
    bt_run_close(run);
    return 0;
}

static void d3_lanes_are_as_equal_as_can_be(void **state)
{
    static const struct {
        uint32_t threads, lanes, cores[4];
    } rows[] = {{1, 1, {1}},           {16, 1, {16}},         {17, 2, {9, 8}},          {20, 2, {10, 10}},
                {33, 3, {11, 11, 11}}, {35, 3, {12, 12, 11}}, {64, 4, {16, 16, 16, 16}}};
    (void)state;
    processors = 64;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t first = 0;
        open_run(rows[i].threads);
        assert_int_equal(run->lanes, rows[i].lanes);
        assert_false(run->elastic); // all of them run
        for (uint32_t l = 0; l < rows[i].lanes; l++) {
            assert_true(run->lane[l].cores == rows[i].cores[l] && run->lane[l].first == first);
            assert_int_equal(atomic_load(&run->lane[l].active), rows[i].cores[l]);
            for (uint32_t k = 0; k < rows[i].cores[l]; k++) {
                const struct run_core *core = &run->core[first + k];
                assert_true(core->number == first + k && core->self == k && core->lane == &run->lane[l]);
                assert_false(run_parked(core));
            }
            first += rows[i].cores[l];
        }
        bt_run_close(run);
    }
}

static void is_bounded(uint32_t lane, uint32_t least, uint32_t most)
{
    assert_int_equal(atomic_load(&run->lane[lane].least), least);
    assert_int_equal(atomic_load(&run->lane[lane].most), most);
    assert_int_equal(run_lane_most(run, &run->lane[lane]), most);
}

static void z15_each_lane_has_its_share_of_what_may_run(void **state)
{
    static const struct {
        unsigned processors;
        uint32_t least, most, of[2][2]; // each lane's least and most
    } rows[] = {
        {64, 3, 7, {{2, 4}, {1, 3}}},       {64, 0, 0, {{1, 1}, {1, 1}}},       {64, 1, 2, {{1, 1}, {1, 1}}},
        {64, 20, 20, {{10, 10}, {10, 10}}}, {64, 64, 64, {{10, 10}, {10, 10}}}, {4, 3, 7, {{2, 2}, {1, 2}}},
        {4, 20, 20, {{2, 2}, {2, 2}}},      {3, 20, 20, {{2, 2}, {1, 1}}},      {1, 3, 7, {{1, 1}, {1, 1}}},
        {0, 3, 7, {{2, 4}, {1, 3}}},
    };
    (void)state;
    uint64_t now = 1000 * MS;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        processors = rows[i].processors;
        bt_run_set_cores(run, rows[i].least, rows[i].most);
        run->bounded = UINT64_MAX; // it is another wish than the last one
        run_elastic(run, now);
        is_bounded(0, rows[i].of[0][0], rows[i].of[0][1]);
        is_bounded(1, rows[i].of[1][0], rows[i].of[1][1]);
    }
}

static uint32_t parked(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 20; i++) {
        n += run_parked(&run->core[i]);
    }
    return n;
}

static int unparked(uint32_t core)
{
    int value = -1;
    assert_int_equal(sem_getvalue(&run->core[core].unpark, &value), 0);
    return value;
}

static void z16_those_that_are_too_many_are_parked_and_come_back(void **state)
{
    (void)state;
    assert_true(run->elastic && parked() == 0 && atomic_load(&run->parks) == 0);
    bt_run_set_cores(run, 3, 7);
    run_elastic(run, 1000 * MS);
    assert_int_equal(atomic_load(&run->lane[0].active), 4); // of ten, as many as may
    assert_int_equal(atomic_load(&run->lane[1].active), 3);
    assert_int_equal(parked(), 13);
    assert_int_equal(atomic_load(&run->parks), 13);
    assert_true(run->lane[0].resize && run->lane[1].resize);
    assert_false(run_parked(&run->core[3]) || run_parked(&run->core[12]));
    assert_true(run_parked(&run->core[4]) && run_parked(&run->core[13]));
    run->lane[0].resize = run->lane[1].resize = false;
    bt_run_set_cores(run, 3, 9); // more may, and nothing asks for it
    run_elastic(run, 1001 * MS);
    assert_int_equal(parked(), 13);
    assert_false(run->lane[0].resize || run->lane[1].resize);
    bt_run_set_cores(run, 9, 9);
    run_elastic(run, 1002 * MS);
    assert_int_equal(parked(), 11);
    for (uint32_t core = 0; core < 20; core++) { // those two are told
        assert_int_equal(unparked(core), core == 4 || core == 13);
    }
    assert_int_equal(atomic_load(&run->parks), 13);
    assert_true(run->lane[0].resize && run->lane[1].resize);
}

static void z15_processors_that_are_taken_away_are_seen(void **state)
{
    (void)state;
    bt_run_set_cores(run, 2, 20);
    run_elastic(run, 1000 * MS);
    is_bounded(0, 1, 10);
    processors = 6;
    run_elastic(run, 1499 * MS);
    assert_int_equal(atomic_load(&run->lane[0].most), 10);
    run_elastic(run, 1500 * MS);
    is_bounded(0, 1, 3);
    assert_int_equal(atomic_load(&run->lane[0].active), 3);
    struct bt_run_lanes lanes;
    bt_run_read_lanes(run, &lanes);
    assert_true(lanes.least == 2 && lanes.most == 6 && lanes.processors == 6);
}

// Z-14: what waits besides what is executed, looked at each time; what was done, each 10 ms.
static void z14_what_a_lane_does_is_measured(void **state)
{
    struct run_lane *lane = &run->lane[1];
    (void)state;
    run_elastic(run, 1000 * MS);
    atomic_store(&run->home[lane->first].backlog, 5);
    atomic_store(&run->core[lane->first].turns, 21); // in its eleventh
    atomic_store(&run->core[lane->first + 9].turns, 7);
    atomic_store(&run->core[lane->first + 1].idle_ticks, 300);
    atomic_store(&run->core[lane->first + 2].idle_ticks, 40);
    uint64_t waited = lane->waiting, looked = lane->looks, done = lane->last_done;
    run_elastic(run, 1005 * MS);
    assert_true(lane->waiting == waited + 3 && lane->looks == looked + 1);
    assert_true(lane->last_done == done && run->taken_ns == 1000 * MS);
    atomic_store(&run->home[lane->first].backlog, 1); // fewer than are executed: they have just been answered
    run_elastic(run, 1009 * MS);
    assert_true(lane->waiting == waited + 3 && lane->looks == looked + 2);
    run_elastic(run, 1010 * MS);
    assert_true(lane->last_done == 13 && lane->last_idle == 340 && run->taken_ns == 1010 * MS);
    assert_true(lane->waiting == 0 && lane->looks == 0);
    assert_int_equal(run->lane[0].last_done, 0);
    assert_int_equal(run->ticked_ns, 1000 * MS);
    run_elastic(run, 1099 * MS);
    assert_int_equal(run->ticked_ns, 1000 * MS);
    run_elastic(run, 1100 * MS);
    assert_int_equal(run->ticked_ns, 1100 * MS);
}

static void z15_where_all_run_nothing_changes(void **state)
{
    (void)state;
    processors = 2;
    open_run(20);
    assert_false(run->elastic);
    run_elastic(run, 1000 * MS);
    assert_true(run->taken_ns == 0 && parked() == 0);
    assert_int_equal(run_lane_most(run, &run->lane[0]), 10); // however few processors there are
    bt_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d3_lanes_are_as_equal_as_can_be),
        cmocka_unit_test_setup_teardown(z15_each_lane_has_its_share_of_what_may_run, begin, end),
        cmocka_unit_test_setup_teardown(z16_those_that_are_too_many_are_parked_and_come_back, begin, end),
        cmocka_unit_test_setup_teardown(z15_processors_that_are_taken_away_are_seen, begin, end),
        cmocka_unit_test_setup_teardown(z14_what_a_lane_does_is_measured, begin, end),
        cmocka_unit_test(z15_where_all_run_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
