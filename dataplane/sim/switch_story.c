// SPDX-License-Identifier: Apache-2.0
// See switch_story.h.
#include "switch_story.h"

#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "stream.h"
#include "switch_admission.h"
#include "switch_pipeline.h"

enum {
    WORKERS_MAX = 48,
    FLIGHT_MAX = 4096,
    EPISODE_EVENTS = 4000,
    JOIN = 1,
    LEAVE = 2,
    PAIR = 4,
    DROPPED = 8,
    GROUP = 16
};

#define CLIENT_IP 0x0a000101u /* as hack/p4/bed has it */

/* What a worker is. */
struct truth {
    uint32_t life, received, served, backlog, n;
    uint64_t queue[FLIGHT_MAX]; /* its backlog, oldest at `head` */
    uint32_t head;
    uint32_t open; /* of its requests, those that its FEEDBACK has not told the switch to be finished */
    bool leaving;
};

struct packet {
    uint32_t worker, flags;
    uint64_t id;                       /* of the request that it is or is about */
    struct sim_pipeline_report report; /* of a FEEDBACK */
};

struct flight {
    struct packet p[FLIGHT_MAX];
    uint32_t n;
};

/* What goes round: a request, or a change of credits. */
struct going {
    uint64_t id;
    struct sim_pipeline_loop loop;
    uint32_t worker, life;
    int32_t delta;
};

/* What may go wrong in an episode. */
struct faults {
    double lose, copy, restart, change, forged, switch_restart;
};

struct story {
    struct bt_rng rng;
    FILE *out;
    struct sim_pipeline_config config;
    struct sim_pipeline pipeline;
    struct sim_pipeline_worker known[WORKERS_MAX];
    struct truth truth[WORKERS_MAX];
    struct flight requests, reports;
    struct going loop[FLIGHT_MAX];
    uint32_t head, going, life;
    struct faults faults;
    uint32_t now;
    uint64_t id, events;
    bool sheds; /* it has SVEN */
    struct sim_shed shed;
    bool calm;   /* few requests, all of them late, and no younger ones that hide it */
    bool honest; /* nothing goes wrong, so that what is open is known exactly */
};

static uint32_t below(struct story *s, uint32_t n)
{
    return sim_below(&s->rng, n);
}

static void put(struct flight *f, const struct packet *p)
{
    if (f->n < FLIGHT_MAX) {
        f->p[f->n++] = *p;
    }
}

/* Takes one of those in flight, any: they overtake each other. */
static struct packet land(struct story *s, struct flight *f)
{
    uint32_t i = below(s, f->n);
    struct packet p = f->p[i];
    f->p[i] = f->p[--f->n];
    return p;
}

/* A packet leaves: it may get lost, or arrive twice. */
static void launch(struct story *s, struct flight *f, const struct packet *p)
{
    if (sim_chance(&s->rng, s->faults.lose)) {
        return;
    }
    put(f, p);
    if (sim_chance(&s->rng, s->faults.copy)) {
        put(f, p);
    }
}

static void round_again(struct story *s, const struct going *g)
{
    s->loop[(s->head + s->going++) % FLIGHT_MAX] = *g;
}

static void event(struct story *s, const char *kind)
{
    s->events++;
    fprintf(s->out, "%s %u ", kind, s->now);
}

static void pass_time(struct story *s, uint32_t units)
{
    s->now += units;
    if (s->sheds) {
        sim_shed_pass(&s->shed, s->now, units);
    }
}

/* Of another pair that stands in the same place of a switch's table: CRC-16 does not see the difference. */
#define TWIN         (UINT64_C(1) << 40)
#define TWIN_PORT    1u
#define TWIN_REQUEST 0xc1c0u

/* Ids come again, and so do pairs: clients reuse them. */
static struct sim_shed_key key_of(uint64_t id)
{
    uint32_t twin = (id & TWIN) != 0, n = (uint32_t)id;
    return (struct sim_shed_key){CLIENT_IP, (uint16_t)((30000u + n % 1000u) ^ (twin * TWIN_PORT)),
                                 (uint16_t)(n ^ (twin * TWIN_REQUEST))};
}

