// SPDX-License-Identifier: Apache-2.0
// A core that sleeps (Z-24), by hand and without threads: what ends its sleep, and what does not let it begin. A sleep
// that nothing ends makes these tests hang.
#include "starve.h"
#include "descriptors.h"
#include "mute_bed.h"
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run/run_internal.h"

enum { POLL_NS = 50000 };

static struct bt_run *run;

static bool old_kernel; // it does not know epoll_pwait2
static unsigned old_sleeps;

int __real_epoll_pwait2(int fd, struct epoll_event *e, int n, const struct timespec *t, const sigset_t *mask);
int __wrap_epoll_pwait2(int fd, struct epoll_event *e, int n, const struct timespec *t, const sigset_t *mask);

int __wrap_epoll_pwait2(int fd, struct epoll_event *e, int n, const struct timespec *t, const sigset_t *mask)
{
    if (!old_kernel) {
        return __real_epoll_pwait2(fd, e, n, t, mask);
    }
    old_sleeps++;
    errno = ENOSYS;
    return -1;
}

static void open_bed(enum bt_sched_mode mode, const struct bt_io_ops *ops)
{
    char why[256] = "";
    mute_fds[0] = eventfd(0, EFD_NONBLOCK);
    mute_fds[1] = eventfd(0, EFD_NONBLOCK);
    run = mute_open(mode, ops, why, sizeof why);
    assert_non_null(run);
    for (uint32_t core = 0; core < 2; core++) { // nothing is due, and nothing is hinted at
        atomic_store(&run->home[core].due_ns, UINT64_MAX);
        run_core_some(&run->core[core], 8);
        atomic_store(&run->home[core].due_ns, UINT64_MAX);
    }
}

static void close_bed(void)
{
    bt_run_close(run);
    close(mute_fds[0]);
    close(mute_fds[1]);
}

static bool may_sleep(uint32_t core)
{
    struct bt_sched *s = run->core[core].lane->sched;
    return bt_sched_sleep(s, run->core[core].self) && bt_sched_rouse(s, run->core[core].self);
}

static void ring(int fd)
{
    uint64_t one = 1;
    assert_int_equal(write(fd, &one, sizeof one), sizeof one);
}

static void z24_a_network_that_wakes_nobody_is_looked_at_again_soon(void **state)
{
    static const struct bt_io_ops *const kinds[] = {&mute_io, &mute_unwatched};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        open_bed(BT_SCHED_RUN_TO_COMPLETION, kinds[i]);
        assert_int_equal(run->home[0].look_ns, POLL_NS);
        run_sleep(&run->core[0]); // no timer is set for so short a time
        assert_true(run->core[0].armed_ns == UINT64_MAX);
        assert_true(atomic_load(&run->home[0].sleep_ns) == 0);
        assert_true(may_sleep(0)); // it is awake again, and nothing was found
        atomic_store(&run->home[0].due_ns, 1);
        run_sleep(&run->core[0]);
        assert_true(run->core[0].armed_ns == UINT64_MAX);
        close_bed();
    }
}

static void z24_a_packet_ends_the_sleep_of_its_core_which_then_looks(void **state)
{
    struct epoll_event e[4];
    (void)state;
    open_bed(BT_SCHED_RUN_TO_COMPLETION, &mute_watched);
    assert_int_equal(run->home[0].look_ns, 0);
    assert_true(may_sleep(0));
    ring(mute_fds[0]);
    assert_int_equal(epoll_wait(run->core[1].epoll_fd, e, 4, 0), 0); // which has a port of its own
    run_sleep(&run->core[0]);
    assert_false(may_sleep(0)); // before somebody has looked
    assert_true(may_sleep(1));
    run_core_some(&run->core[0], 8);
    assert_true(may_sleep(0));
    close_bed();
}

static void d3_with_stealing_each_core_of_a_lane_watches_its_port(void **state)
{
    struct epoll_event e[4];
    (void)state;
    open_bed(BT_SCHED_WORK_STEALING, &mute_watched);
    ring(mute_fds[0]);
    int woken = 0;
    for (uint32_t core = 0; core < 2; core++) { // one of them, or both
        woken += epoll_wait(run->core[core].epoll_fd, e, 4, 0);
    }
    assert_in_range(woken, 1, 2);
    assert_int_equal(e[0].data.u32, 0); // core 0's port
    close_bed();
}

static void z24_a_word_of_another_core_ends_it(void **state)
{
    (void)state;
    open_bed(BT_SCHED_RUN_TO_COMPLETION, &mute_watched);
    for (int again = 0; again < 3; again++) {
        run_core_wake(&run->core[0]);
        run_sleep(&run->core[0]);
        assert_true(may_sleep(0)); // there is nothing to look at
    }
    close_bed();
}

static void a_time_ends_it(void **state)
{
    (void)state;
    open_bed(BT_SCHED_RUN_TO_COMPLETION, &mute_watched);
    atomic_store(&run->home[0].due_ns, run_clock_ns() + 1000000);
    run_sleep(&run->core[0]);
    assert_true(run_clock_ns() >= atomic_load(&run->home[0].due_ns)); // not before
    assert_true(run->core[0].armed_ns == UINT64_MAX);                 // it went off
    atomic_store(&run->home[0].due_ns, 0);                            // long ago
    run_sleep(&run->core[0]);
    assert_true(run->core[0].armed_ns == UINT64_MAX);
    close_bed();
}

