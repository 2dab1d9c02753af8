// SPDX-License-Identifier: Apache-2.0
// A bounded queue of pointers between exactly one producing and one consuming thread, without
// locks. Waking the other side is the user's business.
#ifndef BT_APPS_SPSC_H
#define BT_APPS_SPSC_H

#include "base/ring.h"
#include "base/spsc.h"

#include <stdlib.h>

struct bt_spsc {
    struct bt_spsc_ends ends;
    void **slot;
};

// capacity is rounded up to a power of two.
static inline bool bt_spsc_open(struct bt_spsc *q, uint32_t capacity)
{
    uint32_t n = bt_pow2_at_least(capacity);
    bt_spsc_ends_init(&q->ends, n);
    q->slot = calloc(n, sizeof *q->slot);
    return q->slot != NULL;
}

static inline void bt_spsc_close(struct bt_spsc *q)
{
    free(q->slot);
    q->slot = NULL;
}

// False when full.
static inline bool bt_spsc_push(struct bt_spsc *q, void *item)
{
    uint32_t at;
    if (!bt_spsc_room(&q->ends, &at)) {
        return false;
    }
    q->slot[at] = item;
    bt_spsc_filled(&q->ends);
    return true;
}

// NULL when empty.
static inline void *bt_spsc_pop(struct bt_spsc *q)
{
    uint32_t at;
    if (bt_spsc_waiting(&q->ends, &at) == 0) {
        return NULL;
    }
    void *item = q->slot[at];
    bt_spsc_taken(&q->ends, 1);
    return item;
}

#endif