/* One in so many is of a pair that there was, or of one in its place. */
static uint64_t next_id(struct story *s)
{
    uint32_t dice = below(s, 50);
    if (s->id == 0 || dice > 2) {
        return s->id++;
    }
    uint64_t id = s->id - 1u - below(s, 40) % s->id;
    return dice == 0 ? id : id | TWIN;
}

static void forwarded(struct story *s, uint32_t w, uint64_t id)
{
    struct packet p = {.worker = w, .id = id};
    s->truth[w].open++;
    fprintf(s->out, "F %u %d %u %u\n", w, s->known[w].credits, s->honest ? s->truth[w].open : 0, s->known[w].granted);
    launch(s, &s->requests, &p);
}

static void waits(struct story *s, const struct going *g)
{
    const struct sim_pipeline_loop *l = &g->loop;
    fprintf(s->out, "W %u %u %u %d %d\n", l->round, l->group, l->tried, l->raised, l->admitted);
    round_again(s, g);
}

static void arrive(struct story *s)
{
    struct going g = {.id = next_id(s)};
    bool refused = s->sheds && sim_shed_refuses(&s->shed, s->now);
    event(s, "Q");
    fprintf(s->out, "%llu ", (unsigned long long)g.id);
    if (refused) {
        sim_pipeline_refused(&s->pipeline);
        fputs("R shed\n", s->out);
        return;
    }
    uint32_t w = sim_pipeline_first(&s->pipeline, s->now, &g.loop);
    if (w == SIM_PIPELINE_WAITS) {
        waits(s, &g);
    } else {
        forwarded(s, w, g.id);
    }
    if (s->sheds) {
        struct sim_shed_key key = key_of(g.id);
        sim_shed_remember(&s->shed, s->now, &key);
    }
}

static void go_round(struct story *s)
{
    struct going g = s->loop[s->head];
    s->head = (s->head + 1) % FLIGHT_MAX;
    s->going--;
    event(s, "L");
    fprintf(s->out, "%llu ", (unsigned long long)g.id);
    if (g.delta != 0) {
        sim_pipeline_credit(&s->pipeline, g.worker, g.life, g.delta);
        fprintf(s->out, "C %u %d %d\n", g.worker, g.delta, s->known[g.worker].credits);
        return;
    }
    uint32_t w = sim_pipeline_again(&s->pipeline, s->now, &g.loop);
    if (w == SIM_PIPELINE_WAITS) {
        waits(s, &g);
    } else if (w == SIM_PIPELINE_FULL || w == SIM_PIPELINE_LATE) {
        fprintf(s->out, "R %s\n", w == SIM_PIPELINE_FULL ? "full" : "late");
    } else {
        forwarded(s, w, g.id);
    }
}

/* A worker says what it is; id: of the request that it has finished, where flags say PAIR. */
static void report(struct story *s, uint32_t w, uint32_t flags, uint64_t id)
{
    const struct truth *t = &s->truth[w];
    flags |= t->leaving ? LEAVE : 0;
    struct packet p = {w, flags, id, {t->n, t->life, t->received, t->served, (flags & LEAVE) != 0}};
    launch(s, &s->reports, &p);
}

static void receive(struct story *s)
{
    struct packet p = land(s, &s->requests);
    struct truth *t = &s->truth[p.worker];
    t->received++;
    t->queue[(t->head + t->backlog++) % FLIGHT_MAX] = p.id;
}

static void serve(struct story *s, uint32_t w)
{
    struct truth *t = &s->truth[w];
    if (t->backlog > 0) {
        uint64_t id = t->queue[t->head];
        t->head = (t->head + 1) % FLIGHT_MAX;
        t->backlog--;
        t->served++;
        report(s, w, PAIR | (below(s, 30) == 0 ? DROPPED : 0), id);
    } else if (s->calm) {
        report(s, w, 0, 0);
    }
}

static void tell(struct story *s, uint32_t w)
{
    const struct sim_pipeline_worker *k = &s->known[w];
    fprintf(s->out, "D %u %d %u %u %u %u %u %u %u %u\n", w, k->credits, k->life, k->served, k->received, k->granted,
            k->sent, k->due, k->past, k->lost);
}

