// SPDX-License-Identifier: Apache-2.0
// The load index: what a policy sees of the workers, kept so that the least loaded one is found without looking at
// each. A worker's rank is its level (its queue) and a tie byte; the least of 16 ranks takes a few instructions. Where
// there are more, groups of 8 have the level of their least worker and rows of 8 groups that of their least group, so
// that 1,024 are three steps. 64 levels cover every JBSQ queue (n ≤ 64, R-117) exactly, and slide along as a window for
// JSQ, whose queues have no bound. No allocation, no division.
#ifndef BOBTAIL_ROUTER_LOAD_H
#define BOBTAIL_ROUTER_LOAD_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/least16.h"
#include "base/rng.h"

#define BT_LOAD_LEVELS      64u
#define BT_LOAD_TOP         63u /* the last level; without bound it means "63 or more above base" */
#define BT_LOAD_FULL        64u /* level of a worker whose n requests are all outstanding (bounded only) */
#define BT_LOAD_OFF         65u /* level of a worker that is not available */
#define BT_LOAD_WORKERS_MAX 1024u
#define BT_LOAD_FEW         16u /* workers that need no groups */
#define BT_LOAD_GROUP       8u
#define BT_LOAD_ROW         64u
#define BT_LOAD_NOBODY      (BT_LOAD_FULL << 8) /* least rank when nobody may be chosen */
#define BT_LOAD_TURN        0xd1ab9fu /* low byte: 256 over the golden ratio; all 2^24 triples of bytes come up */
#define BT_NO_WORKER        UINT32_MAX

struct bt_load {
    uint32_t span; /* workers ever used are below it */
    uint32_t turn; /* three bytes give each decision its tie starts: among rows, groups and workers */
    uint32_t base; /* outstanding of level 0; 0 when bounded */
    bool bounded;  /* queue limited by n (JBSQ) */
    uint32_t up_n; /* workers that may be chosen at all */
    uint32_t next; /* round robin: where the search starts */
    struct bt_rng rng;
    uint8_t untie[256]; /* which of the ranks searched first a tie byte belongs to */
    alignas(16) struct bt_rank row[BT_LOAD_WORKERS_MAX / BT_LOAD_ROW]; /* level of the row's least worker */
    struct bt_rank group[BT_LOAD_WORKERS_MAX / BT_LOAD_GROUP];
    /* by worker */
    struct bt_rank rank[BT_LOAD_WORKERS_MAX];
    uint8_t plain[BT_LOAD_WORKERS_MAX]; /* queues shorter than it are levels, and nothing but the rank knows them:
                                           limit, but 0 in an index with groups or without bound */
    uint8_t many[BT_LOAD_WORKERS_MAX];  /* the same in an index with groups: there limit, else 0 */
    uint8_t limit[BT_LOAD_WORKERS_MAX]; /* levels below it are the worker's own: n, or without bound all but the top */
    uint32_t outstanding[BT_LOAD_WORKERS_MAX]; /* of those whose level is not below plain nor many: see
                                                  bt_load_outstanding */
    uint64_t up[BT_LOAD_WORKERS_MAX / 64];     /* bit w: limit > 0 */
    uint16_t dense[BT_LOAD_WORKERS_MAX];       /* the workers that are up, in no order: uniform choice in O(1) */
    uint16_t where[BT_LOAD_WORKERS_MAX];       /* place in dense */
};

/* Nobody is up. */
void bt_load_init(struct bt_load *l, uint64_t seed);

/* Changes between bounded and unbounded levels; every worker must then be set again. */
void bt_load_bound(struct bt_load *l, bool bounded);

/* Moves the window of an unbounded index so that the least loaded worker is distinguishable; O(workers). Called by
 * the policies when every worker stands in the top level. */
void bt_load_slide(struct bt_load *l);

/* Tells the index about worker w: outstanding requests and credits n (0 = give it nothing, at most 64). */
void bt_load_set(struct bt_load *l, uint32_t w, uint64_t outstanding, uint32_t n);

/* bt_load_move and bt_load_push for every other queue and index. They return w,
 * so that who ends with such a call can jump there and needs no stack frame for the other times. */
uint32_t bt_load_move_any(struct bt_load *l, size_t w, uint64_t outstanding);
uint32_t bt_load_push_any(struct bt_load *l, size_t w);

