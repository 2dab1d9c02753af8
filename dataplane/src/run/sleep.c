// SPDX-License-Identifier: Apache-2.0
// Threads without work sleep in the kernel, each in an epoll set of its own: its own event, and the sockets of its
// lane. A packet wakes one thread that sleeps (EPOLLEXCLUSIVE), or none when one looks anyway. What is edge-triggered
// is told once; whoever is told leaves a hint, so that nobody sleeps before somebody has looked (bt_sched_waiting).
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "run/run_internal.h"
#include "run/tcp.h"

#define OWN_EVENT UINT32_MAX
#define OWN_TIMER (UINT32_MAX - 1)
// Networks that cannot wake anybody are looked at so often.
#define POLL_NS UINT64_C(50000)

enum { SOCKETS_MAX = 32 };

static bool watch(const struct run_core *core, int fd, uint32_t events, uint32_t tag)
{
    struct epoll_event e = {.events = events, .data = {.u32 = tag}};
    return epoll_ctl(core->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

static bool watch_home(struct run_core *core, struct run_home *home)
{
    int fds[SOCKETS_MAX];
    unsigned n = 0;
    // Of TCP it may be a set, which wakes all who watch it: epoll has no exclusive form for that.
    uint32_t events = EPOLLIN | EPOLLET | (home->tcp != NULL ? 0 : (uint32_t)EPOLLEXCLUSIVE);
    if (home->tcp != NULL) {
        n = run_tcp_watch(home, fds, SOCKETS_MAX);
        home->look_ns = n != 0 ? 0 : POLL_NS;
    } else if (home->io != NULL) {
        n = home->io->ops->watch != NULL ? home->io->ops->watch(home->io, fds, SOCKETS_MAX) : 0;
        home->look_ns = n != 0 ? 0 : POLL_NS;
    }
    for (unsigned i = 0; i < n && i < SOCKETS_MAX; i++) {
        if (!watch(core, fds[i], events, home->core)) {
            return false;
        }
    }
    return true;
}

bool run_sleep_open(struct run_core *core, char *err, size_t errlen)
{
    bool steals = core->run->setup.mode == BT_SCHED_WORK_STEALING;
    core->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    core->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    core->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    core->armed_ns = UINT64_MAX;
    bool ok = core->epoll_fd >= 0 && core->wake_fd >= 0 && core->timer_fd >= 0 &&
              watch(core, core->wake_fd, EPOLLIN | EPOLLET, OWN_EVENT) &&
              watch(core, core->timer_fd, EPOLLIN | EPOLLET, OWN_TIMER);
    for (uint32_t i = 0; ok && i < core->lane->cores; i++) {
        if (i == core->self || steals) {
            ok = watch_home(core, &core->run->home[core->lane->first + i]);
        }
    }
    if (!ok) {
        snprintf(err, errlen, "a thread cannot watch its ports: %s", strerror(errno));
    }
    return ok;
}

void run_sleep_close(struct run_core *core)
{
    if (core->epoll_fd >= 0) {
        close(core->epoll_fd);
    }
    if (core->wake_fd >= 0) {
        close(core->wake_fd);
    }
    if (core->timer_fd >= 0) {
        close(core->timer_fd);
    }
}

void run_core_wake(struct run_core *core)
{
    uint64_t one = 1;
    ssize_t n = write(core->wake_fd, &one, sizeof one); // edge-triggered and never read
    (void)n;
}

/* The timer goes off at `until_ns`, or before: one that is early costs a turn, and one set anew each time a system call
 * and what the machine takes for a new deadline. */
static void arm(struct run_core *core, uint64_t until_ns)
{
    if (until_ns >= core->armed_ns) {
        return;
    }
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)}};
    if (until_ns == 0) {
        at.it_value.tv_nsec = 1; // 0 would mean never
    }
    core->armed_ns = timerfd_settime(core->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0 ? until_ns : UINT64_MAX;
}

/* Until something is told, or `until_ns`: where networks are looked at so often that a timer would be set each time. */
static int nap(const struct run_core *core, struct epoll_event *ev, uint64_t until_ns)
{
    uint64_t now = run_clock_ns(), ns = until_ns > now ? until_ns - now : 0;
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    int n = epoll_pwait2(core->epoll_fd, ev, SOCKETS_MAX, &left, NULL);
    if (n < 0 && errno == ENOSYS) { // before Linux 5.11: whole milliseconds
        n = epoll_wait(core->epoll_fd, ev, SOCKETS_MAX, (int)(ns / 1000000u + 1));
    }
    return n;
}

/* Until something is told, or `until_ns`; 0: not at all. */
static void doze(struct run_core *core, uint64_t until_ns)
{
    struct epoll_event ev[SOCKETS_MAX];
    int n;
    if (core->home->look_ns != 0) {
        n = nap(core, ev, until_ns);
    } else {
        arm(core, until_ns);
        n = epoll_wait(core->epoll_fd, ev, SOCKETS_MAX, -1);
    }
    for (int i = 0; i < n; i++) {
        if (ev[i].data.u32 == OWN_TIMER) {
            core->armed_ns = UINT64_MAX;
        } else if (ev[i].data.u32 != OWN_EVENT) {
            bt_sched_waiting(core->lane->sched, ev[i].data.u32, 1);
        }
    }
}

/* When this core must look at its network again though nobody wakes it. */
static uint64_t until(struct run_home *home)
{
    uint64_t due, look = home->look_ns != 0 ? run_clock_ns() + home->look_ns : UINT64_MAX;
    if (home->io == NULL && home->tcp == NULL) {
        return look;
    }
    do { // who sets an earlier time sees sleep_ns, or this sees the earlier time
        due = atomic_load(&home->due_ns);
        atomic_store(&home->sleep_ns, due);
    } while (atomic_load(&home->due_ns) < due);
    return due < look ? due : look;
}

void run_sleep(struct run_core *core)
{
    struct bt_run *run = core->run;
    struct bt_sched *s = core->lane->sched;
    if (!bt_sched_sleep(s, core->self)) {
        return;
    }
    uint64_t due = until(core->home);
    if (!atomic_load(&run->stop) && atomic_load(&run->hold) == 0 && !run_parked(core)) {
        doze(core, due);
    }
    atomic_store_explicit(&core->home->sleep_ns, 0, memory_order_relaxed);
    (void)bt_sched_rouse(s, core->self); // false: another one did, and its event is up
}
