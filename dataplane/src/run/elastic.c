// SPDX-License-Identifier: Apache-2.0
// Threads that come and go with the load (Z-14 to Z-16): the helper measures each lane, and ten times a second asks the
// controller. A thread that is parked has finished what it had, and sleeps where no packet wakes it. A lane's port is
// the home of its first thread, which always runs: so no flow has to move, and nothing waits for who is parked.
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "run/run_internal.h"

#define TAKE_NS   UINT64_C(10000000)  // an interval of Z-14
#define TICK_NS   UINT64_C(100000000) // Z-15: 10 Hz
#define CPUSET_NS UINT64_C(500000000) // how often it is seen which processors there are
#define MARGIN    0.1
#define HOLD_OFF  5

static uint32_t active(const struct run_lane *lane)
{
    return atomic_load_explicit(&lane->active, memory_order_relaxed);
}

bool run_parked(const struct run_core *core)
{
    return core->self >= active(core->lane);
}

/* Until it is wanted again. Somebody may just have woken it for something: another one has to do that. */
void run_park(struct run_core *core)
{
    struct bt_run *run = core->run;
    run_rouse(core->lane, run, 0);
    while (run_parked(core) && !atomic_load(&run->stop)) {
        (void)sem_wait(&core->unpark);
    }
    core->work_ticks = run_ticks();
}

/* So many of the lane's threads run from now on. */
static void set_active(struct run_lane *lane, struct bt_run *run, uint32_t n)
{
    uint32_t before = active(lane);
    if (n == before) {
        return;
    }
    atomic_store(&lane->active, n);
    for (uint32_t i = before; i < n; i++) {
        sem_post(&run->core[lane->first + i].unpark);
    }
    for (uint32_t i = n; i < before; i++) { // those that sleep have to come out of it to be parked
        run_count(&run->parks, 1);
        if (bt_sched_rouse(lane->sched, i)) {
            run_core_wake(&run->core[lane->first + i]);
        }
    }
    lane->resize = true;
}

bool run_elastic_open(struct bt_run *run)
{
    for (uint32_t l = 0; l < run->lanes; l++) {
        struct run_lane *lane = &run->lane[l];
        uint32_t least = (run->setup.threads_min * lane->cores + run->setup.threads - 1) / run->setup.threads;
        lane->least = least != 0 && run->elastic ? least : lane->cores;
        lane->most = lane->cores;
        atomic_store(&lane->active, lane->cores);
        lane->capacity = calloc(lane->cores, sizeof *lane->capacity);
        if (lane->capacity == NULL) {
            return false;
        }
        for (uint32_t i = 0; i < lane->cores; i++) {
            lane->capacity[i] = lane->least + i;
        }
        bt_elastic_init(&lane->controller,
                        &(struct bt_elastic_setup){.capacity = lane->capacity,
                                                   .rungs = lane->cores - lane->least + 1,
                                                   .delay_bound_ns = (double)run->setup.delay_bound_ns,
                                                   .margin = MARGIN,
                                                   .hold_off = HOLD_OFF},
                        lane->cores - lane->least);
    }
    return true;
}

/* Time that the threads which run spent without work, in ticks so far; one that sleeps now has slept until now. */
static uint64_t idle_ticks(const struct run_lane *lane, const struct bt_run *run, uint64_t now)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < lane->cores; i++) {
        const struct run_core *core = &run->core[lane->first + i];
        uint64_t since = run_relaxed(&core->idle_since);
        sum += run_relaxed(&core->idle_ticks) + (since != 0 && now > since ? now - since : 0);
    }
    return sum;
}

static uint64_t handled(const struct run_lane *lane, const struct bt_run *run)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < lane->cores; i++) {
        sum += run_relaxed(&run->core[lane->first + i].turns) / 2;
    }
    return sum;
}

/* An interval as the core's measures want it: a turn is one request of the lane. */
static void take_interval(struct run_lane *lane, const struct bt_run *run, uint64_t passed_ns)
{
    uint64_t idle = idle_ticks(lane, run, run_ticks()), done = handled(lane, run), n = active(lane);
    double idle_ns = (double)(idle - lane->last_idle) * run->ns_per_tick / (double)n;
    uint64_t rest = idle_ns > 0 ? (uint64_t)idle_ns : 0;
    uint64_t turns = done - lane->last_done, waiting = lane->looks != 0 ? lane->waiting / lane->looks : 0;
    rest = rest < passed_ns ? rest : passed_ns;
    turns += turns == 0 && waiting != 0;
    struct bt_meter interval = {
        .turns = turns, .queued = turns * waiting, .busy_ns = passed_ns - rest, .idle_ns = rest};
    bt_measure_take(&lane->measure, &interval);
    lane->last_idle = idle;
    lane->last_done = done;
    lane->waiting = lane->looks = 0;
}

/* What waits besides what is executed. */
static void look_at_queue(struct run_lane *lane, const struct bt_run *run)
{
    uint64_t there = run_relaxed(&run->home[lane->first].backlog), inside = 0;
    for (uint32_t i = 0; i < lane->cores; i++) {
        inside += run_relaxed(&run->core[lane->first + i].turns) % 2;
    }
    lane->waiting += there > inside ? there - inside : 0;
    lane->looks++;
}

/* Processors may be taken away and given while it runs. */
static void see_processors(struct bt_run *run)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return;
    }
    uint32_t cpus = (uint32_t)CPU_COUNT(&set);
    for (uint32_t l = 0; l < run->lanes; l++) {
        struct run_lane *lane = &run->lane[l];
        uint32_t share = (cpus + run->lanes - 1) / run->lanes;
        lane->most = share < lane->least ? lane->least : share < lane->cores ? share : lane->cores;
        lane->controller.setup.rungs = lane->most - lane->least + 1;
        if (lane->controller.rung >= lane->controller.setup.rungs) {
            lane->controller.rung = lane->controller.setup.rungs - 1;
        }
    }
}

void run_elastic(struct bt_run *run, uint64_t now)
{
    bool take = now - run->taken_ns >= TAKE_NS, tick = now - run->ticked_ns >= TICK_NS;
    if (!run->elastic) {
        return;
    }
    if (now - run->seen_ns >= CPUSET_NS) {
        run->seen_ns = now;
        see_processors(run);
    }
    for (uint32_t l = 0; l < run->lanes; l++) {
        struct run_lane *lane = &run->lane[l];
        look_at_queue(lane, run);
        if (take) {
            take_interval(lane, run, now - run->taken_ns);
        }
        if (tick && lane->measure.any) {
            (void)bt_elastic_tick(&lane->controller, bt_measure_delay_ns(&lane->measure, BT_SPEED_FAST, 1),
                                  lane->measure.idle[BT_SPEED_SLOW]);
        }
        set_active(lane, run, lane->least + lane->controller.rung);
    }
    run->taken_ns = take ? now : run->taken_ns;
    run->ticked_ns = tick ? now : run->ticked_ns;
}
