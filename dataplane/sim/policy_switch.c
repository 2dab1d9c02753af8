// SPDX-License-Identifier: Apache-2.0
// JBSQ as a switch pipeline does it, in software (R-129…R-133): a request is compared with one group of servers a
// pass, accepts a server with at most i outstanding, and goes round again when there is none. What goes round is the
// queue: it has no order, and a comparison over several groups is not atomic. Rounds run from 0 to n − 1
// any FEEDBACK lets the next request begin at round 0 again.
#include <stdlib.h>

#include "buffers.h"
#include "policy_model.h"
#include "policy_notices.h"

enum { WORDS = SIM_POLICY_WORKERS_MAX / 64 };

/* One recirculating request: the meta header it carries. */
struct loop {
    uint64_t at; /* its next pass */
    uint32_t job;
    uint16_t group, tried;
    uint8_t round;
};

struct engine {
    const struct sim_policy_model *m;
    const struct sim_job *job;
    uint64_t *sojourn;
    struct sim_policy_counts *counts;
    struct sim_notices notices;
    uint64_t *free_at;
    uint8_t *outstanding;
    uint64_t (*room)[WORDS]; /* room[i]: servers with at most i outstanding */
    uint32_t groups, last_round, next_group;
    bool lost;         /* the patience has ended */
    struct loop *ring; /* in order of `at`: every pass takes equally long */
    size_t head, n, cap;
    uint64_t port_free; /* the recirculation port takes the next packet */
};

static void start(struct engine *e)
{
    const struct sim_policy_model *m = e->m;
    sim_notices_init(&e->notices, m->workers);
    e->free_at = sim_zeroed(m->workers * sizeof *e->free_at);
    e->outstanding = sim_zeroed(m->workers);
    e->room = sim_zeroed(m->depth * sizeof *e->room);
    for (uint32_t i = 0; i < m->depth; i++) {
        for (uint32_t w = 0; w < m->workers; w++) {
            e->room[i][w >> 6] |= UINT64_C(1) << (w & 63u);
        }
    }
    e->groups = (m->workers + m->pipeline.group - 1) / m->pipeline.group;
    e->cap = 64;
    e->ring = sim_zeroed(e->cap * sizeof *e->ring);
}

static void stop(struct engine *e)
{
    sim_notices_free(&e->notices);
    free(e->free_at);
    free(e->outstanding);
    free(e->room);
    free(e->ring);
}

/* First server of the group with at most `round` outstanding; UINT32_MAX: none. */
static uint32_t compare(const struct engine *e, uint32_t group, uint32_t round)
{
    uint32_t from = group * e->m->pipeline.group, to = from + e->m->pipeline.group;
    to = to < e->m->workers ? to : e->m->workers;
    for (uint32_t word = from >> 6; word <= (to - 1) >> 6; word++) {
        uint64_t bits = e->room[round][word];
        if (word == from >> 6) {
            bits &= ~UINT64_C(0) << (from & 63u);
        }
        if (word == (to - 1) >> 6) {
            bits &= ~UINT64_C(0) >> (63u - ((to - 1) & 63u));
        }
        if (bits != 0) {
            return word << 6 | (uint32_t)__builtin_ctzll(bits);
        }
    }
    return UINT32_MAX;
}

static void dispatch(struct engine *e, size_t i, uint32_t w, uint64_t now)
{
    const struct sim_policy_path *path = &e->m->path;
    uint64_t ready = now + path->dispatch_ns + path->confirm_ns;
    uint64_t begin = ready > e->free_at[w] ? ready : e->free_at[w];
    e->free_at[w] = begin + e->job[i].service_ns + e->m->overhead_ns;
    e->sojourn[i] = e->free_at[w] + path->reply_ns - e->job[i].arrival_ns;
    e->lost |= sim_policy_impatient(e->m, e->counts, i, e->sojourn[i]);
    sim_notices_push(&e->notices, w, e->free_at[w] + path->feedback_ns);
    e->room[e->outstanding[w]][w >> 6] &= ~(UINT64_C(1) << (w & 63u));
    if (++e->outstanding[w] > e->counts->most_outstanding) {
        e->counts->most_outstanding = e->outstanding[w];
    }
}

