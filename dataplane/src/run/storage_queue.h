// SPDX-License-Identifier: Apache-2.0
// A bounded queue of operations as bytes between one thread that gives and one that takes. Each lies in one piece; what
// it points to is copied behind it, but for a snapshot's bytes.
#ifndef BT_RUN_STORAGE_QUEUE_H
#define BT_RUN_STORAGE_QUEUE_H

#include "replica/entry.h"

#include <stdatomic.h>
#include <stdbool.h>

struct bt_storage_queue {
    uint8_t *bytes;
    uint64_t size;                      // a multiple of 64
    _Alignas(64) _Atomic uint64_t head; // taken up to here; of the taker
    _Alignas(64) _Atomic uint64_t tail; // given up to here; of the giver
};

bool bt_storage_queue_init(struct bt_storage_queue *q, uint64_t bytes);
void bt_storage_queue_free(struct bt_storage_queue *q);

// Giver. False when there is no room.
bool bt_storage_queue_put(struct bt_storage_queue *q, const struct bt_store_op *op);

// Taker: the oldest operation, where it lies; NULL: none. It stays until bt_storage_queue_drop.
const struct bt_store_op *bt_storage_queue_peek(struct bt_storage_queue *q);
void bt_storage_queue_drop(struct bt_storage_queue *q);

#endif
