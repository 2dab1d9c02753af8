// SPDX-License-Identifier: Apache-2.0
// See storage_queue.h.
#include "run/storage_queue.h"

#include <stdlib.h>
#include <string.h>

// Before each operation; op.kind counts only where `bytes` is not a gap at the end of the buffer.
struct slot {
    uint64_t bytes; // with this, a multiple of 64
    bool gap;
    struct bt_store_op op;
};

enum { UNIT = 64 };

bool bt_storage_queue_init(struct bt_storage_queue *q, uint64_t bytes)
{
    q->size = (bytes + UNIT - 1) / UNIT * UNIT;
    q->bytes = aligned_alloc(UNIT, q->size);
    atomic_init(&q->head, 0);
    atomic_init(&q->tail, 0);
    return q->bytes != NULL;
}

void bt_storage_queue_free(struct bt_storage_queue *q)
{
    free(q->bytes);
}

static uint64_t bytes_of(const struct bt_store_op *op)
{
    uint64_t n = sizeof(struct slot);
    if (op->kind == BT_STORE_APPEND) {
        n += op->append.count * (uint64_t)sizeof(struct bt_entry);
        for (uint32_t i = 0; i < op->append.count; i++) {
            n += op->append.entry[i].length;
        }
    }
    return (n + UNIT - 1) / UNIT * UNIT;
}

static void copy(struct slot *to, const struct bt_store_op *op)
{
    to->gap = false;
    to->op = *op;
    if (op->kind != BT_STORE_APPEND) {
        return;
    }
    struct bt_entry *entry = (struct bt_entry *)(void *)(to + 1);
    uint8_t *body = (uint8_t *)(entry + op->append.count);
    for (uint32_t i = 0; i < op->append.count; i++) {
        entry[i] = op->append.entry[i];
        entry[i].body = body;
        if (entry[i].length > 0) {
            memcpy(body, op->append.entry[i].body, entry[i].length);
        }
        body += entry[i].length;
    }
    to->op.append.entry = entry;
}

static struct slot *slot_at(struct bt_storage_queue *q, uint64_t at)
{
    return (struct slot *)(void *)(q->bytes + at % q->size);
}

bool bt_storage_queue_put(struct bt_storage_queue *q, const struct bt_store_op *op)
{
    uint64_t need = bytes_of(op), tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    uint64_t to_end = q->size - tail % q->size, gap = to_end < need ? to_end : 0;
    if (need > q->size || tail + gap + need - head > q->size) {
        return false;
    }
    if (gap > 0) { // too short for it: skipped, and at least a unit long, so that it can say so
        struct slot *skipped = slot_at(q, tail);
        skipped->bytes = gap;
        skipped->gap = true;
        tail += gap;
    }
    struct slot *s = slot_at(q, tail);
    copy(s, op);
    s->bytes = need;
    atomic_store_explicit(&q->tail, tail + need, memory_order_release);
    return true;
}

void bt_storage_queue_drop(struct bt_storage_queue *q)
{
    uint64_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    atomic_store_explicit(&q->head, head + slot_at(q, head)->bytes, memory_order_release);
}

const struct bt_store_op *bt_storage_queue_peek(struct bt_storage_queue *q)
{
    for (;;) {
        uint64_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
        if (head == atomic_load_explicit(&q->tail, memory_order_acquire)) {
            return NULL;
        }
        struct slot *s = slot_at(q, head);
        if (!s->gap) {
            return &s->op;
        }
        bt_storage_queue_drop(q);
    }
}
