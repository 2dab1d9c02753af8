// SPDX-License-Identifier: Apache-2.0
// See pool.h.
#include "shell/pool.h"

#include <sys/mman.h>

void *bt_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}

static struct bt_pkt *mapped_get(struct bt_pool *pool)
{
    struct bt_pool_mapped *m = (struct bt_pool_mapped *)(void *)pool;
    struct bt_pkt *p = m->free;
    if (p != NULL) {
        m->free = p->next;
    } else if (m->fresh < m->count) {
        p = &m->meta[m->fresh++];
    } else {
        return NULL;
    }
    size_t index = (size_t)(p - m->meta);
    *p = (struct bt_pkt){.data = m->buffers + index * BT_PKT_BUFFER + BT_PKT_HEADROOM,
                         .room_before = BT_PKT_HEADROOM,
                         .room_after = BT_PKT_BUFFER - BT_PKT_HEADROOM,
                         .owner = m};
    m->in_use++;
    return p;
}

static void mapped_put(struct bt_pool *pool, struct bt_pkt *p)
{
    struct bt_pool_mapped *m = (struct bt_pool_mapped *)(void *)pool;
    p->next = m->free;
    m->free = p;
    m->in_use--;
}

bool bt_pool_mapped_open(struct bt_pool_mapped *m, uint32_t count)
{
    size_t meta = ((size_t)count * sizeof(struct bt_pkt) + 4095) & ~(size_t)4095;
    *m = (struct bt_pool_mapped){.pool = {.get = mapped_get, .put = mapped_put}, .count = count};
    m->bytes = meta + (size_t)count * BT_PKT_BUFFER;
    m->meta = bt_map(m->bytes);
    m->buffers = (uint8_t *)m->meta + meta;
    return m->meta != NULL;
}

void bt_pool_mapped_close(struct bt_pool_mapped *m)
{
    if (m->meta != NULL) {
        munmap(m->meta, m->bytes);
        m->meta = NULL;
    }
}
