// SPDX-License-Identifier: Apache-2.0
// Memory of the notices (see policy_notices.h).
#include "policy_notices.h"

#include <stdlib.h>
#include <string.h>

enum { RING_FIRST = 8 };

static void *take(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL) {
        abort();
    }
    return p;
}

void sim_notices_init(struct sim_notices *q, uint32_t workers)
{
    q->size = 1;
    while (q->size < workers) {
        q->size *= 2;
    }
    q->workers = workers;
    q->tree = take((size_t)q->size * 2, sizeof *q->tree);
    q->ring = take(workers, sizeof *q->ring);
    memset(q->tree, 0xff, (size_t)q->size * 2 * sizeof *q->tree);
    for (uint32_t w = 0; w < workers; w++) {
        q->ring[w].cap = RING_FIRST;
        q->ring[w].at = take(RING_FIRST, sizeof *q->ring[w].at);
    }
}

void sim_notices_free(struct sim_notices *q)
{
    for (uint32_t w = 0; w < q->workers; w++) {
        free(q->ring[w].at);
    }
    free(q->ring);
    free(q->tree);
}

void sim_notices_grow(struct sim_notice_ring *r)
{
    uint64_t *bigger = take((size_t)r->cap * 2, sizeof *bigger);
    for (uint32_t i = 0; i < r->n; i++) {
        bigger[i] = r->at[(r->head + i) & (r->cap - 1u)];
    }
    free(r->at);
    r->at = bigger;
    r->head = 0;
    r->cap *= 2;
}
