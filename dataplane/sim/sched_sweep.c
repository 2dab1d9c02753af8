// SPDX-License-Identifier: Apache-2.0
// See sched_sweep.h.
#include "sched_sweep.h"

#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "sched_server.h"
#include "stream.h"

enum { REQUESTS = 240, FLOWS_MAX = 24, TICK_NS = 100000, TICKS_MAX = 20000 };

enum stage { SENT, EXECUTING, EXECUTED, REPLIED };

struct fate {
    enum stage stage;
    uint32_t flow, number; /* of its flow */
};

struct flow {
    uint32_t sent, begun;
    uint32_t running; /* requests that are executed now */
    uint32_t core;    /* by this core */
};

struct story {
    struct sim_sched_setup setup;
    struct sim_sched_server *server;
    struct sim_sched_request request[REQUESTS];
    struct fate fate[REQUESTS];
    struct flow flow[FLOWS_MAX];
    uint32_t flows, replied;
    uint64_t gap_ns, service_ns;
    double move_chance;
    struct bt_rng rng;
    struct sim_sched_verdict *verdict;
};

static void begin(struct story *s, const struct fate *f, uint32_t core)
{
    struct flow *flow = &s->flow[f->flow];
    s->verdict->reordered += f->number != flow->begun;
    s->verdict->together += flow->running != 0 && flow->core != core;
    flow->begun = f->number + 1u;
    flow->core = core;
    flow->running++;
}

static void executing(void *arg, const struct sim_sched_request *r, uint32_t core, bool begins, uint64_t now)
{
    struct story *s = arg;
    struct fate *f = &s->fate[r - s->request];
    (void)now;
    if (!begins) {
        f->stage = f->stage == EXECUTING ? EXECUTED : f->stage;
        s->flow[f->flow].running -= !s->setup.flow_each;
        return;
    }
    s->verdict->doubled += f->stage != SENT;
    f->stage = EXECUTING;
    if (!s->setup.flow_each) {
        begin(s, f, core);
    }
}

static void replied(void *arg, const struct sim_sched_request *r, uint64_t now)
{
    struct story *s = arg;
    struct fate *f = &s->fate[r - s->request];
    (void)now;
    s->verdict->doubled += f->stage != EXECUTED;
    f->stage = REPLIED;
    s->replied++;
}

static uint64_t up_to(struct story *s, uint32_t most)
{
    return bt_rng_below(&s->rng, most + 1u);
}

static void draw(struct story *s, uint64_t seed)
{
    static const double lost[] = {0, 0, 0.3, 1};
    sim_stream_seed(&s->rng, seed, SIM_STREAM_DRAW);
    uint32_t cores = 1u + bt_rng_below(&s->rng, 8);
    bool each = bt_rng_below(&s->rng, 4) == 0;
    s->flows = 1u + bt_rng_below(&s->rng, FLOWS_MAX);
    struct sim_sched_setup *setup = &s->setup;
    *setup = (struct sim_sched_setup){
        .sched = {.cores = cores, .flows = each ? REQUESTS : s->flows},
        .flow_each = each,
        .seed = seed,
        .arg = s,
        .executing = executing,
        .replied = replied,
    };
    setup->sched.mode = bt_rng_below(&s->rng, 4) == 0 ? BT_SCHED_RUN_TO_COMPLETION : BT_SCHED_WORK_STEALING;
    setup->sched.groups = 1u + bt_rng_below(&s->rng, 40);
    setup->sched.take_max = (uint32_t)up_to(s, 3);
    setup->sched.keep_stack = bt_rng_below(&s->rng, 4) == 0;
    setup->costs.request_ns = up_to(s, 500);
    setup->costs.network_ns = bt_rng_below(&s->rng, 3) == 0 ? 0 : up_to(s, 2000);
    setup->costs.packet_ns = up_to(s, 300);
    setup->costs.wake_ns = up_to(s, 5000);
    setup->batch = 1u + bt_rng_below(&s->rng, bt_rng_below(&s->rng, 2) == 0 ? 4 : 64);
    setup->hint_lost = lost[bt_rng_below(&s->rng, 4)];
    setup->redirect_ns = up_to(s, 20000);
    s->service_ns = 1u + up_to(s, 10000);
    s->gap_ns = 1u + up_to(s, (uint32_t)(2u * s->service_ns / cores + 100u));
    s->move_chance = bt_rng_below(&s->rng, 4) == 0 ? 0 : 0.1;
}

