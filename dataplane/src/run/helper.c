// SPDX-License-Identifier: Apache-2.0
// The helper: one thread that looks at the others from time to time. A home whose core has been in one handler for a
// while gets a turn of its network, so that its timers and FEEDBACK are served while all cores are in handlers. A
// handler that takes long is named. And n follows the threads and the time a request takes (D-3).
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "run/run_internal.h"

#define RESIZE_NS     UINT64_C(100000000)
#define REST_AFTER_NS UINT64_C(100000000) // in which nothing ran

enum { DEPTH_MAX = 64, DEPTH_SPARE = 8 };

uint16_t bt_run_depth(uint32_t k, uint64_t loop_ns, double service_ns)
{
    double n = k * (1.0 + (double)loop_ns / (service_ns > 1.0 ? service_ns : 1.0)) + DEPTH_SPARE;
    return n < DEPTH_MAX ? (uint16_t)ceil(n) : (uint16_t)DEPTH_MAX;
}

void run_rouse(struct run_lane *lane, struct bt_run *run, uint32_t home)
{
    uint32_t n = run->setup.mode == BT_SCHED_WORK_STEALING ? lane->cores : 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t core = (home + i) % lane->cores;
        if (bt_sched_rouse(lane->sched, core)) {
            run_core_wake(&run->core[lane->first + core]);
            return;
        }
    }
}

static void assist(struct run_core *core)
{
    struct run_home *home = core->home;
    if ((home->io == NULL && home->tcp == NULL) || !bt_sched_take(core->lane->sched, core->self)) {
        return;
    }
    run_home_turn(home, NULL, true);
    run_count(&core->run->assisted, 1);
    run_rouse(core->lane, core->run, core->self);
}

/* True: it did something since the last look. */
static bool look(struct run_core *core, uint64_t now)
{
    uint64_t turns = atomic_load(&core->turns);
    if (turns != core->looked) {
        core->looked = turns;
        core->since_ns = now;
        return true;
    }
    if (turns % 2 == 0) {
        return false;
    }
    core->run->stayed_ns = now;
    if (now - core->since_ns >= RUN_SLOW_NS) {
        run_core_slow(core, turns);
    }
    assist(core);
    return true;
}

/* A lane's n, from the threads it has and the time that requests took lately. */
static void resize_lane(struct run_lane *lane, struct bt_run *run, double service_ns)
{
    struct run_home *home = &run->home[lane->first];
    uint16_t least = (uint16_t)atomic_load_explicit(&run->depth, memory_order_relaxed);
    uint32_t active = atomic_load_explicit(&lane->active, memory_order_relaxed);
    uint16_t n = bt_run_depth(active, run->setup.loop_ns, service_ns);
    n = n > least ? n : least;
    if (!bt_sched_take(lane->sched, 0)) {
        return; // the next time
    }
    lane->resize = false;
    if (n != home->granted && (n > home->granted || home->granted - n > home->granted / 8)) {
        home->granted = n;
        bt_server_set_n(home->server, bt_io_now(home->io), n, &home->txq);
    }
    run_home_turn(home, NULL, false);
    run_rouse(lane, run, 0);
}

static void resize(struct bt_run *run, uint64_t now)
{
    uint64_t handled = 0, busy = 0;
    if (run->setup.mode != BT_SCHED_WORK_STEALING || run->setup.tcp != NULL || now < run->resize_ns) {
        return;
    }
    run->resize_ns = now + RESIZE_NS;
    for (uint32_t i = 0; i < run->setup.threads; i++) {
        handled += run_relaxed(&run->core[i].turns) / 2;
        busy += run_relaxed(&run->core[i].busy_ticks);
    }
    if (handled != run->last_handled) {
        run->service_ns = (double)(busy - run->last_busy) * run->ns_per_tick / (double)(handled - run->last_handled);
    }
    for (uint32_t i = 0; i < run->lanes; i++) {
        struct run_lane *lane = &run->lane[i];
        if (run->service_ns > 0 && (lane->resize || handled != run->last_handled)) {
            resize_lane(lane, run, run->service_ns);
        }
    }
    run->last_handled = handled;
    run->last_busy = busy;
}

static void rest(struct bt_run *run, uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t at = (uint64_t)until.tv_sec * 1000000000u + (uint64_t)until.tv_nsec + ns;
    until = (struct timespec){.tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u)};
    atomic_store_explicit(&run->helper_rests, ns == RUN_REST_NS, memory_order_relaxed);
    (void)sem_clockwait(&run->helper_wake, CLOCK_MONOTONIC, &until);
    atomic_store_explicit(&run->helper_rests, false, memory_order_relaxed);
}

/* Each look takes the processor from somebody. Handlers that are short need no helper: it looks seldom then, and often
 * again once it finds a thread where it was. */
static uint64_t until_next_look(const struct bt_run *run, uint64_t idle_ns, uint64_t now)
{
    if (idle_ns >= REST_AFTER_NS) {
        return RUN_REST_NS;
    }
    bool often = run->elastic || now - run->stayed_ns < RUN_CALM_AFTER_NS; // its controller counts at each look
    return often ? RUN_LOOK_NS : RUN_CALM_NS;
}

static void *help(void *arg)
{
    struct bt_run *run = arg;
    uint64_t ran_ns = run_clock_ns();
    while (!atomic_load(&run->stop)) {
        bool any = false;
        uint64_t now = run_clock_ns();
        if (atomic_load(&run->hold) == 0) {
            for (uint32_t i = 0; i < run->setup.threads; i++) {
                any |= look(&run->core[i], now);
            }
            run_elastic(run, now);
            resize(run, now);
        }
        ran_ns = any ? now : ran_ns;
        rest(run, until_next_look(run, now - ran_ns, now));
    }
    return NULL;
}

bool run_helper_start(struct bt_run *run, char *err, size_t errlen)
{
    int failed = pthread_create(&run->helper, NULL, help, run);
    if (failed != 0) {
        snprintf(err, errlen, "the helper thread cannot be started: %s", strerror(failed));
    }
    run->helping = failed == 0;
    return run->helping;
}

void run_helper_stop(struct bt_run *run)
{
    if (run->helping) {
        sem_post(&run->helper_wake);
        pthread_join(run->helper, NULL);
        run->helping = false;
    }
}
