// SPDX-License-Identifier: Apache-2.0
// Load index: membership of levels and the sliding window (see load.h).
#include "router/load.h"

#include <string.h>

#define SLIDE_ROOM 16u /* levels left free below the minimum when the window moves: it shall not move back soon */

static uint32_t words_for(uint32_t workers)
{
    uint32_t words = 1;
    while (words * 64u < workers) {
        words *= 2u;
    }
    return words;
}

size_t bt_load_bytes(uint32_t workers)
{
    size_t words = words_for(workers);
    size_t slots = words * 64u;
    return (BT_LOAD_LEVELS + 1u) * words * sizeof(uint64_t) + slots * sizeof(struct bt_load_worker) +
           BT_LOAD_LEVELS * sizeof(uint16_t) + slots * sizeof(uint16_t);
}

void bt_load_init(struct bt_load *l, void *mem, uint32_t workers, uint64_t seed)
{
    size_t words = words_for(workers);
    size_t slots = words * 64u;
    memset(l, 0, sizeof *l);
    memset(mem, 0, bt_load_bytes(workers));
    l->words = (uint32_t)words;
    l->shift = (uint32_t)__builtin_ctz((uint32_t)words);
    l->bounded = true;
    l->top = BT_LOAD_LEVELS;
    l->levels = mem;
    l->up = l->levels + BT_LOAD_LEVELS * words;
    l->worker = (struct bt_load_worker *)(void *)(l->up + words);
    l->summary = (uint16_t *)(void *)(l->worker + slots);
    l->dense = l->summary + BT_LOAD_LEVELS;
    for (size_t w = 0; w < slots; w++) {
        l->worker[w].level = BT_LOAD_NONE;
    }
    bt_rng_seed(&l->rng, seed);
    l->turn = (uint32_t)bt_rng_next(&l->rng);
}

/* Worker w becomes available or stops being so: rare, by JOIN, LEAVE, silence, configuration. */
static void set_up(struct bt_load *l, uint32_t w, bool up)
{
    if (up) {
        l->up[w >> 6] |= UINT64_C(1) << (w & 63u);
        l->worker[w].where = (uint16_t)l->up_n;
        l->dense[l->up_n++] = (uint16_t)w;
        if (w >= l->span) {
            l->span = w + 1u;
        }
        return;
    }
    l->up[w >> 6] &= ~(UINT64_C(1) << (w & 63u));
    uint16_t last = l->dense[--l->up_n];
    l->dense[l->worker[w].where] = last;
    l->worker[last].where = l->worker[w].where;
    while (l->span > 0 && (l->up[(l->span - 1u) >> 6] >> ((l->span - 1u) & 63u) & 1u) == 0) {
        l->span--;
    }
}

static void rebuild(struct bt_load *l, uint64_t base)
{
    memset(l->levels, 0, BT_LOAD_LEVELS * l->words * sizeof(uint64_t));
    memset(l->summary, 0, BT_LOAD_LEVELS * sizeof(uint16_t));
    l->filled = 0;
    l->base = base;
    for (uint32_t w = 0; w < l->words * 64u; w++) {
        l->worker[w].level = BT_LOAD_NONE;
        if (l->worker[w].limit != 0) {
            bt_load_place(l, w);
        }
    }
}

static uint64_t minimum(const struct bt_load *l)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < l->up_n; i++) {
        uint64_t here = l->worker[l->dense[i]].outstanding;
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
    if (l->bounded == bounded) {
        return;
    }
    l->bounded = bounded;
    l->top = bounded ? BT_LOAD_LEVELS : BT_LOAD_TOP;
    if (bounded) {
        rebuild(l, 0); /* queues are numbered from 0 again */
    }
}

void bt_load_change(struct bt_load *l, uint32_t w, uint32_t outstanding, uint32_t limit)
{
    struct bt_load_worker *worker = &l->worker[w];
    bool was_up = worker->limit != 0;
    worker->outstanding = outstanding;
    worker->limit = (uint8_t)limit;
    if (was_up != (limit != 0)) {
        set_up(l, w, limit != 0);
    }
    if (outstanding < l->base && limit != 0) {
        bt_load_slide(l);
    } else {
        bt_load_place(l, w);
    }
}