/* Some of the groups that are at a core now go to another one. */
static void try_to_move(struct story *s, uint64_t now)
{
    uint32_t cores = s->setup.sched.cores, from = bt_rng_below(&s->rng, cores), to = bt_rng_below(&s->rng, cores);
    uint64_t set[BT_SCHED_GROUPS_MAX / 64] = {0};
    for (uint32_t g = 0; g < s->setup.sched.groups; g++) {
        bool goes = bt_sched_home(sim_sched_of(s->server), g) == from && bt_rng_below(&s->rng, 3) != 0;
        set[g / 64u] |= (uint64_t)goes << (g % 64u);
    }
    sim_sched_move(s->server, from, to, set, now);
}

/* Lets time go on to `until`; every tick all cores take a look, as timers make them. */
static uint64_t pass(struct story *s, uint64_t tick, uint64_t until)
{
    for (;;) {
        uint64_t due = sim_sched_due(s->server);
        if (due > until && tick > until) {
            return tick;
        }
        if (tick < due) {
            sim_sched_rouse(s->server, tick);
            tick += TICK_NS;
        } else {
            sim_sched_step(s->server);
        }
    }
}

static void arrivals(struct story *s, uint64_t *now, uint64_t *tick)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        *now += sim_exponential((double)s->gap_ns, &s->rng);
        *tick = pass(s, *tick, *now);
        if (sim_chance(&s->rng, s->move_chance)) {
            try_to_move(s, *now);
        }
        uint32_t f = bt_rng_below(&s->rng, s->flows);
        s->request[i].event.flow = f;
        s->request[i].group = (f * 7u) % s->setup.sched.groups;
        s->request[i].service_ns = sim_exponential((double)s->service_ns, &s->rng);
        s->fate[i] = (struct fate){SENT, f, s->flow[f].sent++};
        sim_sched_arrive(s->server, &s->request[i], *now);
    }
}

static void judge(struct story *s)
{
    struct sim_sched_verdict *v = s->verdict;
    struct sim_sched_seen seen;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        v->lost += s->fate[i].stage != REPLIED;
    }
    for (uint32_t c = 0; c < s->setup.sched.cores; c++) {
        struct bt_sched_counts counts;
        bt_sched_read_counts(sim_sched_of(s->server), c, &counts);
        v->stolen += counts.stolen;
        v->borrowed += counts.borrowed;
    }
    sim_sched_read(s->server, &seen);
    v->astray += (uint32_t)seen.astray;
    v->moves += seen.moves;
    v->unmoved += bt_sched_move_pending(sim_sched_of(s->server));
    v->requests += REQUESTS;
}

void sim_sched_seed(uint64_t seed, struct sim_sched_verdict *out)
{
    struct story *s = sim_zeroed(sizeof *s);
    uint64_t now = 0, tick = TICK_NS;
    *out = (struct sim_sched_verdict){0};
    s->verdict = out;
    draw(s, seed);
    s->server = sim_sched_open(&s->setup);
    for (uint32_t f = 0; f < s->flows && !s->setup.flow_each; f++) {
        bt_sched_open(sim_sched_of(s->server), f, (f * 7u) % s->setup.sched.groups);
    }
    arrivals(s, &now, &tick);
    for (uint32_t i = 0; i < TICKS_MAX && (s->replied < REQUESTS || bt_sched_move_pending(sim_sched_of(s->server)));
         i++) {
        now += TICK_NS;
        tick = pass(s, tick, now);
    }
    judge(s);
    sim_sched_close(s->server);
    free(s);
}

uint32_t sim_sched_broken(const struct sim_sched_verdict *v)
{
    return v->lost + v->doubled + v->reordered + v->together + v->astray + v->unmoved;
}

void sim_sched_add(struct sim_sched_verdict *sum, const struct sim_sched_verdict *v)
{
    sum->lost += v->lost;
    sum->doubled += v->doubled;
    sum->reordered += v->reordered;
    sum->together += v->together;
    sum->astray += v->astray;
    sum->unmoved += v->unmoved;
    sum->requests += v->requests;
    sum->stolen += v->stolen;
    sum->borrowed += v->borrowed;
    sum->moves += v->moves;
}