/* a FEEDBACK decrements. */
static void heard(struct engine *e)
{
    uint32_t w = sim_notices_pop(&e->notices);
    e->outstanding[w]--;
    e->room[e->outstanding[w]][w >> 6] |= UINT64_C(1) << (w & 63u);
    e->last_round = 0;
}

static void recirculate(struct engine *e, struct loop p)
{
    if (e->n == e->cap) {
        struct loop *bigger = sim_zeroed(e->cap * 2 * sizeof *bigger);
        for (size_t i = 0; i < e->n; i++) {
            bigger[i] = e->ring[(e->head + i) & (e->cap - 1)];
        }
        free(e->ring);
        e->ring = bigger;
        e->head = 0;
        e->cap *= 2;
    }
    p.at += e->m->pipeline.pass_ns;
    p.at = p.at > e->port_free ? p.at : e->port_free;
    e->port_free = p.at + e->m->pipeline.gap_ns;
    e->ring[(e->head + e->n++) & (e->cap - 1)] = p;
    if (e->n > e->counts->most_held) {
        e->counts->most_held = e->n;
    }
}

/* One pass through the pipeline. True when the request has left it. */
static bool pass(struct engine *e, struct loop *p)
{
    uint32_t w = compare(e, p->group, p->round);
    if (w != UINT32_MAX) {
        e->last_round = p->round;
        dispatch(e, p->job, w, p->at);
        return true;
    }
    p->group = (uint16_t)(p->group + 1u < e->groups ? p->group + 1u : 0);
    if (++p->tried == e->groups) {
        p->tried = 0;
        p->round = (uint8_t)(p->round + 1u < e->m->depth ? p->round + 1u : p->round);
    }
    e->counts->passes++;
    return false;
}

/* Everything that happens up to and including now: FEEDBACK before a pass of the same instant. */
static void advance(struct engine *e, uint64_t now)
{
    for (;;) {
        uint64_t notice = sim_notices_next(&e->notices), turn = e->n > 0 ? e->ring[e->head].at : SIM_NOTICE_NEVER;
        if (notice > now && turn > now) {
            return;
        }
        if (notice <= turn) {
            heard(e);
            continue;
        }
        struct loop p = e->ring[e->head];
        e->head = (e->head + 1) & (e->cap - 1);
        e->n--;
        if (!pass(e, &p)) {
            recirculate(e, p);
        }
    }
}

void sim_policy_switch(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                       struct sim_policy_counts *counts)
{
    struct engine e = {.m = m, .job = job, .sojourn = sojourn_ns, .counts = counts};
    size_t i = 0;
    start(&e);
    for (; i < n && !e.lost; i++) {
        uint64_t now = job[i].arrival_ns + m->path.client_router_ns;
        advance(&e, now);
        struct loop p = {now, (uint32_t)i, (uint16_t)e.next_group, 0, (uint8_t)e.last_round};
        e.next_group = e.next_group + 1u < e.groups ? e.next_group + 1u : 0;
        if (pass(&e, &p)) {
            continue;
        }
        if (m->central_limit != 0 && e.n >= m->central_limit) {
            sojourn_ns[i] = SIM_POLICY_DROPPED;
            counts->dropped++;
            continue;
        }
        counts->held++;
        recirculate(&e, p);
    }
    while (e.n > 0 && !e.lost) {
        advance(&e, e.ring[e.head].at);
    }
    for (; e.n > 0; e.n--) {
        sojourn_ns[e.ring[e.head++ & (e.cap - 1)].job] = SIM_POLICY_DROPPED;
    }
    for (; i < n; i++) {
        sojourn_ns[i] = SIM_POLICY_DROPPED;
    }
    stop(&e);
}
