// SPDX-License-Identifier: Apache-2.0
// Buffers on doubly linked holder lists; LIFO free list, so a small run stays in cache.
#include "buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *sim_memory(size_t bytes)
{
    void *p =
        mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "bobtail-sim: out of memory for %zu bytes\n", bytes);
        abort();
    }
    return p;
}

void sim_memory_free(void *p, size_t bytes)
{
    if (p != NULL)
        munmap(p, bytes > 0 ? bytes : 1);
}

static void link_to(struct sim_buffer *b, struct sim_holder *h)
{
    b->holder = h;
    b->prev = NULL;
    b->next = h->held;
    if (h->held != NULL)
        h->held->prev = b;
    h->held = b;
    h->count++;
}

static void unlink_from(struct sim_buffer *b)
{
    struct sim_holder *h = b->holder;
    if (b->prev != NULL) {
        b->prev->next = b->next;
    } else {
        h->held = b->next;
    }
    if (b->next != NULL)
        b->next->prev = b->prev;
    h->count--;
    b->holder = NULL;
}

static struct bt_pkt *holder_get(struct bt_pool *pool)
{
    struct sim_holder *h = (struct sim_holder *)(void *)pool;
    struct sim_buffers *all = h->all;
    struct sim_buffer *b = all->free;
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
    link_to(b, h);
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
    unlink_from(b);
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
}

void sim_buffer_give(struct bt_pkt *p, struct sim_holder *to)
{
    struct sim_buffer *b = p->owner;
    if (b->holder == to)
        return;
    if (b->holder == NULL) { /* sent after it was given back: the slab would hand it out twice */
        to->all->twice++;
        return;
    }
    unlink_from(b);
    link_to(b, to);
}

uint32_t sim_holder_drop_all(struct sim_holder *h)
{
    uint32_t n = h->count;
    while (h->held != NULL)
        holder_put(&h->pool, &h->held->pkt);
    return n;
}
