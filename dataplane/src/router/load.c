// SPDX-License-Identifier: Apache-2.0
// Load index: who is up, and the sliding window (see load.h).
#include "router/load.h"

#include <assert.h>
#include <string.h>

#define ROWS       (BT_LOAD_WORKERS_MAX / BT_LOAD_ROW)
#define GROUPS     (BT_LOAD_WORKERS_MAX / BT_LOAD_GROUP)
#define SLIDE_ROOM 16u /* levels left free below the minimum when the window moves: it shall not move back soon */

static_assert(ROWS == BT_LOAD_FEW, "one search does for few workers and for rows");
static_assert(BT_LOAD_GROUP == BT_LEAST_STEP && BT_LOAD_ROW == BT_LOAD_GROUP * BT_LEAST_STEP, "a step is one search");

void bt_load_init(struct bt_load *l, uint64_t seed)
{
    memset(l, 0, sizeof *l);
    l->bounded = true;
    for (uint32_t w = 0; w < BT_LOAD_WORKERS_MAX; w++) {
        l->rank[w].major = BT_LOAD_OFF;
    }
    for (uint32_t g = 0; g < GROUPS; g++) {
        l->group[g].major = BT_LOAD_OFF;
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        l->row[r].major = BT_LOAD_OFF;
    }
    bt_rng_seed(&l->rng, seed);
    l->turn = (uint32_t)bt_rng_next(&l->rng);
}

/* Tie byte of what begins at place `at` of n on the circle. */
static uint8_t tie(uint32_t at, uint32_t n)
{
    return (uint8_t)(at < n ? 0u - (at << 8) / n : 0u);
}

static uint32_t at_most(uint32_t n, uint32_t most)
{
    return n < most ? n : most;
}

/* What bt_load_move and bt_load_push may do to w alone. */
static void set_plain(struct bt_load *l, uint32_t w)
{
    l->outstanding[w] = bt_load_outstanding(l, w);
    uint8_t limit = l->bounded ? l->limit[w] : 0;
    l->plain[w] = l->span <= BT_LOAD_FEW ? limit : 0;
    l->many[w] = l->span <= BT_LOAD_FEW ? 0 : limit;
}

/* The workers in use changed: ties are spread over the new ones, and groups come into use at the 17th. */
__attribute__((noinline)) static void set_span(struct bt_load *l, uint32_t span)
{
    const bool few = span <= BT_LOAD_FEW;
    const uint32_t unit = few ? 1u : BT_LOAD_ROW;
    l->span = span;
    memset(l->untie, 0, sizeof l->untie);
    for (uint32_t at = 0, i = 0; at < span; at += unit, i++) {
        uint32_t from = (at << 8) / span;
        memset(l->untie + from, (int)i, 256u - from);
        l->row[i].minor = tie(at, span);
    }
    for (uint32_t w = 0; w < span; w++) {
        uint32_t group = w - w % BT_LOAD_GROUP, row = w - w % BT_LOAD_ROW;
        l->rank[w].minor = few ? tie(w, span) : tie(w - group, at_most(span - group, BT_LOAD_GROUP));
        l->group[w / BT_LOAD_GROUP].minor = tie(group - row, at_most(span - row, BT_LOAD_ROW));
        set_plain(l, w);
    }
    for (uint32_t g = 0; g < GROUPS; g++) {
        l->group[g].major = (uint8_t)bt_least16_major(&l->rank[g * BT_LOAD_GROUP], BT_LEAST_STEP);
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        l->row[r].major = (uint8_t)bt_least16_major(&l->group[r * BT_LEAST_STEP], BT_LEAST_STEP);
    }
}

/* Takes w to another level, and with it its group and row where there are such. Returns w. */
static inline uint32_t place(struct bt_load *l, uint32_t w, uint32_t to)
{
    l->rank[w].major = (uint8_t)to;
    return l->span > BT_LOAD_FEW ? bt_load_regroup(l, w) : w;
}