/* The level of w changed in an index with groups: its group and row follow. Returns w. */
static inline uint32_t bt_load_regroup(struct bt_load *l, size_t w)
{
    size_t group = w / BT_LOAD_GROUP, row = w / BT_LOAD_ROW;
    uint32_t least = bt_least16_major(&l->rank[group * BT_LOAD_GROUP], BT_LEAST_STEP);
    if (least != l->group[group].major) {
        l->group[group].major = (uint8_t)least;
        l->row[row].major = (uint8_t)bt_least16_major(&l->group[row * BT_LEAST_STEP], BT_LEAST_STEP);
    }
    return (uint32_t)w;
}

/* The same worker with the same credits, but another queue: what every FEEDBACK does. Returns w. A level that is not
 * above its last needs no search among the others. */
static inline uint32_t bt_load_move(struct bt_load *l, size_t w, uint64_t outstanding)
{
    if (__builtin_expect(outstanding < l->plain[w], 1)) {
        l->rank[w].major = (uint8_t)outstanding;
        return (uint32_t)w;
    }
    if (__builtin_expect(outstanding >= l->many[w] || outstanding > l->rank[w].major, 0)) {
        return bt_load_move_any(l, w, outstanding);
    }
    uint8_t to = (uint8_t)outstanding;
    l->rank[w].major = to;
    if (to < l->group[w / BT_LOAD_GROUP].major) {
        l->group[w / BT_LOAD_GROUP].major = to;
        if (to < l->row[w / BT_LOAD_ROW].major) {
            l->row[w / BT_LOAD_ROW].major = to;
        }
    }
    return (uint32_t)w;
}

/* One request more: what every request does. Returns w. */
static inline uint32_t bt_load_push(struct bt_load *l, size_t w)
{
    uint8_t to = (uint8_t)(l->rank[w].major + 1u);
    if (__builtin_expect(to < l->plain[w], 1)) {
        l->rank[w].major = to;
        return (uint32_t)w;
    }
    if (to == l->plain[w]) {
        l->outstanding[w] = to;
        l->rank[w].major = BT_LOAD_FULL;
        return (uint32_t)w;
    }
    if (__builtin_expect(to < l->many[w], 1)) {
        l->rank[w].major = to;
        return bt_load_regroup(l, w);
    }
    return bt_load_push_any(l, w);
}

/* Queue of w as the index knows it. */
static inline uint32_t bt_load_outstanding(const struct bt_load *l, uint32_t w)
{
    return l->rank[w].major < l->plain[w] + l->many[w] ? l->rank[w].major : l->outstanding[w];
}

/* Worker i of n stands at 256 i / n of a circle, which a turn moves on; the least tie byte belongs to the last worker
 * before the turn, so that each is chosen as often as its distance to the next is long. The least loaded
 * worker; ties are spread evenly, and never over the same worker twice in a row for long. *least: its rank among the
 * first searched. When that is BT_LOAD_NOBODY or more, nobody may be chosen and the worker means nothing. */
static inline uint32_t bt_load_least(struct bt_load *l, uint32_t *least)
{
    uint32_t turn = l->turn += BT_LOAD_TURN;
    if (__builtin_expect(l->span <= BT_LOAD_FEW, 1)) {
        *least = bt_least16(l->rank, BT_LOAD_FEW, turn);
        return l->untie[(turn - *least) & 0xffu];
    }
    *least = bt_least16(l->row, BT_LOAD_WORKERS_MAX / BT_LOAD_ROW, turn);
    uint32_t first = l->untie[(turn - *least) & 0xffu] * (BT_LOAD_ROW / BT_LOAD_GROUP);
    uint32_t group = first + bt_least16_place(&l->group[first], turn, 1);
    return group * BT_LOAD_GROUP + bt_least16_place(&l->rank[group * BT_LOAD_GROUP], turn, 2);
}

/* Level of the least loaded worker; nothing turns. */
static inline uint32_t bt_load_lowest(const struct bt_load *l)
{
    return bt_least16_major(l->span <= BT_LOAD_FEW ? l->rank : l->row, BT_LOAD_FEW);
}

/* Some worker may be chosen by queue length. */
static inline bool bt_load_any_free(const struct bt_load *l)
{
    return bt_load_lowest(l) < BT_LOAD_FULL;
}

static inline bool bt_load_has_idle(const struct bt_load *l)
{
    return l->base == 0 && bt_load_lowest(l) == 0;
}

#endif
