// SPDX-License-Identifier: Apache-2.0
// The load index: what a policy sees of the workers, kept so that the least loaded one is found without looking at
// each. A worker's rank is its level (its queue) and a tie byte; the least rank of 32 workers takes a few instructions,
// and blocks of 32 have the rank of their least worker, so that 1,024 are two steps. 64 levels cover every JBSQ queue
// (n ≤ 64, R-117) exactly, and slide along as a window for JSQ, whose queues have no bound. No allocation, no division.
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
#define BT_LOAD_BLOCK       32u
#define BT_LOAD_NOBODY      (BT_LOAD_FULL << 8) /* least rank when nobody may be chosen */
#define BT_LOAD_TURN        0x619fu /* low byte: 256 over the golden ratio; all 65,536 pairs of bytes come up */
#define BT_NO_WORKER        UINT32_MAX

struct bt_load {
    uint32_t span; /* workers ever used are below it */
    uint32_t turn; /* two bytes that give each decision its tie starts, among blocks and within one */
    uint32_t base; /* outstanding of level 0; 0 when bounded */
    bool bounded;  /* queue limited by n (JBSQ) */
    uint32_t up_n; /* workers that may be chosen at all */
    uint32_t next; /* round robin: where the search starts */
    struct bt_rng rng;
    alignas(16) struct bt_rank block[BT_LOAD_WORKERS_MAX / BT_LOAD_BLOCK]; /* level of the block's least worker */
    /* by worker */
    alignas(16) struct bt_rank rank[BT_LOAD_WORKERS_MAX];
    uint8_t few[256];                   /* bt_load_untie of block 0, for pools of one search */
    uint8_t limit[BT_LOAD_WORKERS_MAX]; /* levels below it are the worker's own: n, or without bound all but the top */
    uint32_t outstanding[BT_LOAD_WORKERS_MAX];
    uint64_t up[BT_LOAD_WORKERS_MAX / 64]; /* bit w: limit > 0 */
    uint16_t dense[BT_LOAD_WORKERS_MAX];   /* the workers that are up, in no order: uniform choice in O(1) */
    uint16_t where[BT_LOAD_WORKERS_MAX];   /* place in dense */
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

/* The rare ends of bt_load_move: a queue that fits no level of its own. Returns w, so that who ends with this call can
 * jump there and needs no stack frame for the other times. */
uint32_t bt_load_beyond(struct bt_load *l, uint32_t w, uint64_t outstanding);

/* Takes w to another level, and its block with it. Returns w. */
uint32_t bt_load_place_in_block(struct bt_load *l, uint32_t w, uint32_t to);

/* Takes w to another level. Returns w. */
static inline uint32_t bt_load_place(struct bt_load *l, uint32_t w, uint32_t to)
{
    if (__builtin_expect(l->span > BT_LOAD_BLOCK, 0)) {
        return bt_load_place_in_block(l, w, to);
    }
    l->rank[w].major = (uint8_t)to; /* the only block needs no rank */
    return w;
}

/* The same worker with the same credits, but another queue: what every FEEDBACK does. Returns w. */
static inline uint32_t bt_load_move(struct bt_load *l, uint32_t w, uint64_t outstanding)
{
    uint64_t to = outstanding - l->base;
    if (__builtin_expect(to >= l->limit[w], 0)) {
        return bt_load_beyond(l, w, outstanding);
    }
    l->outstanding[w] = (uint32_t)outstanding;
    return bt_load_place(l, w, (uint32_t)to);
}

/* One request more: what every request does. Returns w. */
static inline uint32_t bt_load_push(struct bt_load *l, uint32_t w)
{
    uint32_t to = l->rank[w].major + 1u;
    if (__builtin_expect(to < l->limit[w], 1)) {
        l->outstanding[w]++;
        return bt_load_place(l, w, to);
    }
    if (l->bounded && to == l->limit[w]) {
        l->outstanding[w]++;
        return bt_load_place(l, w, BT_LOAD_FULL);
    }
    return bt_load_beyond(l, w, (uint64_t)l->outstanding[w] + 1u);
}

/* Worker i of n stands at 256 i / n of a circle, which a turn moves on; the least tie byte belongs to the last worker
 * before the turn, so that each is chosen as often as its distance to the next is long. */
static inline uint32_t bt_load_untie(uint32_t least, uint32_t turn, uint32_t n)
{
    return (((turn - least) & 0xffu) * n + 0xffu) >> 8;
}

/* The least loaded worker; ties are spread evenly, and never over the same worker twice in a row for long. *least: its
 * rank. When that is BT_LOAD_NOBODY or more, nobody may be chosen and the worker means nothing. */
static inline uint32_t bt_load_least(struct bt_load *l, uint32_t *least)
{
    uint32_t turn = l->turn += BT_LOAD_TURN;
    if (__builtin_expect(l->span <= BT_LOAD_BLOCK / 2u, 1)) {
        *least = bt_least16(l->rank, BT_LOAD_BLOCK / 2u, turn);
        return l->few[(turn - *least) & 0xffu];
    }
    uint32_t first = 0;
    if (l->span > BT_LOAD_BLOCK) {
        uint32_t block = bt_least16(l->block, BT_LOAD_WORKERS_MAX / BT_LOAD_BLOCK, turn);
        first = (((turn - block) & 0xffu) * l->span + 0x1fffu) >> 13 << 5; /* 8192 = 256 × 32 */
    }
    uint32_t n = l->span - first < BT_LOAD_BLOCK ? l->span - first : BT_LOAD_BLOCK;
    turn >>= 8;
    *least = bt_least16(&l->rank[first], BT_LOAD_BLOCK, turn);
    return first + bt_load_untie(*least, turn, n);
}

/* Level of the least loaded worker; nothing turns. */
static inline uint32_t bt_load_lowest(const struct bt_load *l)
{
    const bool one = l->span <= BT_LOAD_BLOCK;
    return bt_least16_major(one ? l->rank : l->block, BT_LOAD_BLOCK);
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
