// SPDX-License-Identifier: Apache-2.0
// A bounded queue of pointers between exactly one producing and one consuming thread, without
// locks. Waking the other side is the user's business.
#ifndef BT_APPS_SPSC_H
#define BT_APPS_SPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct bt_spsc {
    _Alignas(64) _Atomic uint32_t head; // next to take; written by the consumer
    _Alignas(64) _Atomic uint32_t tail; // next to fill; written by the producer
    _Alignas(64) void **slot;
    uint32_t mask;
};

// capacity is rounded up to a power of two.
static inline bool bt_spsc_open(struct bt_spsc *q, uint32_t capacity)
{
    uint32_t n = 1;
    while (n < capacity) {
        n <<= 1;
    }
    atomic_init(&q->head, 0);
    atomic_init(&q->tail, 0);
    q->mask = n - 1;
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
    uint32_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&q->head, memory_order_acquire) > q->mask) {
        return false;
    }
    q->slot[tail & q->mask] = item;
    atomic_store_explicit(&q->tail, tail + 1, memory_order_release);
    return true;
}

// NULL when empty.
static inline void *bt_spsc_pop(struct bt_spsc *q)
{
    uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    if (head == atomic_load_explicit(&q->tail, memory_order_acquire)) {
        return NULL;
    }
    void *item = q->slot[head & q->mask];
    atomic_store_explicit(&q->head, head + 1, memory_order_release);
    return item;
}

#endif
