// SPDX-License-Identifier: Apache-2.0
// Buffers that know their holder, holders that know how many; LIFO free list, so a small run stays in cache.
#include "buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Blocks given back, kept for the next run of a sweep: fresh pages cost more than the run's own work. */
enum { KEPT_MAX = 64 };
static struct {
    void *p;
    size_t bytes;
} kept[KEPT_MAX];

static int fill = -1;

void sim_memory_fill(int byte)
{
    fill = byte;
}

static void *filled(void *p, size_t bytes)
{
    if (fill >= 0) {
        memset(p, fill, bytes < SIM_FILLED ? bytes : SIM_FILLED);
    }
    return p;
}

void *sim_memory(size_t bytes)
{
    bytes = bytes > 0 ? bytes : 1;
    for (int i = 0; i < KEPT_MAX; i++) {
        void *p = kept[i].p;
        if (p == NULL || kept[i].bytes != bytes) {
            continue;
        }
        kept[i].p = NULL;
        return filled(p, bytes);
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "bobtail-sim: out of memory for %zu bytes\n", bytes);
        abort();
    }
    return filled(p, bytes);
}

void sim_memory_free(void *p, size_t bytes)
{
    static unsigned turn;
    if (p == NULL) {
        return;
    }
    unsigned at = turn++ % KEPT_MAX;
    for (unsigned i = 0; i < KEPT_MAX && kept[at].p != NULL; i++) {
        at = turn++ % KEPT_MAX;
    }
    if (kept[at].p != NULL) {
        munmap(kept[at].p, kept[at].bytes);
    }
    kept[at].p = p;
    kept[at].bytes = bytes > 0 ? bytes : 1;
}

void *sim_zeroed(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (p == NULL) {
        abort();
    }
    return p;
}

static struct bt_pkt *holder_get(struct bt_pool *pool)
{
    struct sim_holder *h = (struct sim_holder *)(void *)pool;
    struct sim_buffers *all = h->all;
    struct sim_buffer *b = all->free;
    if (h->count >= h->limit) {
        return NULL;
    }
    if (b != NULL) {
        all->free = b->next;
    } else if (all->left > 0) { /* never used yet */
        b = &all->slab[all->count - all->left--];
    } else {
        return NULL;
    }
    memset(&b->pkt, 0, sizeof b->pkt);
    b->pkt.data = b->bytes + BT_PKT_HEADROOM;
    b->pkt.room_before = BT_PKT_HEADROOM;
    b->pkt.room_after = BT_PKT_BUFFER;
    b->pkt.owner = b;
    b->holder = h;
    h->count++;
    return &b->pkt;
}

static void holder_put(struct bt_pool *pool, struct bt_pkt *pkt)
{
    struct sim_buffers *all = ((struct sim_holder *)(void *)pool)->all;
    struct sim_buffer *b = pkt->owner;
    if (b->holder == NULL) {
        all->twice++;
        return;
    }
    b->holder->count--;
    b->holder = NULL;
    b->next = all->free;
    all->free = b;
}

void sim_buffers_init(struct sim_buffers *b, uint32_t count)
{
    memset(b, 0, sizeof *b);
    b->slab = sim_memory(count * sizeof *b->slab);
    b->count = b->left = count;
}

void sim_buffers_free(struct sim_buffers *b)
{
    sim_memory_free(b->slab, b->count * sizeof *b->slab);
}

void sim_holder_init(struct sim_holder *h, struct sim_buffers *b)
{
    memset(h, 0, sizeof *h);
    h->pool.get = holder_get;
    h->pool.put = holder_put;
    h->all = b;
    h->limit = UINT32_MAX;
}

uint32_t sim_holder_drop_all(struct sim_holder *h)
{
    struct sim_buffers *all = h->all;
    uint32_t n = h->count;
    for (uint32_t i = 0; h->count > 0 && i < all->count - all->left; i++) { /* crashes are rare: no lists for them */
        if (all->slab[i].holder == h) {
            holder_put(&h->pool, &all->slab[i].pkt);
        }
    }
    return n;
}