// A system call for each new deadline, and none for one that is later than what is set.
static void a_timer_is_set_for_an_earlier_time_only(void **state)
{
    (void)state;
    open_bed(BT_SCHED_RUN_TO_COMPLETION, &mute_watched);
    const uint64_t hour = UINT64_C(3600000000000), at = run_clock_ns() + hour;
    const struct {
        uint64_t due, armed;
    } rows[] = {{at, at}, {at + 1, at}, {UINT64_MAX, at}, {at - 1, at - 1}, {at, at - 1}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        atomic_store(&run->home[0].due_ns, rows[i].due);
        run_core_wake(&run->core[0]);
        run_sleep(&run->core[0]);
        assert_true(run->core[0].armed_ns == rows[i].armed);
    }
    close_bed();
}

static void who_is_to_stop_or_to_wait_does_not_sleep(void **state)
{
    (void)state;
    open_bed(BT_SCHED_RUN_TO_COMPLETION, &mute_watched);
    atomic_store(&run->hold, 1);
    run_sleep(&run->core[0]);
    atomic_store(&run->hold, 0);
    atomic_store(&run->stop, true);
    run_sleep(&run->core[0]);
    atomic_store(&run->stop, false);
    assert_true(may_sleep(0));
    close_bed();
}

static void what_cannot_be_watched_is_told_and_nothing_stays_open(void **state)
{
    char why[256] = "";
    (void)state;
    int before = descriptors();
    open_bed(BT_SCHED_WORK_STEALING, &mute_watched);
    assert_true(descriptors() > before);
    close_bed();
    assert_int_equal(descriptors(), before);
    mute_fds[0] = -1;
    assert_null(mute_open(BT_SCHED_WORK_STEALING, &mute_watched, why, sizeof why));
    assert_string_equal(why, "a thread cannot watch its ports: Bad file descriptor");
    assert_int_equal(descriptors(), before);
}

/* At each allocation in turn. */
static void memory_that_runs_out_is_told_and_nothing_stays_open(void **state)
{
    (void)state;
    for (int steals = 0; steals < 2; steals++) {
        unsigned n = 0;
        run = NULL;
        for (; run == NULL; n++) {
            char why[256] = "";
            int before = descriptors();
            starve_after(n);
            run = mute_open(steals ? BT_SCHED_WORK_STEALING : BT_SCHED_RUN_TO_COMPLETION, &mute_io, why, sizeof why);
            assert_true(starve_ended() == (run == NULL));
            bool said = strcmp(why, "out of memory for 2 threads") == 0 ||
                        strcmp(why, "a port's server cannot be set up; lower max_pending or max_message") == 0;
            assert_true(run != NULL || said);
            assert_true(run != NULL || descriptors() == before);
        }
        assert_true(n > 8);
        bt_run_close(run);
    }
}

static void a_thread_that_cannot_be_started_is_named(void **state)
{
    static const char *const words[] = {"thread 0 cannot be started: Resource temporarily unavailable",
                                        "thread 1 cannot be started: Resource temporarily unavailable",
                                        "the helper thread cannot be started: Resource temporarily unavailable", ""};
    (void)state;
    for (unsigned n = 0; n < 4; n++) {
        char why[256] = "";
        open_bed(BT_SCHED_RUN_TO_COMPLETION, &mute_io);
        starve_threads_after(n);
        bool started = bt_run_start(run, why, sizeof why);
        assert_true(starve_ended() == !started && started == (n == 3));
        assert_string_equal(why, words[n]);
        close_bed(); // those that were started end
    }
}

/* Before Linux 5.11 there is no sleep of less than a millisecond. */
static void a_kernel_that_cannot_sleep_so_shortly_sleeps_a_little_longer(void **state)
{
    (void)state;
    open_bed(BT_SCHED_RUN_TO_COMPLETION, &mute_io);
    old_kernel = true;
    run_core_wake(&run->core[0]);
    run_sleep(&run->core[0]); // it is told
    assert_true(may_sleep(0));
    uint64_t before = run_clock_ns();
    run_sleep(&run->core[0]); // nobody tells it
    old_kernel = false;
    assert_true(run_clock_ns() - before >= POLL_NS);
    assert_int_equal(old_sleeps, 2);
    close_bed();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z24_a_network_that_wakes_nobody_is_looked_at_again_soon),
        cmocka_unit_test(z24_a_packet_ends_the_sleep_of_its_core_which_then_looks),
        cmocka_unit_test(d3_with_stealing_each_core_of_a_lane_watches_its_port),
        cmocka_unit_test(z24_a_word_of_another_core_ends_it),
        cmocka_unit_test(a_time_ends_it),
        cmocka_unit_test(a_timer_is_set_for_an_earlier_time_only),
        cmocka_unit_test(who_is_to_stop_or_to_wait_does_not_sleep),
        cmocka_unit_test(what_cannot_be_watched_is_told_and_nothing_stays_open),
        cmocka_unit_test(memory_that_runs_out_is_told_and_nothing_stays_open),
        cmocka_unit_test(a_thread_that_cannot_be_started_is_named),
        cmocka_unit_test(a_kernel_that_cannot_sleep_so_shortly_sleeps_a_little_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
