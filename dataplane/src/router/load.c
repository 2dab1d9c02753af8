// SPDX-License-Identifier: Apache-2.0
// Load index: membership of levels and the sliding window (see load.h).
#include "router/load.h"

#include <string.h>

#define SLIDE_ROOM 16u /* levels left free below the minimum when the window moves, so that it does not move back soon */

static uint32_t words_for(uint32_t workers)
{
    return (workers + 63u) / 64u;
}

size_t bt_load_bytes(uint32_t workers)
{
    size_t words = words_for(workers);
    size_t slots = words * 64u;
    return (BT_LOAD_LEVELS + 1u) * words * sizeof(uint64_t) + slots * sizeof(uint32_t) +
           BT_LOAD_LEVELS * sizeof(uint16_t) + slots * 2u * sizeof(uint16_t) + slots * 2u;
}

void bt_load_init(struct bt_load *l, void *mem, uint32_t workers, uint64_t seed)
{
    size_t words = words_for(workers);
    size_t slots = words * 64u;
    memset(l, 0, sizeof *l);
    memset(mem, 0, bt_load_bytes(workers));
    l->words = (uint32_t)words;
    l->bounded = true;
    l->levels = mem;
    l->up = l->levels + BT_LOAD_LEVELS * words;
    l->outstanding = (uint32_t *)(void *)(l->up + words);
    l->summary = (uint16_t *)(void *)(l->outstanding + slots);
    l->dense = l->summary + BT_LOAD_LEVELS;
    l->where = l->dense + slots;
    l->level = (uint8_t *)(l->where + slots);
    l->credit = l->level + slots;
    memset(l->level, BT_LOAD_NONE, slots);
    bt_rng_seed(&l->rng, seed);
    l->turn = (uint32_t)bt_rng_next(&l->rng);
}

static inline void leave_level(struct bt_load *l, uint32_t w, uint32_t level)
{
    uint64_t *word = &l->levels[level * l->words + (w >> 6)];
    *word &= ~(UINT64_C(1) << (w & 63u));
    if (*word == 0) {
        l->summary[level] = (uint16_t)(l->summary[level] & ~(1u << (w >> 6)));
        if (l->summary[level] == 0) {
            l->filled &= ~(UINT64_C(1) << level);
        }
    }
}

static inline void enter_level(struct bt_load *l, uint32_t w, uint32_t level)
{
    l->levels[level * l->words + (w >> 6)] |= UINT64_C(1) << (w & 63u);
    l->summary[level] = (uint16_t)(l->summary[level] | (1u << (w >> 6)));
    l->filled |= UINT64_C(1) << level;
}

/* Level that w belongs to. The caller made sure that outstanding ≥ base. */
static inline uint32_t level_of(const struct bt_load *l, uint32_t w)
{
    uint32_t n = l->credit[w];
    uint64_t above = l->outstanding[w] - l->base;
    if (l->bounded) {
        return above < n ? (uint32_t)above : BT_LOAD_NONE;
    }
    if (n == 0) {
        return BT_LOAD_NONE;
    }
    return above < BT_LOAD_TOP ? (uint32_t)above : BT_LOAD_TOP;
}

static void place(struct bt_load *l, uint32_t w)
{
    uint32_t from = l->level[w];
    uint32_t to = level_of(l, w);
    if (from == to) {
        return;
    }
    if (from != BT_LOAD_NONE) {
        leave_level(l, w, from);
    }
    if (to != BT_LOAD_NONE) {
        enter_level(l, w, to);
    }
    l->level[w] = (uint8_t)to;
}

/* Worker w becomes available or stops being so: rare, by JOIN, LEAVE, silence, configuration. */
static void set_up(struct bt_load *l, uint32_t w, bool up)
{
    if (up) {
        l->up[w >> 6] |= UINT64_C(1) << (w & 63u);
        l->where[w] = (uint16_t)l->up_n;
        l->dense[l->up_n++] = (uint16_t)w;
        if (w >= l->span) {
            l->span = w + 1u;
        }
        return;
    }
    l->up[w >> 6] &= ~(UINT64_C(1) << (w & 63u));
    uint16_t last = l->dense[--l->up_n];
    l->dense[l->where[w]] = last;
    l->where[last] = l->where[w];
    while (l->span > 0 && (l->up[(l->span - 1u) >> 6] >> ((l->span - 1u) & 63u) & 1u) == 0) {
        l->span--;
    }
}

static void rebuild(struct bt_load *l, uint64_t base)
{
    memset(l->levels, 0, BT_LOAD_LEVELS * l->words * sizeof(uint64_t));
    memset(l->summary, 0, BT_LOAD_LEVELS * sizeof(uint16_t));
    memset(l->level, BT_LOAD_NONE, (size_t)l->words * 64u);
    l->filled = 0;
    l->base = base;
    for (uint32_t w = 0; w < l->span; w++) {
        if (l->credit[w] != 0) {
            place(l, w);
        }
    }
}

static uint64_t minimum(const struct bt_load *l)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < l->up_n; i++) {
        uint64_t here = l->outstanding[l->dense[i]];
        least = here < least ? here : least;
    }
    return l->up_n != 0 ? least : 0;
}

void bt_load_slide(struct bt_load *l)
{
    uint64_t least = minimum(l);
    rebuild(l, least > SLIDE_ROOM && !l->bounded ? least - SLIDE_ROOM : 0);
}

void bt_load_bound(struct bt_load *l, bool bounded)
{
    if (l->bounded != bounded) {
        l->bounded = bounded;
        bt_load_slide(l);
    }
}

void bt_load_set(struct bt_load *l, uint32_t w, uint32_t outstanding, uint32_t n)
{
    l->outstanding[w] = outstanding;
    if (n != l->credit[w]) {
        bool was = l->credit[w] != 0;
        l->credit[w] = (uint8_t)n;
        if (was != (n != 0)) {
            set_up(l, w, n != 0);
        }
    }
    if (outstanding < l->base && n != 0) {
        bt_load_slide(l);
        return;
    }
    place(l, w);
}
