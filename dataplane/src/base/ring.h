// SPDX-License-Identifier: Apache-2.0
// A bounded FIFO of pointers over memory the caller gave; single thread.
#ifndef BT_BASE_RING_H
#define BT_BASE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bt_ring {
    void **at;
    uint32_t mask;  // slots - 1, slots a power of two
    uint32_t limit; // most entries held at once
    uint32_t head, tail;
};

static inline uint32_t bt_pow2_at_least(uint32_t n)
{
    uint32_t p = 1;
    while (p < n && p < 0x80000000u) {
        p <<= 1;
    }
    return p;
}

static inline size_t bt_ring_bytes(uint32_t limit)
{
    return (size_t)bt_pow2_at_least(limit) * sizeof(void *);
}

// mem: bt_ring_bytes(limit) bytes.
static inline void bt_ring_init(struct bt_ring *r, void *mem, uint32_t limit)
{
    r->at = mem;
    r->mask = bt_pow2_at_least(limit) - 1;
    r->limit = limit;
    r->head = r->tail = 0;
}

static inline uint32_t bt_ring_count(const struct bt_ring *r)
{
    return r->tail - r->head;
}

// False when full; the ring is unchanged then.
static inline bool bt_ring_push(struct bt_ring *r, void *p)
{
    if (bt_ring_count(r) >= r->limit) {
        return false;
    }
    r->at[r->tail++ & r->mask] = p;
    return true;
}

static inline void *bt_ring_peek(const struct bt_ring *r)
{
    return bt_ring_count(r) ? r->at[r->head & r->mask] : NULL;
}

static inline void *bt_ring_pop(struct bt_ring *r)
{
    return bt_ring_count(r) ? r->at[r->head++ & r->mask] : NULL;
}

#endif
