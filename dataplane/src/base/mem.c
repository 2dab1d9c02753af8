// SPDX-License-Identifier: Apache-2.0
// See mem.h.
#include "base/mem.h"

#include <string.h>

void bt_mem_init(struct bt_mem *m, void *base, size_t size)
{
    m->base = base;
    m->size = size;
    m->used = 0;
    m->overflowed = 0;
}

void *bt_mem_take(struct bt_mem *m, size_t bytes)
{
    size_t rounded = (bytes + BT_MEM_ALIGN - 1) & ~(size_t)(BT_MEM_ALIGN - 1);
    if (rounded < bytes || m->used + rounded < m->used) {
        m->overflowed = 1;
        return NULL;
    }
    size_t at = m->used;
    m->used += rounded;
    if (!m->base) {
        return NULL;
    }
    if (m->used > m->size) {
        m->overflowed = 1;
        return NULL;
    }
    return memset(m->base + at, 0, rounded);
}
