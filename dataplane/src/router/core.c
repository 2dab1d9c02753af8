// SPDX-License-Identifier: Apache-2.0
// What one thread of a router runs (core.h): building it in the caller's memory, and its timers.
#include "router/core.h"

#include <string.h>

#include "router/feature.h"
#include "router/health.h"
#include "router/queue.h"
#include "router/watch.h"
#include "router/workers.h"

#define PAIRS_DEFAULT  65536u
#define PAIRS_MAX      (1u << 20)
#define HEDGES_DEFAULT 1024u
#define HEDGES_MAX     UINT16_MAX

static bool fill_setup(struct bt_router_setup *s)
{
    s->max_members = s->max_members != 0 ? s->max_members : BT_ROUTER_MEMBERS_MAX;
    s->max_pairs = s->max_pairs != 0 ? s->max_pairs : PAIRS_DEFAULT;
    s->max_hedges = s->max_hedges != 0 ? s->max_hedges : HEDGES_DEFAULT;
    return s->max_members <= BT_ROUTER_MEMBERS_MAX && s->max_pairs <= PAIRS_MAX && s->max_hedges <= HEDGES_MAX;
}

/* Takes all tables from mem, or only measures when mem has no memory. */
static void lay_out(struct bt_router *r, struct bt_mem *mem, const struct bt_router_setup *s)
{
    r->slots = s->max_members;
    r->map_mask = bt_pow2_at_least(4u * s->max_members) - 1u;
    r->map_shift = 64u - (uint32_t)__builtin_popcount(r->map_mask);
    r->sent = bt_mem_take(mem, s->max_members * sizeof *r->sent);
    r->credit = bt_mem_take(mem, s->max_members * sizeof *r->credit);
    r->worker = bt_mem_take(mem, s->max_members * sizeof *r->worker);
    r->cold = bt_mem_take(mem, s->max_members * sizeof *r->cold);
    r->order = bt_mem_take(mem, s->max_members * sizeof *r->order);
    r->map = bt_mem_take(mem, (r->map_mask + 1u) * sizeof *r->map);
    r->map_next = bt_mem_take(mem, (r->map_mask + 1u) * sizeof *r->map_next);
    router_watch_init(r, s->max_pairs, mem, s->seed ^ UINT64_C(0x6a09e667f3bcc908));
    for (unsigned i = 0; i < ROUTER_FEATURES; i++) {
        router_features[i]->lay_out(r, mem, s);
    }
    if (!s->no_histograms && !s->no_latency) {
        r->latency = bt_mem_take(mem, bt_hist_slices_bytes());
    }
    if (!s->no_histograms && !s->no_hold) {
        r->hold = bt_mem_take(mem, bt_hist_slices_bytes());
    }
}

size_t router_core_bytes(const struct bt_router_setup *setup)
{
    struct bt_router_setup s = *setup;
    if (!fill_setup(&s)) {
        return 0;
    }
    struct bt_router unused; /* takes the pointers of the measuring run */
    struct bt_mem mem;
    bt_mem_init(&mem, NULL, 0);
    bt_mem_take(&mem, sizeof unused);
    lay_out(&unused, &mem, &s);
    return mem.used;
}

/* In force until the first apply: no members, so every request gets DROP. */
static void default_numbers(struct bt_router *r)
{
    r->balancer = &bt_balancers[BT_ROUTER_JBSQ];
    r->jbsq = true;
    r->depth = 1;
    r->central_limit = 1;
    r->max_queue_ns = SECOND;
    r->request_timeout_ns = 10 * SECOND;
    r->timers = (struct bt_router_timers){200 * MILLISECOND, 100 * MILLISECOND, SECOND};
    r->leak_ns = r->timers.leak_ns;
}

struct bt_router *router_core_init(void *mem, size_t bytes, const struct bt_router_setup *setup, uint64_t now)
{
    struct bt_router_setup s = *setup;
    if (!fill_setup(&s) || setup->pool == NULL || mem == NULL || ((uintptr_t)mem & (BT_MEM_ALIGN - 1u)) != 0) {
        return NULL;
    }
    struct bt_mem arena;
    bt_mem_init(&arena, mem, bytes);
    struct bt_router *r = bt_mem_take(&arena, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    lay_out(r, &arena, &s);
    if (arena.overflowed) {
        return NULL;
    }
    bt_load_init(&r->load, s.seed);
    for (unsigned i = 0; i < ROUTER_FEATURES; i++) {
        router_features[i]->init(r, &s);
    }
    r->pool = s.pool;
    r->tell_flow = &r->flow_told;
    r->traces = s.traces;
    r->request_addr = s.request_addr;
    r->feedback_addr = s.feedback_addr;
    r->router_id = bt_router_id(&s.request_addr);
    struct bt_options option = {.present = BT_HAS_ROUTER, .router_id = r->router_id};
    bt_options_encode(r->option, BT_R2P2_HEADER, &option);
    r->map_factor = s.seed * UINT64_C(0xd6e8feb86659fd93) | 1u;
    r->now = now;
    r->last_request_at = now;
    r->next_health = r->next_learn = r->next_decay = now;
    bt_txq_init(&r->held);
    if (r->latency != NULL) {
        bt_hist_slices_init(r->latency, now);
    }
    if (r->hold != NULL) {
        bt_hist_slices_init(r->hold, now);
    }
    default_numbers(r);
    return r;
}

void router_core_tick(struct bt_router *r, uint64_t now, struct bt_txq *txq)
{
    now = router_clock(r, now);
    router_health(r, now);
    router_expire_held(r, now, txq);
    router_pump(r, now, txq);
    if (r->noted) {
        router_tell_tick(r, now);
        router_tell_follow(r, now, txq);
    }
    router_watch_expire(r, now); /* last: what was held for T_max may just have left */
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Last of all and apart, so that the usual case saves no registers. */
__attribute__((noinline)) static uint64_t with_watchers(const struct bt_router *r, uint64_t next)
{
    return sooner(next, router_watchers_next(r));
}

uint64_t router_core_next(const struct bt_router *r)
{
    uint64_t next = sooner(router_queue_next(r), router_watch_next(r));
    next = r->used_end > 0 ? sooner(next, r->next_health) : next;
    return r->noted ? with_watchers(r, next) : next;
}

void router_core_unreachable(struct bt_router *r, uint64_t now, const struct bt_addr *worker)
{
    uint32_t w = router_find(r, worker);
    if (w == NO_SLOT) {
        return;
    }
    now = router_clock(r, now);
    r->counter[BT_RC_UNREACHABLE]++;
    const unsigned alive = WORKER_JOINED | WORKER_EXTENDED;
    if ((r->worker[w].flags & (alive | WORKER_SUSPECT)) == alive) {
        r->worker[w].flags |= WORKER_SUSPECT;
        r->cold[w].quiet_since = now;
        r->counter[BT_RC_SUSPECTED]++;
        router_refresh(r, w);
    }
}
