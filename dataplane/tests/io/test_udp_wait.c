// SPDX-License-Identifier: Apache-2.0
// When the UDP driver sleeps, for how long, and what it hears, told by a clock that stands until the test moves it. The
// linker puts these in front of the calls that sleep (--wrap).
#include "udp_bed.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

enum { TIMER = 0x10000, BELL = 0x10001, SECOND_NS = 1000000000 };

static struct {
    bool on;
    uint64_t now;
    struct epoll_event events[4]; // that the next sleep hears of
    int n;                        // -1: a signal
    int timeout;                  // of the last sleep
    unsigned sleeps, arms, yields;
    uint64_t armed; // to when
} kernel;

static struct rig rig;
static struct bt_udp *u;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __real_epoll_wait(int fd, struct epoll_event *ev, int max, int timeout);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old);
int __real_sched_yield(void);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_epoll_wait(int fd, struct epoll_event *ev, int max, int timeout);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old);
int __wrap_sched_yield(void);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (!kernel.on) {
        return __real_clock_gettime(clock, t);
    }
    assert_int_equal(clock, CLOCK_MONOTONIC);
    *t = (struct timespec){.tv_sec = (time_t)(kernel.now / SECOND_NS), .tv_nsec = (long)(kernel.now % SECOND_NS)};
    return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *ev, int max, int timeout)
{
    if (!kernel.on) {
        return __real_epoll_wait(fd, ev, max, timeout);
    }
    assert_int_equal(fd, u->epoll_fd);
    assert_int_equal(max, BT_IO_BATCH);
    kernel.sleeps++;
    kernel.timeout = timeout;
    int n = kernel.n;
    memcpy(ev, kernel.events, sizeof kernel.events);
    kernel.n = 0;
    errno = EINTR;
    return n;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *t, struct itimerspec *old)
{
    if (!kernel.on) {
        return __real_timerfd_settime(fd, flags, t, old);
    }
    assert_true(fd == u->timer_fd && flags == TFD_TIMER_ABSTIME && old == NULL);
    assert_true(t->it_interval.tv_sec == 0 && t->it_interval.tv_nsec == 0); // once
    kernel.arms++;
    kernel.armed = (uint64_t)t->it_value.tv_sec * SECOND_NS + (uint64_t)t->it_value.tv_nsec;
    return 0;
}

int __wrap_sched_yield(void)
{
    kernel.yields++;
    return kernel.on ? 0 : __real_sched_yield();
}

static int open_rig(void **state)
{
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    rig_open(&rig, 64, "127.0.0.1", BT_IDLE_BLOCK);
    u = (struct bt_udp *)rig.a;
    kernel.now = UINT64_C(5) * SECOND_NS + 700000000;
    kernel.on = true;
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    kernel.on = false;
    rig_close(&rig);
    return 0;
}

static void hear(uint32_t tag, uint32_t events)
{
    kernel.events[kernel.n++] = (struct epoll_event){.events = events, .data = {.u32 = tag}};
}

static void wait_until(uint64_t until, int timeout, unsigned arms)
{
    kernel.arms = kernel.sleeps = 0;
    bt_io_wait(rig.a, until);
    assert_int_equal(kernel.sleeps, 1);
    assert_int_equal(kernel.timeout, timeout);
    assert_int_equal(kernel.arms, arms);
}

