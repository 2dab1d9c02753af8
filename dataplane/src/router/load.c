// SPDX-License-Identifier: Apache-2.0
// Load index: who is up, and the sliding window (see load.h).
#include "router/load.h"

#include <assert.h>
#include <string.h>

#define BLOCKS     (BT_LOAD_WORKERS_MAX / BT_LOAD_BLOCK)
#define SLIDE_ROOM 16u /* levels left free below the minimum when the window moves: it shall not move back soon */

static_assert(BLOCKS == BT_LOAD_BLOCK, "one search does for workers and for blocks");

void bt_load_init(struct bt_load *l, uint64_t seed)
{
    memset(l, 0, sizeof *l);
    l->bounded = true;
    for (uint32_t w = 0; w < BT_LOAD_WORKERS_MAX; w++) {
        l->rank[w].major = BT_LOAD_OFF;
    }
    for (uint32_t b = 0; b < BLOCKS; b++) {
        l->block[b].major = BT_LOAD_OFF;
    }
    bt_rng_seed(&l->rng, seed);
    l->turn = (uint32_t)bt_rng_next(&l->rng);
}

/* The workers in use changed: ties are spread over the new ones, and blocks come into use at the 33rd. */
__attribute__((noinline)) static void set_span(struct bt_load *l, uint32_t span)
{
    l->span = span;
    for (uint32_t turn = 0; turn < 256u; turn++) {
        l->few[turn] = (uint8_t)bt_load_untie(0, turn, span);
    }
    for (uint32_t w = 0; w < span; w++) {
        uint32_t first = w & ~(BT_LOAD_BLOCK - 1u);
        uint32_t n = span - first < BT_LOAD_BLOCK ? span - first : BT_LOAD_BLOCK;
        l->rank[w].minor = (uint8_t)(0u - ((w - first) << 8) / n);
    }
    for (uint32_t b = 0; b < BLOCKS; b++) {
        l->block[b].major = (uint8_t)bt_least16_major(&l->rank[b * BT_LOAD_BLOCK], BT_LOAD_BLOCK);
        l->block[b].minor = (uint8_t)(b * BT_LOAD_BLOCK < span ? 0u - (b << 13) / span : 0u);
    }
}

uint32_t bt_load_place_in_block(struct bt_load *l, uint32_t w, uint32_t to)
{
    struct bt_rank *block = &l->block[w / BT_LOAD_BLOCK];
    uint32_t from = l->rank[w].major;
    l->rank[w].major = (uint8_t)to;
    if (to < block->major) {
        block->major = (uint8_t)to;
    } else if (from == block->major) {
        block->major = (uint8_t)bt_least16_major(&l->rank[w & ~(BT_LOAD_BLOCK - 1u)], BT_LOAD_BLOCK);
    }
    return w;
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
        bt_load_place(l, w, BT_LOAD_OFF);
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
    uint32_t least = minimum(l);
    rebuild(l, least > SLIDE_ROOM && !l->bounded ? least - SLIDE_ROOM : 0);
}

void bt_load_bound(struct bt_load *l, bool bounded)
{
    if (l->bounded == bounded) {
        return;
    }
    l->bounded = bounded;
    if (bounded) {
        rebuild(l, 0); /* queues are numbered from 0 again */
    }
}

uint32_t bt_load_beyond(struct bt_load *l, uint32_t w, uint64_t outstanding)
{
    l->outstanding[w] = outstanding < UINT32_MAX ? (uint32_t)outstanding : UINT32_MAX;
    if (l->limit[w] == 0) {
        bt_load_place(l, w, BT_LOAD_OFF);
    } else if (outstanding < l->base) {
        bt_load_slide(l); /* it fell below the window */
    } else {
        bt_load_place(l, w, l->bounded ? BT_LOAD_FULL : BT_LOAD_TOP);
    }
    return w;
}

void bt_load_set(struct bt_load *l, uint32_t w, uint64_t outstanding, uint32_t n)
{
    uint32_t limit = l->bounded || n == 0 ? n : BT_LOAD_TOP;
    bool was_up = l->limit[w] != 0;
    l->limit[w] = (uint8_t)limit;
    if (was_up != (limit != 0)) {
        set_up(l, w, limit != 0);
    }
    bt_load_move(l, w, outstanding);
}
