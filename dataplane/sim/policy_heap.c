// SPDX-License-Identifier: Apache-2.0
// A binary heap.
#include "policy_heap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"

static bool before(struct sim_heap_item a, struct sim_heap_item b)
{
    return a.key != b.key ? a.key < b.key : a.job < b.job;
}

static void grow(struct sim_heap *h)
{
    size_t cap = h->cap > 0 ? h->cap * 2 : 64;
    struct sim_heap_item *bigger = sim_zeroed(cap * sizeof *bigger);
    if (h->n > 0) {
        memcpy(bigger, h->v, h->n * sizeof *bigger);
    }
    free(h->v);
    h->v = bigger;
    h->cap = cap;
}

void sim_heap_push(struct sim_heap *h, uint64_t key, uint32_t job)
{
    if (h->n == h->cap) {
        grow(h);
    }
    const struct sim_heap_item x = {key, job};
    size_t i = h->n++;
    while (i > 0 && before(x, h->v[(i - 1) / 2])) {
        h->v[i] = h->v[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->v[i] = x;
}

uint32_t sim_heap_pop(struct sim_heap *h)
{
    uint32_t first = h->v[0].job;
    const struct sim_heap_item x = h->v[--h->n];
    size_t i = 0;
    for (size_t c = 1; c < h->n; c = 2 * i + 1) {
        c += c + 1 < h->n && before(h->v[c + 1], h->v[c]);
        if (!before(h->v[c], x)) {
            break;
        }
        h->v[i] = h->v[c];
        i = c;
    }
    h->v[i] = x;
    return first;
}

void sim_heap_free(struct sim_heap *h)
{
    free(h->v);
    *h = (struct sim_heap){0};
}
