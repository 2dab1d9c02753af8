// SPDX-License-Identifier: Apache-2.0
// The helper of a server whose other threads are played by hand (Z-02, D-3): what it does for one that stays in its
// handler, and how n follows what requests take. Each test waits for what it is to see; its own time limit ends it.
#include "mute_bed.h"
#include "unit.h"

#include <sched.h>
#include <string.h>

static struct bt_run *run;

static void open_bed(enum bt_sched_mode mode)
{
    char why[256];
    run = mute_open(mode, &mute_io, why, sizeof why);
    assert_non_null(run);
    mute_slow_times = 0;
    run->ns_per_tick = 1;
}

static void start(void)
{
    char why[256] = "";
    if (!run_helper_start(run, why, sizeof why)) {
        fail_msg("%s", why);
    }
}

static void close_bed(void)
{
    atomic_store(&run->stop, true);
    run_helper_stop(run);
    assert_false(run->helping);
    bt_run_close(run);
}

// A thread that enters a handler and stays there: its network is served, and it is named, once.
static void z02_a_handler_that_takes_long_is_named_once_and_its_port_is_served(void **state)
{
    (void)state;
    open_bed(BT_SCHED_RUN_TO_COMPLETION);
    atomic_store(&run->core[1].turns, 7);
    start();
    while (mute_slow_times == 0 || atomic_load(&run->assisted) < 20) {
        assert_false(atomic_load(&run->helper_rests)); // not while somebody is in a handler
        sched_yield();
    }
    assert_int_equal(mute_slow_thread, 1);
    assert_int_equal(mute_slow_times, 1);
    assert_int_equal(atomic_load(&run->core[1].slow), 1);
    atomic_store(&run->core[0].turns, 3); // another one
    while (mute_slow_times == 1) {
        sched_yield();
    }
    assert_int_equal(mute_slow_thread, 0);
    atomic_store(&run->core[0].turns, 4);
    atomic_store(&run->core[1].turns, 9); // and the first one in its next handler
    while (mute_slow_times == 2) {
        sched_yield();
    }
    assert_int_equal(mute_slow_thread, 1);
    assert_true(atomic_load(&run->core[0].slow) == 1 && atomic_load(&run->core[1].slow) == 2);
    close_bed();
}

static void where_nothing_runs_it_rests(void **state)
{
    (void)state;
    open_bed(BT_SCHED_RUN_TO_COMPLETION);
    start();
    while (!atomic_load(&run->helper_rests)) {
        sched_yield();
    }
    assert_int_equal(atomic_load(&run->assisted), 0);
    close_bed();
}

// Of port 0, whose token the helper may have.
static uint16_t granted(void)
{
    struct bt_sched *s = run->lane[0].sched;
    while (!bt_sched_take(s, 0)) {
        sched_yield();
    }
    uint16_t n = run->home[0].granted;
    while (bt_sched_release(s, 0)) {
    }
    return n;
}

// D-3: with what requests take, n changes; by a little less it stays where it is.
static void d3_n_follows_what_requests_take(void **state)
{
    static const struct {
        uint64_t handled, busy_ns; // since the row before
        uint16_t n;
    } rows[] = {{10, 100000, 20},  // 10 us each: 2 threads, each with 50 us besides
                {10, 1000000, 11}, // 100 us
                {1, 1, 64}};       // 1 ns: as many as a router gives
    (void)state;
    open_bed(BT_SCHED_WORK_STEALING);
    assert_int_equal(bt_run_depth(2, 50000, 10000), rows[0].n);
    assert_int_equal(bt_run_depth(2, 50000, 100000), rows[1].n);
    assert_int_equal(granted(), 3);
    uint64_t turns = 0, busy = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        turns += 2 * rows[i].handled;
        busy += rows[i].busy_ns;
        atomic_store(&run->core[1].busy_ticks, busy); // by whichever thread
        atomic_store(&run->core[0].turns, turns);
        run->lane[0].resize = true; // it tries again when this test has the token
        start();
        while (granted() != rows[i].n) {
            sched_yield();
        }
        atomic_store(&run->stop, true); // between two rows it does not look
        run_helper_stop(run);
        atomic_store(&run->stop, false);
        run->resize_ns = 0;
    }
    close_bed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z02_a_handler_that_takes_long_is_named_once_and_its_port_is_served),
        cmocka_unit_test(where_nothing_runs_it_rests),
        cmocka_unit_test(d3_n_follows_what_requests_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
