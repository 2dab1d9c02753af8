// SPDX-License-Identifier: Apache-2.0
// A shard behind the compiled policy (laedge.c): it says what to start and what to cancel, here it happens.
#include <stdlib.h>

#include "fanout_shard.h"
#include "laedge.h"

struct pull {
    struct sim_fanout_shard *s;
    struct sim_laedge h;
    uint64_t began[SIM_LAEDGE_REPLICAS_MAX], ends[SIM_LAEDGE_REPLICAS_MAX];
};

static enum sim_laedge_mode mode_of(enum sim_fanout_policy policy)
{
    switch (policy) {
    case SIM_FANOUT_LAEDGE:
        return SIM_LAEDGE_LOAD_AWARE;
    case SIM_FANOUT_LAEDGE_CC:
        return SIM_LAEDGE_CLEANUP;
    case SIM_FANOUT_LAEDGE_CC_PC:
        return SIM_LAEDGE_PREEMPTIVE;
    case SIM_FANOUT_IDEALIZED:
        return SIM_LAEDGE_IDEALIZED;
    default:
        return SIM_LAEDGE_OFF;
    }
}

static void take_steps(struct pull *e, const struct sim_laedge_steps *steps, uint64_t now)
{
    for (uint32_t i = 0; i < steps->n; i++) {
        uint32_t at = steps->step[i].replica;
        if (steps->step[i].cancel) {
            sim_fanout_was_busy(e->s, e->began[at], now);
            e->ends[at] = SIM_FANOUT_NEVER;
            continue;
        }
        e->began[at] = now;
        e->ends[at] = now + sim_fanout_execution(e->s, (uint32_t)steps->step[i].request);
        sim_laedge_foresee(&e->h, at, e->ends[at]);
    }
}

static void count(struct sim_fanout_chosen *c, bool right)
{
    c->n++;
    c->right += right;
}

static bool has_hiccup(const struct pull *e, uint32_t at, uint32_t query)
{
    return e->ends[at] - e->began[at] > e->s->query[query].p;
}

/* A twin made room for a newcomer: was it the one that would have ended later? Of equals either is right. */
static void judge_choice(struct pull *e, const struct sim_laedge_steps *steps)
{
    if (steps->n == 0 || !steps->step[0].cancel) {
        return;
    }
    uint32_t query = (uint32_t)steps->step[0].request, gone = steps->step[0].replica, stays = 0;
    while (stays == gone || e->ends[stays] == SIM_FANOUT_NEVER || e->h.replica[stays].request != query) {
        stays++;
    }
    bool right = e->ends[stays] <= e->ends[gone];
    count(&e->s->chosen[SIM_FANOUT_ANY_TWIN], right);
    if (has_hiccup(e, stays, query) || has_hiccup(e, gone, query)) {
        count(&e->s->chosen[e->began[stays] == e->began[gone] ? SIM_FANOUT_HICCUP_TOGETHER : SIM_FANOUT_HICCUP_LATER],
              right);
    }
}

/* The replica that ends first. */
static uint32_t first_end(const struct pull *e)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < e->h.replicas; i++) {
        best = e->ends[i] < e->ends[best] ? i : best;
    }
    return best;
}

/* Replies until `until`, in order. */
static void advance(struct pull *e, uint64_t until)
{
    struct sim_laedge_steps steps;
    for (;;) {
        uint32_t at = first_end(e);
        uint64_t now = e->ends[at];
        if (now > until || now == SIM_FANOUT_NEVER) {
            return;
        }
        uint64_t request = e->h.replica[at].request;
        e->ends[at] = SIM_FANOUT_NEVER;
        sim_fanout_was_busy(e->s, e->began[at], now);
        if (sim_laedge_respond(&e->h, at, request, now, &steps) == SIM_LAEDGE_FIRST) {
            sim_fanout_answered(e->s, (uint32_t)request, now);
        }
        take_steps(e, &steps, now);
    }
}

void sim_fanout_pull(struct sim_fanout_shard *s, enum sim_fanout_policy policy)
{
    struct pull e = {.s = s};
    struct sim_laedge_steps steps;
    sim_laedge_init(&e.h, mode_of(policy), s->m->replicas, s->queue, s->capacity, bt_rng_next(&s->choice));
    for (uint32_t i = 0; i < s->m->replicas; i++) {
        e.ends[i] = SIM_FANOUT_NEVER;
    }
    for (uint32_t i = 0; i < s->m->requests; i++) {
        advance(&e, s->at[i]);
        if (!sim_laedge_arrive(&e.h, i, s->at[i], &steps)) {
            abort(); /* the queue holds all requests there are */
        }
        judge_choice(&e, &steps);
        take_steps(&e, &steps, s->at[i]);
    }
    advance(&e, SIM_FANOUT_NEVER);
}
