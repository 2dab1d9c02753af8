// SPDX-License-Identifier: Apache-2.0
// A bump allocator over memory the caller gave: the core sizes itself with the
// same code it lays itself out with, and never calls malloc.
#ifndef BT_BASE_MEM_H
#define BT_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

struct bt_mem {
    uint8_t *base;  // NULL: only measure
    size_t size;    // bytes at base
    size_t used;    // bytes handed out, or wanted when measuring
    int overflowed; // a take did not fit
};

#define BT_MEM_ALIGN 64u

// base NULL starts a measuring run: takes return NULL and only `used` counts.
void bt_mem_init(struct bt_mem *m, void *base, size_t size);

// Zeroed bytes, aligned to BT_MEM_ALIGN relative to a 64-byte aligned base;
// NULL when measuring or when it does not fit (then overflowed is set).
void *bt_mem_take(struct bt_mem *m, size_t bytes);

#endif
