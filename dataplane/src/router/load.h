// SPDX-License-Identifier: Apache-2.0
// The load index: what a policy sees of the workers, kept so that the least loaded one is found without a scan.
// Workers with equal queues share a level (a bitmap); 64 levels cover every JBSQ queue (n ≤ 64, R-117) exactly, and
// slide along as a window for JSQ, whose queues have no bound. No allocation, no division.
#ifndef BOBTAIL_ROUTER_LOAD_H
#define BOBTAIL_ROUTER_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

#define BT_LOAD_LEVELS      64u
#define BT_LOAD_TOP         63u   /* the last level; without bound it means "63 or more above base" */
#define BT_LOAD_NONE        0xffu /* level of a worker that may not be chosen by queue length */
#define BT_LOAD_WORKERS_MAX 1024u
#define BT_NO_WORKER        UINT32_MAX

struct bt_load_worker {
    uint32_t outstanding;
    uint8_t limit;  /* it stands in a level while outstanding − base is below: n, or all levels; 0 = not available */
    uint8_t level;  /* BT_LOAD_NONE: in no level */
    uint16_t where; /* place in dense */
};

struct bt_load {
    uint32_t words;                /* 64-bit words per bitmap, a power of two, 1..16 */
    uint32_t shift;                /* its logarithm: level l begins at word l << shift */
    uint32_t span;                 /* workers ever used are below it; the tie start rotates over this many */
    uint32_t up_n;                 /* workers that may be chosen at all */
    uint32_t turn;                 /* golden-ratio sequence, gives each decision its tie start */
    uint32_t next;                 /* round robin: where the search starts */
    bool bounded;                  /* queue limited by n (JBSQ) */
    uint32_t top;                  /* what is above it counts as it: the last level, or when bounded no level at all */
    uint64_t filled;               /* bit l: level l has a worker */
    uint64_t base;                 /* outstanding of level 0; 0 when bounded */
    uint64_t *levels;              /* [BT_LOAD_LEVELS][words] */
    uint64_t *up;                  /* [words], workers with n > 0 */
    uint16_t *summary;             /* [BT_LOAD_LEVELS]: bit i: word i of the level is not zero */
    struct bt_load_worker *worker; /* [words*64] */
    uint16_t *dense;               /* [words*64]: the workers that are up, in no order: uniform choice in O(1) */
    struct bt_rng rng;
};

/* Bytes for up to workers (1..1024), and the index built in them (8-byte aligned): nobody is up. */
size_t bt_load_bytes(uint32_t workers);
void bt_load_init(struct bt_load *l, void *mem, uint32_t workers, uint64_t seed);

/* The rare half of bt_load_set: the worker's limit changed, or its queue fell below the window. */
void bt_load_change(struct bt_load *l, uint32_t w, uint32_t outstanding, uint32_t limit);

/* Changes between bounded and unbounded levels; every worker must then be set again. */
void bt_load_bound(struct bt_load *l, bool bounded);

/* Moves the window of an unbounded index so that the least loaded worker is distinguishable; O(workers). Called by
 * the policies when every worker stands in the top level. */
void bt_load_slide(struct bt_load *l);

static inline void bt_load_leave(struct bt_load *l, uint32_t w, uint32_t level)
{
    uint64_t *word = &l->levels[(level << l->shift) + (w >> 6)];
    uint64_t left = *word & ~(UINT64_C(1) << (w & 63u));
    *word = left;
    if (left == 0) {
        uint32_t summary = l->summary[level] & ~(1u << (w >> 6));
        l->summary[level] = (uint16_t)summary;
        l->filled &= ~((uint64_t)(summary == 0) << level);
    }
}

static inline void bt_load_enter(struct bt_load *l, uint32_t w, uint32_t level)
{
    uint64_t *word = &l->levels[(level << l->shift) + (w >> 6)];
    uint64_t before = *word;
    *word = before | UINT64_C(1) << (w & 63u);
    if (before == 0) {
        l->summary[level] = (uint16_t)(l->summary[level] | 1u << (w >> 6));
        l->filled |= UINT64_C(1) << level;
    }
}

/* Moves w to the level of its queue, which is not below the window. */
static inline void bt_load_place(struct bt_load *l, uint32_t w)
{
    struct bt_load_worker *worker = &l->worker[w];
    uint64_t above = worker->outstanding - l->base;
    uint32_t from = worker->level;
    uint32_t to = above < l->top ? (uint32_t)above : l->top;
    to = to < worker->limit ? to : BT_LOAD_NONE;
    if (from == to) {
        return;
    }
    worker->level = (uint8_t)to;
    if (from != BT_LOAD_NONE) {
        bt_load_leave(l, w, from);
    }
    if (to != BT_LOAD_NONE) {
        bt_load_enter(l, w, to);
    }
}

/* Tells the index about worker w: outstanding requests and credits n (0 = give it nothing, at most 64). */
static inline void bt_load_set(struct bt_load *l, uint32_t w, uint32_t outstanding, uint32_t n)
{
    uint32_t limit = l->bounded || n == 0 ? n : BT_LOAD_LEVELS;
    if (__builtin_expect(limit != l->worker[w].limit || outstanding < l->base, 0)) {
        bt_load_change(l, w, outstanding, limit);
        return;
    }
    l->worker[w].outstanding = outstanding;
    bt_load_place(l, w);
}

static inline bool bt_load_has_idle(const struct bt_load *l)
{
    return (l->filled & 1u) != 0 && l->base == 0;
}

/* Start of the next cyclic search, uniform over the workers and never the same worker twice in a row for long: ties
 * are spread like random ones, at the price of a multiplication. */
static inline uint32_t bt_load_turn(struct bt_load *l)
{
    l->turn += 0x9e3779b1u;
    return (uint32_t)(((uint64_t)l->turn * l->span) >> 32);
}

/* A worker of a level that is not empty: the first at or cyclically after the tie start. */
static inline uint32_t bt_load_any(struct bt_load *l, uint32_t level)
{
    uint32_t start = bt_load_turn(l);
    const uint64_t *bits = &l->levels[level << l->shift];
    uint32_t i = start >> 6;
    uint64_t here = bits[i] & (~UINT64_C(0) << (start & 63u));
    if (here == 0) {
        uint32_t summary = l->summary[level];
        uint32_t later = summary & (~UINT32_C(1) << i);
        i = (uint32_t)__builtin_ctz(later != 0 ? later : summary);
        here = bits[i];
    }
    return (i << 6) | (uint32_t)__builtin_ctzll(here);
}

#endif
