// SPDX-License-Identifier: Apache-2.0
// Building the two halves, and what is done while both stand still (see split.h).
#include "router/split.h"

#include <string.h>

#include "router/config.h"
#include "router/core.h"
#include "router/feature.h"
#include "router/queue.h"
#include "router/split_channel.h"
#include "router/split_feedback.h"
#include "router/split_request.h"
#include "router/stats.h"
#include "router/watchers.h"
#include "router/workers.h"

#define CREDITS_DEFAULT 2048u
#define NOTES_DEFAULT   4096u
#define QUEUE_MAX       65536u

static bool fill_setup(struct bt_router_setup *s)
{
    s->credits = s->credits != 0 ? s->credits : CREDITS_DEFAULT;
    s->notes = s->notes != 0 ? s->notes : NOTES_DEFAULT;
    s->max_members = s->max_members != 0 ? s->max_members : BT_ROUTER_MEMBERS_MAX;
    return s->credits <= QUEUE_MAX && s->notes <= QUEUE_MAX && (s->credits & (s->credits - 1u)) == 0 &&
           (s->notes & (s->notes - 1u)) == 0;
}

/* The REQ0 half watches no pairs, and each half keeps the histogram of what it sees the end of. */
static struct bt_router_setup request_setup(const struct bt_router_setup *s)
{
    struct bt_router_setup setup = *s;
    setup.max_pairs = 1;
    setup.max_hedges = 1;
    setup.no_latency = true;
    return setup;
}

static struct bt_router_setup feedback_setup(const struct bt_router_setup *s)
{
    struct bt_router_setup setup = *s;
    setup.pool = s->feedback_pool != NULL ? s->feedback_pool : s->pool;
    setup.max_hedges = 1;
    setup.no_hold = true;
    return setup;
}

struct parts {
    struct router_split *split;
    void *request, *feedback;
    size_t request_bytes, feedback_bytes;
};

/* Takes everything from mem, or only measures when mem has no memory. False: the setup is out of bounds. */
static bool lay_out(struct parts *p, struct bt_mem *mem, const struct bt_router_setup *s)
{
    struct bt_router_setup q = request_setup(s), f = feedback_setup(s);
    p->request_bytes = router_core_bytes(&q);
    p->feedback_bytes = router_core_bytes(&f);
    p->split = bt_mem_take(mem, sizeof *p->split);
    struct split_channel *c = bt_mem_take(mem, sizeof *c);
    uint16_t *credit_of = bt_mem_take(mem, s->credits * sizeof *credit_of);
    _Atomic uint64_t *word = bt_mem_take(mem, s->max_members * sizeof *word);
    struct split_note *note = bt_mem_take(mem, s->notes * sizeof *note);
    p->request = bt_mem_take(mem, p->request_bytes);
    p->feedback = bt_mem_take(mem, p->feedback_bytes);
    if (p->feedback != NULL) {
        p->split->channel = c;
        c->credit_of = credit_of;
        c->word = word;
        c->note = note;
    }
    return p->request_bytes != 0 && p->feedback_bytes != 0;
}

size_t split_bytes(const struct bt_router_setup *setup)
{
    struct bt_router_setup s = *setup;
    struct parts measured;
    struct bt_mem mem;
    bt_mem_init(&mem, NULL, 0);
    return fill_setup(&s) && lay_out(&measured, &mem, &s) ? mem.used : 0;
}

/* Two routers become halves of one. */
static void join_halves(struct router_split *s)
{
    struct bt_router *q = s->request, *f = s->feedback;
    q->split = f->split = s;
    f->sent = q->sent;
    f->sends_clock = &s->channel->request_clock;
    f->tell_flow = &q->flow_told;
    router_watchers_add(q, &split_request_watcher);
    router_watchers_last(q);
    router_watchers_add(f, &split_feedback_watcher);
    router_watchers_last(f);
    q->next_health = UINT64_MAX; /* the workers' health is the other half's */
    q->pairs.free = 0;           /* so are the pairs: see router_watch_full */
}

struct bt_router *split_init(void *mem, size_t bytes, const struct bt_router_setup *setup, uint64_t now)
{
    struct bt_router_setup s = *setup;
    struct parts p;
    struct bt_mem arena;
    if (!fill_setup(&s) || mem == NULL || ((uintptr_t)mem & (BT_MEM_ALIGN - 1u)) != 0) {
        return NULL;
    }
    bt_mem_init(&arena, mem, bytes);
    if (!lay_out(&p, &arena, &s) || arena.overflowed) {
        return NULL;
    }
    struct bt_router_setup q = request_setup(&s), f = feedback_setup(&s);
    p.split->request = router_core_init(p.request, p.request_bytes, &q, now);
    p.split->feedback = router_core_init(p.feedback, p.feedback_bytes, &f, now);
    if (p.split->request == NULL || p.split->feedback == NULL) {
        return NULL;
    }
    bt_spsc_ends_init(&p.split->channel->credits, s.credits);
    bt_spsc_ends_init(&p.split->channel->notes, s.notes);
    bt_txq_init(&p.split->nothing);
    join_halves(p.split);
    return p.split->request;
}

/* What waits in the queue of credits is in the words as well. */
static void forget_credits(struct router_split *s)
{
    uint32_t at, n;
    while ((n = bt_spsc_waiting(&s->channel->credits, &at)) != 0) {
        bt_spsc_taken(&s->channel->credits, n);
    }
    s->rescans_seen = atomic_load_explicit(&s->channel->rescans, memory_order_relaxed);
}

/* The REQ0 half gets the workers as the other one has them: same slots, same order. */
static void copy_workers(struct router_split *s)
{
    struct bt_router *q = s->request;
    const struct bt_router *f = s->feedback;
    q->used_end = f->used_end;
    q->order_n = f->order_n;
    memcpy(q->order, f->order, f->order_n * sizeof *f->order);
    forget_credits(s);
    for (uint32_t w = 0; w < f->used_end; w++) {
        uint64_t word = split_word(f, w);
        atomic_store_explicit(&s->channel->word[w], word, memory_order_relaxed);
        q->worker[w] = f->worker[w];
        split_take_word(q, w, word);
    }
}

static void share_features(struct router_split *s)
{
    router_watchers_clear(s->request);
    for (unsigned i = 0; i < ROUTER_FEATURES; i++) {
        if (router_features[i]->share != NULL) {
            router_features[i]->share(s->request, s->feedback);
        }
    }
}

bool split_apply(struct router_split *s, uint64_t now, const struct bt_router_config *config,
                 struct bt_router_refusal *why)
{
    struct bt_router *q = s->request;
    split_take_notes(s); /* they speak of the workers that stand in the slots now */
    if (!router_apply(s->feedback, now, config, why)) {
        return false;
    }
    router_clock(q, now);
    router_take_numbers(q, config);
    bt_load_bound(&q->load, q->balancer->bounded);
    copy_workers(s);
    share_features(s);
    router_pump_soon(q);
    return true;
}

void split_stats(const struct router_split *s, uint64_t now, struct bt_router_stats *out)
{
    struct bt_router_stats q;
    router_stats(s->request, now, &q);
    router_stats(s->feedback, now, out);
    for (unsigned i = 0; i < BT_ROUTER_COUNTERS; i++) {
        out->counter[i] += q.counter[i];
    }
    for (unsigned i = 0; i < BT_M_COUNT; i++) {
        out->malformed[i] += q.malformed[i];
    }
    out->held = q.held;
    out->held_limit = q.held_limit;
    out->oldest_held_ns = q.oldest_held_ns;
    out->router_draining = q.router_draining;
}
