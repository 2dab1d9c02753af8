// SPDX-License-Identifier: Apache-2.0
// See switch_pipeline.h.
#include "switch_pipeline.h"

#include <string.h>

/* a − b as a number with a sign. */
static int32_t apart(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

void sim_pipeline_init(struct sim_pipeline *p, const struct sim_pipeline_config *c, struct sim_pipeline_worker *worker)
{
    memset(worker, 0, c->workers * sizeof *worker);
    *p = (struct sim_pipeline){.c = *c, .worker = worker, .groups = (c->workers + c->group - 1) / c->group};
}

/* What a worker must have more than: n − 1 − i, and never less than nothing. */
static uint32_t spare(const struct sim_pipeline *p, uint32_t round)
{
    return round < p->c.depth ? p->c.depth - 1u - round : 0;
}

/* the first one of the group. */
static uint32_t take(struct sim_pipeline *p, uint32_t group, uint32_t round)
{
    uint32_t from = group * p->c.group, to = from + p->c.group;
    int32_t need = (int32_t)spare(p, round);
    to = to < p->c.workers ? to : p->c.workers;
    for (uint32_t w = from; w < to; w++) {
        if (p->worker[w].credits > need) {
            p->worker[w].credits--;
            p->worker[w].sent++;
            return w;
        }
    }
    return SIM_PIPELINE_WAITS;
}

static uint32_t next_group(const struct sim_pipeline *p, uint32_t group)
{
    return group + 1u < p->groups ? group + 1u : 0;
}

/* One more group was asked in vain: the next one, or all again in the next round. */
static void go_on(const struct sim_pipeline *p, struct sim_pipeline_loop *loop)
{
    loop->group = (uint16_t)next_group(p, loop->group);
    loop->raised = false;
    if (loop->tried + 1u < p->groups) {
        loop->tried++;
        return;
    }
    loop->tried = 0;
    if (spare(p, loop->round) != 0) {
        loop->raised = true;
        loop->round++;
    }
}

uint32_t sim_pipeline_first(struct sim_pipeline *p, uint32_t now, struct sim_pipeline_loop *loop)
{
    *loop = (struct sim_pipeline_loop){.since = now, .round = (uint16_t)p->round, .group = (uint16_t)p->turn};
    p->turn = next_group(p, p->turn);
    uint32_t w = take(p, loop->group, loop->round);
    if (w != SIM_PIPELINE_WAITS) {
        return w;
    }
    go_on(p, loop);
    loop->admitted = p->held < p->c.limit;
    p->held += loop->admitted;
    return SIM_PIPELINE_WAITS;
}

void sim_pipeline_refused(struct sim_pipeline *p)
{
    p->turn = next_group(p, p->turn);
}

uint32_t sim_pipeline_again(struct sim_pipeline *p, uint32_t now, struct sim_pipeline_loop *loop)
{
    if (!loop->admitted) {
        return SIM_PIPELINE_FULL;
    }
    if (loop->raised) { /* W-5: one access to the round a pass */
        p->round = loop->round;
    }
    if (apart(p->c.patience, now - loop->since) < 0) {
        p->held--;
        return SIM_PIPELINE_LATE;
    }
    uint32_t w = take(p, loop->group, loop->round);
    if (w == SIM_PIPELINE_WAITS) {
        go_on(p, loop);
    } else {
        p->held--;
    }
    return w;
}

/* its own word for its backlog. All credits are taken away before any is given, so that what is sent in between
 * is counted. */
static void begin_life(struct sim_pipeline_worker *w, uint32_t now, const struct sim_pipeline_report *r, uint32_t n)
{
    *w = (struct sim_pipeline_worker){.life = r->life,
                                      .served = r->served,
                                      .received = r->received,
                                      .granted = n,
                                      .sent = r->received,
                                      .due = now,
                                      .past = r->received};
}

/* how many more are held to be lost. The bound found once stays until the other one overrules it. */
static int32_t settle(const struct sim_pipeline *p, struct sim_pipeline_worker *w, uint32_t now)
{
    uint32_t least = 0, most = w->sent - w->received, lost = w->lost;
    if (apart(now - p->c.loss, w->due) >= 0) {
        least = apart(w->past, w->received) > 0 ? w->past - w->received : 0;
        w->past = w->sent;
        w->due = now;
    }
    if (apart(least, lost) > 0) {
        w->lost = least;
    } else if (apart(most, lost) < 0) {
        w->lost = most;
    }
    return apart(w->lost, lost);
}

bool sim_pipeline_report(struct sim_pipeline *p, uint32_t now, uint32_t at, const struct sim_pipeline_report *r,
                         int32_t *delta)
{
    struct sim_pipeline_worker *w = &p->worker[at];
    uint32_t n = r->leave ? 0 : r->n;
    if (w->life == 0 || apart(r->life, w->life) > 0) {
        begin_life(w, now, r, n);
        *delta = apart(n, r->received - r->served);
        return true;
    }
    if (r->life != w->life) {
        return false;
    }
    int32_t progress = apart(r->served, w->served);
    if (apart(r->received, w->received) > 0) {
        w->received = r->received;
    }
    if (progress < 0) {
        return false;
    }
    *delta = progress + apart(n, w->granted);
    w->served = r->served;
    w->granted = n;
    if (apart(w->received, w->sent) > 0) { /* what a restart forgot, or the network copied: it will be served */
        *delta -= apart(w->received, w->sent);
        w->sent = w->received;
    }
    *delta += settle(p, w, now);
    return true;
}

void sim_pipeline_credit(struct sim_pipeline *p, uint32_t w, uint32_t life, int32_t delta)
{
    if (life == p->worker[w].life) {
        p->worker[w].credits += delta;
    }
    p->round = 0; /* */
}