static void hear_of(struct story *s, const struct packet *p)
{
    if (s->sheds && (p->flags & PAIR) != 0) {
        struct sim_shed_key key = key_of(p->id);
        sim_shed_recall(&s->shed, s->now, &key, (p->flags & DROPPED) != 0);
    }
}

static void hear(struct story *s)
{
    struct packet p = land(s, &s->reports);
    struct sim_pipeline_report *r = &p.report;
    fprintf(s->out, "P %llu\n", (unsigned long long)p.id);
    struct going g = {.id = s->id++, .worker = p.worker, .life = r->life};
    uint32_t before = s->known[p.worker].served, life = s->known[p.worker].life;
    event(s, "B");
    fprintf(s->out, "%u %u %u %u %u %u ", p.worker, p.flags, r->n, r->life, r->received, r->served);
    if (!sim_pipeline_report(&s->pipeline, s->now, p.worker, r, &g.delta)) {
        fputs("O\n", s->out);
        hear_of(s, &p);
        tell(s, p.worker);
        return;
    }
    if (life == r->life) {
        s->truth[p.worker].open -= r->served - before;
    }
    if (g.delta == 0) {
        fputs("N\n", s->out);
        hear_of(s, &p);
        return;
    }
    fprintf(s->out, "P %d\n", g.delta);
    round_again(s, &g);
    hear_of(s, &p);
}

static void restart(struct story *s, uint32_t w)
{
    s->truth[w] = (struct truth){.life = ++s->life, .n = s->honest ? s->config.depth : 1 + below(s, s->config.depth)};
    report(s, w, JOIN, 0);
}

/* Another n, or LEAVE, or back again. */
static void change(struct story *s, uint32_t w)
{
    s->truth[w].n = 1 + below(s, s->config.depth);
    s->truth[w].leaving = below(s, 3) == 0;
    report(s, w, s->truth[w].leaving ? 0 : JOIN, 0);
}

static void begin_shedding(struct story *s)
{
    if (s->sheds) {
        uint32_t objective = 5 + below(s, 400);
        fprintf(s->out, "A %u\n", objective);
        sim_shed_init(&s->shed, below(s, UINT32_MAX), objective, s->out);
        sim_shed_pass(&s->shed, s->now, 0);
    }
}

static void switch_restarts(struct story *s)
{
    if (s->sheds) {
        sim_shed_tell(&s->shed);
    }
    fputs("Z\n", s->out);
    begin_shedding(s);
    sim_pipeline_init(&s->pipeline, &s->config, s->known);
    s->going = 0;
}

static void go_wrong(struct story *s)
{
    uint32_t w = below(s, s->config.workers);
    if (sim_chance(&s->rng, s->faults.restart)) {
        restart(s, w);
    } else if (sim_chance(&s->rng, s->faults.change)) {
        change(s, w);
    } else if (sim_chance(&s->rng, s->faults.forged)) {
        event(s, "X");
        fprintf(s->out, "%u\n", w);
    } else if (sim_chance(&s->rng, s->faults.switch_restart)) {
        switch_restarts(s);
    }
}

static bool may_arrive(struct story *s)
{
    return s->going < FLIGHT_MAX / 2 && (!s->calm || below(s, 8) == 0);
}

static bool may_land(struct story *s)
{
    return s->requests.n > 0 && (!s->calm || below(s, 16) == 0);
}

/* One thing happens, whichever. */
static void step(struct story *s)
{
    uint32_t dice = below(s, 100);
    pass_time(s, below(s, 4) == 0 ? below(s, 20) : 0);
    if (dice < 22 && may_arrive(s)) {
        arrive(s);
    } else if (dice < 44 && s->going > 0) {
        go_round(s);
    } else if (dice < 60 && may_land(s)) {
        receive(s);
    } else if (dice < 78) {
        serve(s, below(s, s->config.workers));
    } else if (dice < 96 && s->reports.n > 0) {
        hear(s);
    } else if (dice < 98) {
        report(s, below(s, s->config.workers), 0, 0);
    } else {
        tell(s, below(s, s->config.workers));
    }
    go_wrong(s);
}

