// SPDX-License-Identifier: Apache-2.0
// Threads that come and go with the load (Z-14 to Z-16): the helper measures each lane, and ten times a second asks the
// controller. A thread that is parked has finished what it had, and sleeps where no packet wakes it. A lane's port is
// the home of its first thread, which always runs: so no flow has to move, and nothing waits for who is parked.
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "run/run_internal.h"

#define TAKE_NS   UINT64_C(10000000)  // an interval of Z-14
#define TICK_NS   UINT64_C(100000000) // Z-15: 10 Hz
#define CPUSET_NS UINT64_C(500000000) // how often it is seen which processors there are
#define MARGIN    0.1
#define HOLD_OFF  5

static uint32_t bound_of(const _Atomic uint32_t *v)
{
    return atomic_load_explicit(v, memory_order_relaxed);
}

uint32_t run_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(getpid(), sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 0;
}

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

/* A lane's part of so many threads, as equal as can be. */
static uint32_t part(const struct bt_run *run, const struct run_lane *lane, uint32_t of)
{
    uint32_t l = (uint32_t)(lane - run->lane);
    return (of + run->lanes - l - 1) / run->lanes;
}

static uint32_t within(uint32_t v, uint32_t low, uint32_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* Its ladder goes from so many threads to so many. It stands on the rung that is nearest to what runs. */
static void bound(struct run_lane *lane, uint32_t least, uint32_t most)
{
    struct bt_elastic *c = &lane->controller;
    if (least == bound_of(&lane->least) && most == bound_of(&lane->most)) {
        return;
    }
    for (uint32_t i = 0; i <= most - least; i++) {
        lane->capacity[i] = least + i;
    }
    c->setup.rungs = most - least + 1;
    c->rung = within(active(lane), least, most) - least;
    atomic_store_explicit(&lane->least, least, memory_order_relaxed);
    atomic_store_explicit(&lane->most, most, memory_order_relaxed);
}

/* As configured, and no more than there are processors: they may be taken away and given while it runs. */
uint32_t run_lane_most(const struct bt_run *run, const struct run_lane *lane)
{
    uint32_t wanted = (uint32_t)(run_relaxed(&run->wanted) >> 32), processors = run->elastic ? run_processors() : 0;
    uint32_t most = within(part(run, lane, wanted), 1, lane->cores);
    return processors != 0 ? within(most, 1, within(part(run, lane, processors), 1, lane->cores)) : most;
}

static void bound_lanes(struct bt_run *run)
{
    for (uint32_t l = 0; l < run->lanes; l++) {
        uint32_t most = run_lane_most(run, &run->lane[l]);
        bound(&run->lane[l], within(part(run, &run->lane[l], (uint32_t)run_relaxed(&run->wanted)), 1, most), most);
    }
}

void bt_run_set_cores(struct bt_run *run, uint32_t least, uint32_t most)
{
    atomic_store_explicit(&run->wanted, (uint64_t)most << 32 | least, memory_order_relaxed);
}

bool run_elastic_open(struct bt_run *run)
{
    const struct bt_run_setup *setup = &run->setup;
    uint32_t most = setup->adjustable ? run->lanes : setup->threads;
    uint32_t least = setup->threads_min != 0 && !setup->adjustable ? setup->threads_min : most;
    bt_run_set_cores(run, least, most);
    for (uint32_t l = 0; l < run->lanes; l++) {
        struct run_lane *lane = &run->lane[l];
        lane->capacity = calloc(lane->cores, sizeof *lane->capacity);
        if (lane->capacity == NULL) {
            return false;
        }
        atomic_store(&lane->active, part(run, lane, most));
        bt_elastic_init(&lane->controller,
                        &(struct bt_elastic_setup){.capacity = lane->capacity,
                                                   .rungs = 1,
                                                   .delay_bound_ns = (double)setup->delay_bound_ns,
                                                   .margin = MARGIN,
                                                   .hold_off = HOLD_OFF},
                        0);
    }
    bound_lanes(run);
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

void run_elastic(struct bt_run *run, uint64_t now)
{
    bool take = now - run->taken_ns >= TAKE_NS, tick = now - run->ticked_ns >= TICK_NS;
    if (!run->elastic) {
        return;
    }
    uint64_t wanted = run_relaxed(&run->wanted);
    if (wanted != run->bounded || now - run->seen_ns >= CPUSET_NS) {
        run->bounded = wanted;
        run->seen_ns = now;
        bound_lanes(run);
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
        set_active(lane, run, bound_of(&lane->least) + lane->controller.rung);
    }
    run->taken_ns = take ? now : run->taken_ns;
    run->ticked_ns = tick ? now : run->ticked_ns;
}
