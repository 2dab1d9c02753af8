// SPDX-License-Identifier: Apache-2.0
// The two ends of a bounded queue between exactly one producing and one consuming thread, without locks. The entries
// are the owner's own array: the ends say which of them is next. Each side keeps what it last saw of the other's end,
// so that they share a cache line only when one of them must look again.
#ifndef BT_BASE_SPSC_H
#define BT_BASE_SPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct bt_spsc_ends {
    _Alignas(64) _Atomic uint32_t head; // next to take; written by the consumer
    uint32_t tail_seen;
    _Alignas(64) _Atomic uint32_t tail; // next to fill; written by the producer
    uint32_t head_seen;
    _Alignas(64) uint32_t mask; // entries - 1, entries a power of two
};

// Both threads may start after it.
static inline void bt_spsc_ends_init(struct bt_spsc_ends *q, uint32_t entries)
{
    atomic_init(&q->head, 0);
    atomic_init(&q->tail, 0);
    q->tail_seen = q->head_seen = 0;
    q->mask = entries - 1u;
}

// Producer: the entry to fill next, in *at. False when the queue is full.
static inline bool bt_spsc_room(struct bt_spsc_ends *q, uint32_t *at)
{
    uint32_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    if (tail - q->head_seen > q->mask) {
        q->head_seen = atomic_load_explicit(&q->head, memory_order_acquire);
        if (tail - q->head_seen > q->mask) {
            return false;
        }
    }
    *at = tail & q->mask;
    return true;
}

// Producer: the entry is filled.
static inline void bt_spsc_filled(struct bt_spsc_ends *q)
{
    uint32_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    atomic_store_explicit(&q->tail, tail + 1u, memory_order_release);
}

// Consumer: how many entries there are to take, from *at on (modulo the entries). Those that come meanwhile are seen
// when these are taken.
static inline uint32_t bt_spsc_waiting(struct bt_spsc_ends *q, uint32_t *at)
{
    uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    if (head == q->tail_seen) {
        q->tail_seen = atomic_load_explicit(&q->tail, memory_order_acquire);
    }
    *at = head & q->mask;
    return q->tail_seen - head;
}

// Consumer: n of them are read and may be filled again.
static inline void bt_spsc_taken(struct bt_spsc_ends *q, uint32_t n)
{
    uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    atomic_store_explicit(&q->head, head + n, memory_order_release);
}

// Either side: entries in the queue, as far as it can know.
static inline uint32_t bt_spsc_count(const struct bt_spsc_ends *q)
{
    uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    return atomic_load_explicit(&q->tail, memory_order_relaxed) - head;
}

#endif