/* Everything in flight lands, everything is served, and what waits goes to somebody. */
static void drain(struct story *s)
{
    while (s->requests.n > 0 || s->reports.n > 0 || s->going > 0) {
        pass_time(s, 1);
        while (s->requests.n > 0) {
            receive(s);
        }
        for (uint32_t w = 0; w < s->config.workers; w++) {
            while (s->truth[w].backlog > 0) {
                serve(s, w);
            }
        }
        while (s->reports.n > 0) {
            hear(s);
        }
        if (s->going > 0) {
            go_round(s);
        }
    }
}

/* All come to rest: each worker tells of itself a few times, T_loss apart. Returns the credits missing then. */
static uint64_t rest(struct story *s)
{
    uint64_t missing = 0;
    s->faults = (struct faults){.lose = 0};
    s->reports.n = 0; /* what was said before gets lost: a LEAVE with the counters of now would count */
    for (uint32_t w = 0; w < s->config.workers; w++) {
        s->truth[w].leaving = false;
        report(s, w, JOIN, 0);
    }
    for (int i = 0; i < 4; i++) {
        drain(s);
        pass_time(s, s->config.loss + 1);
        for (uint32_t w = 0; w < s->config.workers; w++) {
            report(s, w, 0, 0);
        }
    }
    drain(s);
    for (uint32_t w = 0; w < s->config.workers; w++) {
        tell(s, w);
        fprintf(s->out, "I %u %d %u\n", w, s->known[w].credits, s->truth[w].n);
        missing += s->known[w].credits != (int32_t)s->truth[w].n;
    }
    if (s->sheds) {
        sim_shed_tell(&s->shed);
    }
    return missing;
}

/* Every third episode is honest: nothing goes wrong but the order. */
static void draw(struct story *s, uint64_t episode)
{
    s->honest = episode % 3 == 0;
    s->sheds = episode % 4 != 3;
    s->calm = episode % 5 == 4;
    s->config = (struct sim_pipeline_config){.group = GROUP};
    s->config.workers = 1 + below(s, WORKERS_MAX);
    s->config.depth = 1 + below(s, 4);
    s->config.limit = 1 + below(s, 64);
    s->config.patience = 100 + below(s, 20000);
    s->config.loss = s->honest ? 1u << 28 : 50 + below(s, 1000);
    s->faults = (struct faults){.forged = 0.01};
    s->faults.lose = 0.02 * below(s, 4);
    s->faults.copy = 0.02 * below(s, 4);
    s->faults.restart = 0.002 * below(s, 3);
    s->faults.change = 0.005 * below(s, 3);
    s->faults.switch_restart = 0.0005 * below(s, 3);
    if (s->honest) {
        s->faults = (struct faults){.forged = 0.01};
    }
    s->now = below(s, 2) == 0 ? below(s, 1u << 20) : UINT32_MAX - below(s, 10000); /* time wraps */
}

static uint64_t episode(struct story *s, uint64_t number)
{
    const struct sim_pipeline_config *c = &s->config;
    draw(s, number);
    s->going = s->requests.n = s->reports.n = 0;
    fprintf(s->out, "E %u %u %u %u %u %u\n", c->workers, c->depth, c->group, c->limit, c->patience, c->loss);
    begin_shedding(s);
    sim_pipeline_init(&s->pipeline, c, s->known);
    for (uint32_t w = 0; w < c->workers; w++) {
        restart(s, w);
    }
    for (uint64_t until = s->events + EPISODE_EVENTS; s->events < until;) {
        step(s);
    }
    return rest(s);
}

uint64_t sim_switch_story(uint64_t seed, uint64_t events, FILE *out)
{
    struct story *s = sim_zeroed(sizeof *s);
    uint64_t missing = 0;
    sim_stream_seed(&s->rng, seed, SIM_STREAM_EVENT);
    s->out = out;
    for (uint64_t i = 0; s->events < events; i++) {
        missing += episode(s, i);
    }
    free(s);
    return missing;
}
