// SPDX-License-Identifier: Apache-2.0
// The preallocated packet pool: metadata array in front, buffers behind, so
// that a walk of metadata does not drag payload into the cache.
#include "base/pkt.h"

#include <string.h>

void bt_pool_put_chain(struct bt_pool *pool, struct bt_pkt *head)
{
    while (head) {
        struct bt_pkt *next = head->next;
        head->next = NULL;
        bt_pool_put(pool, head);
        head = next;
    }
}

static struct bt_pool_fixed *fixed_of(struct bt_pool *pool)
{
    return (struct bt_pool_fixed *)(void *)pool;
}

static struct bt_pkt *fixed_get(struct bt_pool *pool)
{
    struct bt_pool_fixed *f = fixed_of(pool);
    struct bt_pkt *pkt = f->free;
    if (!pkt) {
        return NULL;
    }
    f->free = pkt->next;
    f->left--;
    struct bt_pkt *base = (struct bt_pkt *)(void *)f->slab;
    uint8_t *buffers = f->slab + (size_t)f->count * sizeof(struct bt_pkt);
    size_t i = (size_t)(pkt - base);
    memset(pkt, 0, sizeof *pkt);
    pkt->data = buffers + i * BT_PKT_BUFFER + BT_PKT_HEADROOM;
    pkt->room_before = BT_PKT_HEADROOM;
    pkt->room_after = BT_PKT_BUFFER - BT_PKT_HEADROOM;
    pkt->owner = f;
    return pkt;
}

static void fixed_put(struct bt_pool *pool, struct bt_pkt *pkt)
{
    struct bt_pool_fixed *f = fixed_of(pool);
    pkt->next = f->free;
    f->free = pkt;
    f->left++;
}

size_t bt_pool_fixed_bytes(uint32_t count)
{
    return (size_t)count * (sizeof(struct bt_pkt) + BT_PKT_BUFFER);
}

struct bt_pool *bt_pool_fixed_init(struct bt_pool_fixed *f, void *mem, uint32_t count)
{
    memset(f, 0, sizeof *f);
    memset(mem, 0, (size_t)count * sizeof(struct bt_pkt));
    f->slab = mem;
    f->count = count;
    f->pool.get = fixed_get;
    f->pool.put = fixed_put;
    struct bt_pkt *base = mem;
    for (uint32_t i = count; i-- > 0;) {
        fixed_put(&f->pool, &base[i]);
    }
    return &f->pool;
}