// Its timer is set to the end of the wait, across seconds, and once for all that end later. A sleep of 2 us is not
// worth while, nor one that is over.
static void a_sleep_ends_in_time(void **state)
{
    uint64_t start = kernel.now, later = start + SECOND_NS - 1;
    (void)state;
    assert_int_equal(bt_io_now(rig.a), start);
    wait_until(BT_IO_FOREVER, -1, 0); // no timer
    wait_until(start + 2000, 0, 0);
    wait_until(start, 0, 0);
    wait_until(start - 1, 0, 0);
    wait_until(0, 0, 0);
    wait_until(later, -1, 1);
    assert_int_equal(kernel.armed, later);
    wait_until(later, -1, 0);
    wait_until(later + 1, -1, 0); // the timer fires before that
    wait_until(BT_IO_FOREVER, -1, 0);
    wait_until(start + 2000, 0, 0);
    wait_until(start + 2001, -1, 1);
    assert_int_equal(kernel.armed, start + 2001);
    hear(BELL, EPOLLIN);
    wait_until(later, -1, 0);
    wait_until(later, -1, 0); // a bell is no timer
    hear(TIMER, EPOLLIN);
    wait_until(later, -1, 0);
    wait_until(later, -1, 1); // it has fired: set anew
    assert_int_equal(kernel.armed, later);
    assert_int_equal(kernel.yields, 0);
    assert_int_equal(udp_counter(rig.a, BT_UDP_WAKEUPS), 15);
}

// Ports are read after they were heard of; a bell and a timer make none of them readable.
static void what_is_heard_of_is_read(void **state)
{
    (void)state;
    assert_false(u->ports[0].readable || u->ports[1].readable);
    hear(BELL, EPOLLIN);
    hear(TIMER, EPOLLIN);
    hear(2, EPOLLIN); // no port of ours
    wait_until(BT_IO_FOREVER, -1, 0);
    assert_false(u->ports[0].readable || u->ports[1].readable);
    hear(1, EPOLLIN);
    wait_until(BT_IO_FOREVER, -1, 0);
    assert_false(u->ports[0].readable);
    assert_true(u->ports[1].readable);
    wait_until(BT_IO_FOREVER, 0, 0); // something is to be read: it only looks
    assert_true(u->ports[1].readable);
    u->ports[1].readable = false;
    hear(0, EPOLLERR);
    wait_until(BT_IO_FOREVER, -1, 0);
    assert_false(u->ports[0].readable); // an error is no packet
    kernel.n = -1;                      // a signal
    wait_until(BT_IO_FOREVER, -1, 0);
    assert_false(u->ports[0].readable || u->ports[1].readable);
}

// Of a quiet port nobody says anything: it is looked at after each wait.
static void a_quiet_port_is_looked_at_after_each_wait(void **state)
{
    (void)state;
    kernel.on = false;
    bt_io_quiet(rig.a, 1, true);
    bt_io_quiet(rig.a, 1, true); // it is already
    bt_io_quiet(rig.a, 2, true); // there is no such port
    kernel.on = true;
    assert_int_equal(u->n_quiet, 1);
    wait_until(BT_IO_FOREVER, -1, 0);
    assert_false(u->ports[0].readable);
    assert_true(u->ports[1].readable);
    u->ports[1].readable = false;
    kernel.on = false;
    bt_io_quiet(rig.a, 1, false);
    bt_io_quiet(rig.a, 0, false); // it never was
    kernel.on = true;
    assert_int_equal(u->n_quiet, 0);
    wait_until(BT_IO_FOREVER, -1, 0);
    assert_false(u->ports[0].readable || u->ports[1].readable);
}

// Who shall not block looks; who gives way does so when there was nothing.
static void who_does_not_block_looks(void **state)
{
    static const struct {
        enum bt_idle idle;
        int n;
        unsigned yields;
    } rows[] = {{BT_IDLE_SPIN, 0, 0},
                {BT_IDLE_SPIN, 1, 0},
                {BT_IDLE_YIELD, 0, 1},
                {BT_IDLE_YIELD, -1, 1},
                {BT_IDLE_YIELD, 1, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        u->idle = rows[i].idle;
        kernel.yields = 0;
        kernel.n = 0;
        hear(BELL, EPOLLIN);
        kernel.n = rows[i].n;
        wait_until(BT_IO_FOREVER, 0, 0);
        assert_int_equal(kernel.yields, rows[i].yields);
    }
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(a_sleep_ends_in_time),
        WITH_RIG(what_is_heard_of_is_read),
        WITH_RIG(a_quiet_port_is_looked_at_after_each_wait),
        WITH_RIG(who_does_not_block_looks),
    };
    return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