/* Worker w becomes available or stops being so: rare, by JOIN, LEAVE, silence, configuration. */
static void set_up(struct bt_load *l, uint32_t w, bool up)
{
    if (up) {
        l->up[w >> 6] |= UINT64_C(1) << (w & 63u);
        l->where[w] = (uint16_t)l->up_n;
        l->dense[l->up_n++] = (uint16_t)w;
        if (w >= l->span) {
            set_span(l, w + 1u);
        }
        return;
    }
    l->up[w >> 6] &= ~(UINT64_C(1) << (w & 63u));
    uint16_t last = l->dense[--l->up_n];
    l->dense[l->where[w]] = last;
    l->where[last] = l->where[w];
    uint32_t span = l->span;
    while (span > 0 && (l->up[(span - 1u) >> 6] >> ((span - 1u) & 63u) & 1u) == 0) {
        span--;
    }
    if (span != l->span) {
        place(l, w, BT_LOAD_OFF);
        set_span(l, span);
    }
}

static void rebuild(struct bt_load *l, uint32_t base)
{
    l->base = base;
    for (uint32_t i = 0; i < l->up_n; i++) {
        bt_load_move(l, l->dense[i], l->outstanding[l->dense[i]]);
    }
}

static uint32_t minimum(const struct bt_load *l)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < l->up_n; i++) {
        uint32_t here = l->outstanding[l->dense[i]];
        least = here < least ? here : least;
    }
    return l->up_n != 0 ? least : 0;
}

void bt_load_slide(struct bt_load *l)
{
    uint32_t least = at_most(minimum(l), UINT32_MAX - BT_LOAD_LEVELS); /* no level is beyond 32 bits */
    rebuild(l, least > SLIDE_ROOM && !l->bounded ? least - SLIDE_ROOM : 0);
}

void bt_load_bound(struct bt_load *l, bool bounded)
{
    if (l->bounded == bounded) {
        return;
    }
    l->bounded = bounded;
    for (uint32_t w = 0; w < l->span; w++) {
        set_plain(l, w);
    }
    if (bounded) {
        rebuild(l, 0); /* queues are numbered from 0 again */
    }
}

/* A queue that fits no level of its own. */
__attribute__((noinline, cold)) static uint32_t beyond(struct bt_load *l, uint32_t w, uint64_t outstanding)
{
    l->outstanding[w] = outstanding < UINT32_MAX ? (uint32_t)outstanding : UINT32_MAX;
    if (l->limit[w] == 0) {
        place(l, w, BT_LOAD_OFF);
    } else if (outstanding < l->base) {
        bt_load_slide(l); /* it fell below the window */
    } else {
        place(l, w, l->bounded ? BT_LOAD_FULL : BT_LOAD_TOP);
    }
    return w;
}

uint32_t bt_load_move_any(struct bt_load *l, size_t at, uint64_t outstanding)
{
    uint32_t w = (uint32_t)at;
    uint64_t to = outstanding - l->base;
    if (__builtin_expect(to >= l->limit[w], 0)) {
        return beyond(l, w, outstanding);
    }
    l->outstanding[w] = (uint32_t)outstanding;
    return place(l, w, (uint32_t)to);
}

uint32_t bt_load_push_any(struct bt_load *l, size_t at)
{
    uint32_t w = (uint32_t)at, to = l->rank[w].major + 1u, limit = l->limit[w];
    if (__builtin_expect(to > limit || (to == limit && !l->bounded), 0)) {
        return beyond(l, w, (uint64_t)l->outstanding[w] + 1u);
    }
    l->outstanding[w] = l->base + to;
    return place(l, w, to < limit ? to : BT_LOAD_FULL);
}

void bt_load_set(struct bt_load *l, uint32_t w, uint64_t outstanding, uint32_t n)
{
    uint32_t limit = l->bounded || n == 0 ? n : BT_LOAD_TOP;
    bool was_up = l->limit[w] != 0;
    l->limit[w] = (uint8_t)limit;
    set_plain(l, w);
    if (was_up != (limit != 0)) {
        set_up(l, w, limit != 0);
    }
    bt_load_move(l, w, outstanding);
}
