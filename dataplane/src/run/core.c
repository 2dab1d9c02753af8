// SPDX-License-Identifier: Apache-2.0
// A core's thread: what the scheduler says it does next, done.
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "run/run_internal.h"

static void set(_Atomic uint64_t *v, uint64_t to)
{
    atomic_store_explicit(v, to, memory_order_relaxed);
}

RUN_RARE void run_core_slow(struct run_core *core, uint64_t turn)
{
    const struct bt_run_setup *setup = &core->run->setup;
    if (atomic_exchange(&core->named, turn) == turn) {
        return;
    }
    atomic_fetch_add_explicit(&core->slow, 1, memory_order_relaxed);
    if (setup->slow != NULL) {
        setup->slow(setup->arg, core->run->name, core->number);
    }
}

/* Runs the handler, with the clock that flow control reads. */
__attribute__((noinline)) static void run_clocked_handler(const struct bt_run *run, struct bobtail_request *job)
{
    uint64_t began = run_clock_ns();
    run->setup.handler(run->setup.arg, job);
    job->began_ns = began;
    job->took_ns = run_clock_ns() - began;
}

/* Runs the handler of a request, unless it was taken back. clock: flow control reads one. */
static inline void execute(struct run_core *core, struct bobtail_request *job, bool clock)
{
    const struct bt_run *run = core->run;
    uint32_t waiting = RUN_WAITING;
    if (!atomic_compare_exchange_strong_explicit(&job->stage, &waiting, RUN_EXECUTING, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        return;
    }
    uint64_t turn = run_relaxed(&core->turns); // nobody else counts them
    set(&core->turns, turn + 1);
    job->core = core;
    if (__builtin_expect(clock, 0)) {
        run_clocked_handler(run, job);
    } else {
        run->setup.handler(run->setup.arg, job);
    }
    set(&core->turns, turn + 2);
}

/* The handler of that request began and ended so; it was the last. */
static inline void note_end(struct run_core *core, uint64_t began, uint64_t ended)
{
    if (__builtin_expect(ended - began > run_relaxed(&core->longest), 0)) {
        set(&core->longest, ended - began);
    }
    if (__builtin_expect(ended - began > core->run->slow_ticks, 0)) {
        run_core_slow(core, run_relaxed(&core->turns) - 1);
    }
}

/* The same, and notes what it took. Returns when it ended. */
static inline uint64_t execute_timed(struct run_core *core, const struct run_home *home, struct bobtail_request *job,
                                     uint64_t began)
{
    bool clock = run_clocked(home);
    execute(core, job, clock);
    uint64_t now = run_ticks();
    if (!clock) {
        job->took_ns = run_ns_of(core->run, now - began);
    }
    return now;
}

/* What the batch has executed is answered. Whoever has the network meanwhile gives it back soon; the next handler may
 * take for ever. */
RUN_RARE static void answer_first(struct run_core *core)
{
    while (!bt_sched_take(core->lane->sched, core->self)) {
        sched_yield();
    }
    run_home_turn(core->home, core, false);
}

/* A batch that lasts: its replies go. Returns when it is that the next handler begins. */
__attribute__((noinline)) static uint64_t lasts(struct run_core *core, uint64_t began, uint64_t now)
{
    struct run_home *home = core->home;
    note_end(core, began, now);
    if (home->executed == home->taken) {
        return now;
    }
    answer_first(core);
    return run_ticks();
}

/* What it took itself, all of it. Replies are not kept for long. times: a constant; who asks for none pays for none. */
static inline __attribute__((always_inline)) void batch(struct run_core *core, bool times)
{
    struct run_home *home = core->home;
    uint64_t began = run_ticks(), first = began, flush_at = began + core->run->flush_ticks;
    while (home->executed != home->taken) {
        struct bobtail_request *job = home->batch[home->executed];
        uint64_t now;
        if (times) {
            now = execute_timed(core, home, job, began);
            home->executed++;
        } else {
            execute(core, job, false);
            home->executed++;
            now = run_ticks();
        }
        if (__builtin_expect(now > flush_at, 0)) {
            run_count(&core->busy_ticks, now - first);
            first = now = lasts(core, began, now);
            flush_at = now + core->run->flush_ticks;
        }
        began = now;
    }
    run_count(&core->busy_ticks, began - first);
}

__attribute__((noinline)) static void run_timed_batch(struct run_core *core)
{
    batch(core, true);
}

static void run_batch(struct run_core *core)
{
    if (run_timed(core->home)) {
        run_timed_batch(core);
    } else {
        batch(core, false);
    }
}

/* The requests of the flow that the core has, and the flow's end. */
static void run_flow(struct run_core *core)
{
    struct run_home *home = core->flow_home;
    while (core->todo != NULL) {
        struct bobtail_request *job = core->todo;
        uint64_t began = run_ticks();
        uint64_t ended = execute_timed(core, home, job, began);
        run_count(&core->busy_ticks, ended - began);
        note_end(core, began, ended);
        core->todo = run_job_of(job->event.next);
    }
    uint32_t flow = core->flow;
    core->flow_home = NULL;
    if (bt_sched_executed(core->lane->sched, core->self, flow)) {
        run_home_turn(home, core, false);
    }
}

static void take_flow(struct run_core *core, const struct bt_sched_work *w)
{
    struct run_home *home = &core->run->home[core->lane->first + w->home];
    core->flow_home = home;
    core->flow = w->flow;
    core->todo = run_job_of(w->events);
    home->left[w->flow - home->first_flow] = core->todo;
    run_flow(core);
}

static void idle(struct run_core *core)
{
    uint64_t now = run_ticks();
    if (run_relaxed(&core->idle_since) == 0) {
        set(&core->idle_since, now);
    }
    if (now - core->work_ticks < core->run->spin_ticks) {
        sched_pause();
    } else {
        run_sleep(core);
    }
}

/* There is something to execute: the helper looks at it from now on. A thread that only slept does not wake it. */
static void end_idle(struct run_core *core)
{
    uint64_t since = run_relaxed(&core->idle_since);
    if (since != 0) {
        run_count(&core->idle_ticks, run_ticks() - since);
        set(&core->idle_since, 0);
        if (atomic_load_explicit(&core->run->helper_rests, memory_order_relaxed)) {
            sem_post(&core->run->helper_wake);
        }
    }
}

static void stand_by(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* The next thing; false: there was none. */
static bool step(struct run_core *core)
{
    struct bt_run *run = core->run;
    struct bt_sched_work w;
    bt_sched_next(core->lane->sched, core->self, &core->rng, &w);
    if (w.wake != BT_SCHED_NONE) {
        run_core_wake(&run->core[core->lane->first + w.wake]);
    }
    if (w.kind == BT_SCHED_NETWORK) {
        run_home_turn(&run->home[core->lane->first + w.home], core, true);
        if (core->home->executed != core->home->taken) {
            end_idle(core);
            run_batch(core);
            core->work_ticks = run_ticks();
        }
        return true;
    }
    if (w.kind == BT_SCHED_HANDLE) {
        end_idle(core);
        if (__builtin_expect(core->home->taken != 0, 0)) {
            answer_first(core);
        }
        take_flow(core, &w);
        core->work_ticks = run_ticks();
        return true;
    }
    return core->home->taken != 0; // replies of its own wait for the next turn
}

void run_core_some(struct run_core *core, unsigned steps)
{
    while (steps-- > 0) {
        (void)step(core);
    }
}

static void loop(struct run_core *core)
{
    struct bt_run *run = core->run;
    while (!atomic_load_explicit(&run->stop, memory_order_relaxed)) {
        if (__builtin_expect(atomic_load_explicit(&run->hold, memory_order_relaxed) != 0, 0)) {
            stand_by();
        } else if (__builtin_expect(run_parked(core), 0)) {
            end_idle(core);
            run_park(core);
        } else if (!step(core)) {
            idle(core);
        }
    }
}

/* What a thread had begun that a handler ended: that request gets no reply, the others are executed by its successor.
 */
static void take_over(struct run_core *core)
{
    bool inside = run_relaxed(&core->turns) % 2 != 0;
    if (inside) {
        set(&core->turns, run_relaxed(&core->turns) + 1);
    }
    if (core->flow_home != NULL) {
        run_flow(core);
    } else if (inside) {
        core->home->executed++;
    }
    if (core->home->executed != core->home->taken) {
        run_batch(core);
    }
}

static void *begin(void *arg);

/* A handler that ends its thread costs its request, not the core. */
static void on_end(void *arg)
{
    struct run_core *core = arg;
    struct bt_run *run = core->run;
    pthread_mutex_lock(&run->threads);
    if (!atomic_load(&run->stop)) {
        pthread_t thread;
        run_count(&core->died, 1);
        if (pthread_create(&thread, NULL, begin, core) == 0) {
            pthread_detach(core->thread);
            core->thread = thread;
        }
    }
    pthread_mutex_unlock(&run->threads);
}

static void *begin(void *arg)
{
    struct run_core *core = arg;
    pthread_cleanup_push(on_end, core);
    take_over(core);
    loop(core);
    pthread_cleanup_pop(0);
    return NULL;
}

void run_core_run(struct run_core *core)
{
    begin(core);
}
