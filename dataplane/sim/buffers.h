// SPDX-License-Identifier: Apache-2.0
// Packet buffers with a holder each: a crash takes back exactly what the crashed node held, a
// leak names its node, and giving back twice is seen.
#ifndef BOBTAIL_SIM_BUFFERS_H
#define BOBTAIL_SIM_BUFFERS_H

#include "base/pkt.h"

struct sim_buffers;

/* A node's view of the buffers; nodes 0…n−1 hold packets, node n is the network. */
struct sim_holder {
    struct bt_pool pool; /* first, so that &h->pool is the interface */
    struct sim_buffers *all;
    uint32_t count; /* packets it holds */
    uint32_t limit; /* it may not take more */
};

struct sim_buffer {
    struct bt_pkt pkt;         /* first */
    struct sim_holder *holder; /* NULL: free */
    struct sim_buffer *next;   /* free list */
    uint8_t bytes[BT_PKT_HEADROOM + BT_PKT_BUFFER];
};

struct sim_buffers {
    struct sim_buffer *slab;
    struct sim_buffer *free;
    uint32_t count, left;
    uint32_t twice; /* packets given back that were free already */
};

/* count buffers in lazily touched memory. */
void sim_buffers_init(struct sim_buffers *b, uint32_t count);
void sim_buffers_free(struct sim_buffers *b);
void sim_holder_init(struct sim_holder *h, struct sim_buffers *b);
/* Moves a packet to another holder. */
static inline void sim_buffer_give(struct bt_pkt *p, struct sim_holder *to)
{
    struct sim_buffer *b = p->owner;
    if (b->holder == NULL) { /* sent after it was given back: the slab would hand it out twice */
        to->all->twice++;
        return;
    }
    b->holder->count--;
    b->holder = to;
    to->count++;
}
/* Frees everything a node holds and returns how many that were. */
uint32_t sim_holder_drop_all(struct sim_holder *h);

/* Page-aligned memory that costs nothing until touched, zeroed or used before; aborts when there is none. Freed blocks
 * are kept for the next run of the process. */
void *sim_memory(size_t bytes);
void sim_memory_free(void *p, size_t bytes);
/* Of the heap and zeroed; no simulation goes on without. */
void *sim_zeroed(size_t bytes);

/* For tests: from now on the first SIM_FILLED bytes of every block are filled with this byte before it is handed out,
 * so that a run which counts on what a block holds becomes another run. -1: as they come. */
enum { SIM_FILLED = 16 << 20 };
void sim_memory_fill(int byte);

#endif
