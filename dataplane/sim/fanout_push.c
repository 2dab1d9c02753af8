// SPDX-License-Identifier: Apache-2.0
// A shard whose replicas have queues of their own: Random, JSQ, two copies at once, a hedged request after a delay. The
// delay is the same for all, so that timers run out in the order of arrival.
#include <stddef.h>

#include "fanout_shard.h"
#include "stream.h"

enum { REPLICAS_MAX = 16 };

#define NOTHING UINT32_MAX

struct replica {
    uint32_t *ring; /* waiting queries */
    uint32_t head, n;
    uint32_t running; /* query, or NOTHING */
    uint64_t began, ends;
};

struct push {
    struct sim_fanout_shard *s;
    enum sim_fanout_policy policy;
    bool skip, stop; /* the twin of what is answered: skipped when its turn comes; stopped while it runs */
    uint64_t delay;  /* SIM_FANOUT_NEVER: no hedged request */
    uint32_t timer;  /* next query whose delay ends */
    uint32_t arrived;
    struct replica replica[REPLICAS_MAX];
};

/* What waits next. */
static void begin_next(struct push *e, struct replica *r, uint64_t now)
{
    r->running = NOTHING;
    r->ends = SIM_FANOUT_NEVER;
    while (r->n > 0 && r->running == NOTHING) {
        uint32_t query = r->ring[r->head];
        r->head = (r->head + 1) & (e->s->capacity - 1);
        r->n--;
        if (!e->skip || !e->s->query[query].answered) {
            r->running = query;
        }
    }
    if (r->running != NOTHING) {
        r->began = now;
        r->ends = now + sim_fanout_execution(e->s, r->running);
    }
}

static void send(struct push *e, uint32_t to, uint32_t query, uint64_t now)
{
    struct replica *r = &e->replica[to];
    r->ring[(r->head + r->n++) & (e->s->capacity - 1)] = query;
    if (r->running == NOTHING) {
        begin_next(e, r, now);
    }
}

static void end(struct push *e, uint32_t at)
{
    struct replica *r = &e->replica[at];
    uint64_t now = r->ends;
    uint32_t query = r->running;
    bool first = !e->s->query[query].answered;
    sim_fanout_was_busy(e->s, r->began, now);
    if (first) {
        sim_fanout_answered(e->s, query, now);
    }
    begin_next(e, r, now);
    for (uint32_t i = 0; first && e->stop && i < e->s->m->replicas; i++) {
        struct replica *twin = &e->replica[i];
        if (twin->running == query) {
            sim_fanout_was_busy(e->s, twin->began, now);
            begin_next(e, twin, now);
        }
    }
}

/* Any replica but one. */
static uint32_t another(struct push *e, uint32_t than)
{
    uint32_t to = sim_below(&e->s->choice, e->s->m->replicas - 1);
    return to + (to >= than);
}

/* The replica with the fewest queries, among equals each as likely. */
static uint32_t shortest(struct push *e)
{
    uint32_t best = 0, least = NOTHING, equals = 0;
    for (uint32_t i = 0; i < e->s->m->replicas; i++) {
        uint32_t pending = e->replica[i].n + (e->replica[i].running != NOTHING);
        equals = pending < least ? 1 : pending == least ? equals + 1 : equals;
        if (pending < least || (pending == least && sim_below(&e->s->choice, equals) == 0)) {
            best = i;
        }
        least = pending < least ? pending : least;
    }
    return best;
}

static void arrive(struct push *e, uint32_t query)
{
    uint64_t now = e->s->at[query];
    uint32_t to = e->policy == SIM_FANOUT_JSQ ? shortest(e) : sim_below(&e->s->choice, e->s->m->replicas);
    e->s->query[query].first = (uint8_t)to;
    e->arrived = query + 1;
    send(e, to, query, now);
    if (e->policy == SIM_FANOUT_NAIVE && e->s->m->replicas > 1) {
        send(e, another(e, to), query, now);
    }
}

static uint64_t next_timer(struct push *e)
{
    if (e->delay == SIM_FANOUT_NEVER) {
        return SIM_FANOUT_NEVER;
    }
    while (e->timer < e->arrived && e->s->query[e->timer].answered) {
        e->timer++;
    }
    return e->timer < e->arrived ? e->s->at[e->timer] + e->delay : SIM_FANOUT_NEVER;
}

/* Everything that happens until `until`, in order; a reply comes before a timer of the same instant. */
static void advance(struct push *e, uint64_t until)
{
    for (;;) {
        uint32_t at = 0;
        for (uint32_t i = 1; i < e->s->m->replicas; i++) {
            at = e->replica[i].ends < e->replica[at].ends ? i : at;
        }
        uint64_t reply = e->replica[at].ends, timer = next_timer(e);
        uint64_t now = reply < timer ? reply : timer;
        if (now > until || now == SIM_FANOUT_NEVER) {
            return;
        }
        if (reply <= timer) {
            end(e, at);
        } else {
            uint32_t query = e->timer++;
            send(e, another(e, e->s->query[query].first), query, timer);
        }
    }
}

void sim_fanout_push(struct sim_fanout_shard *s, enum sim_fanout_policy policy)
{
    bool delayed = policy == SIM_FANOUT_DELAYED && s->m->replicas > 1;
    struct push e = {.s = s,
                     .policy = policy,
                     .skip = delayed && s->m->cleanup != SIM_FANOUT_CLEAN_NONE,
                     .stop = delayed && s->m->cleanup == SIM_FANOUT_CLEAN_ALL,
                     .delay = delayed ? (uint64_t)(s->m->delay * SIM_FANOUT_UNIT_NS) : SIM_FANOUT_NEVER};
    for (uint32_t i = 0; i < s->m->replicas; i++) {
        e.replica[i] =
            (struct replica){.ring = s->rings + (size_t)i * s->capacity, .running = NOTHING, .ends = SIM_FANOUT_NEVER};
    }
    for (uint32_t i = 0; i < s->m->requests; i++) {
        advance(&e, s->at[i]);
        arrive(&e, i);
    }
    advance(&e, SIM_FANOUT_NEVER);
}
