// SPDX-License-Identifier: Apache-2.0
// Agenda of virtual time: radix queue plus a same-instant FIFO, both growing by doubling.
#include "event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 1024, SLOT_MASK = SIM_AGENDA_SLOTS - 1 };

struct sim_agenda_node {
    uint64_t t;
    struct sim_event ev;
    uint32_t next; /* ring of its slot, or the free list */
};

static void *grow(void *p, size_t n, size_t size)
{
    void *q = realloc(p, n * size);
    if (q == NULL) {
        fprintf(stderr, "bobtail-sim: out of memory for %zu pending events\n", n);
        abort();
    }
    return q;
}

void sim_agenda_init(struct sim_agenda *a)
{
    memset(a, 0, sizeof *a);
    a->nodes_cap = FIRST_CAP;
    a->mask = FIRST_CAP - 1;
    a->full_at = FIRST_CAP;
    a->nodes_free = UINT32_MAX;
    a->still_at = SIM_AGENDA_INSTANT_LIMIT;
    a->fifo = grow(NULL, FIRST_CAP, sizeof *a->fifo);
    a->node = grow(NULL, a->nodes_cap, sizeof *a->node);
}

void sim_agenda_free(struct sim_agenda *a)
{
    free(a->fifo);
    free(a->node);
    memset(a, 0, sizeof *a);
}

static void fifo_grow(struct sim_agenda *a)
{
    uint32_t mask = a->mask * 2 + 1;
    struct sim_event *ring = grow(NULL, (size_t)mask + 1, sizeof *ring);
    for (uint64_t i = a->head; i != a->tail; i++) {
        ring[i & mask] = a->fifo[i & a->mask];
    }
    free(a->fifo);
    a->fifo = ring;
    a->mask = mask;
}

void sim_agenda_fifo_room(struct sim_agenda *a)
{
    if (a->tail - a->head > a->mask) {
        fifo_grow(a);
    }
    a->full_at = a->head + a->mask + 1;
}

static inline uint32_t new_node(struct sim_agenda *a)
{
    uint32_t i = a->nodes_free;
    if (i != UINT32_MAX) {
        a->nodes_free = a->node[i].next;
        return i;
    }
    if (a->nodes_n == a->nodes_cap) {
        a->nodes_cap *= 2;
        a->node = grow(a->node, a->nodes_cap, sizeof *a->node);
    }
    return a->nodes_n++;
}

static inline void free_node(struct sim_agenda *a, uint32_t i)
{
    a->node[i].next = a->nodes_free;
    a->nodes_free = i;
}

/* Behind everything of its slot. Precondition: the event is later than now. */
static inline void place(struct sim_agenda *a, struct sim_agenda_node *n, uint32_t i)
{
    static const uint8_t level_of[64] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2,  2,  3,  3, 3, 3,
                                         3, 3, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 6, 6, 6,  6,  6,  6, 7, 7,
                                         7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9, 10, 10, 10, 10};
    uint32_t level = level_of[63 - __builtin_clzll(n->t ^ a->now)];
    uint32_t slot = (uint32_t)(n->t >> (level * SIM_AGENDA_BITS)) & SLOT_MASK;
    uint32_t *last = &a->last[level][slot];
    uint64_t before = a->occupied[level], bit = UINT64_C(1) << slot;
    if ((before & bit) != 0) {
        n->next = a->node[*last].next;
        a->node[*last].next = i;
    } else {
        n->next = i;
        a->occupied[level] = before | bit;
        a->levels |= 1u << level;
    }
    *last = i;
}

struct sim_event *sim_agenda_later(struct sim_agenda *a, uint64_t t)
{
    uint32_t i = new_node(a);
    struct sim_agenda_node *n = &a->node[i];
    n->t = t;
    place(a, n, i);
    return &n->ev;
}

static inline void move_to(struct sim_agenda *a, uint64_t t)
{
    a->now = t;
    a->still_at = a->head + SIM_AGENDA_INSTANT_LIMIT;
}

/* The first slot of the lowest level has nothing any more. */
static inline void close_slot(struct sim_agenda *a, uint32_t level)
{
    a->occupied[level] &= a->occupied[level] - 1;
    if (a->occupied[level] == 0) {
        a->levels &= a->levels - 1;
    }
}

/* Moves `now` to the earliest of the slot. What is due then goes to the FIFO, the rest down to lower levels. */
__attribute__((noinline)) static const struct sim_event *spread(struct sim_agenda *a, uint32_t last, uint64_t until)
{
    struct sim_agenda_node *node = a->node;
    uint32_t first = node[last].next, i = first, next;
    uint64_t soonest = UINT64_MAX;
    do {
        soonest = node[i].t < soonest ? node[i].t : soonest;
        i = node[i].next;
    } while (i != first);
    if (soonest > until) {
        return NULL;
    }
    move_to(a, soonest);
    close_slot(a, (uint32_t)__builtin_ctz(a->levels));
    bool more = true;
    for (i = first; more; i = next) {
        more = i != last;
        next = node[i].next;
        if (node[i].t > soonest) {
            place(a, &node[i], i);
            continue;
        }
        *sim_agenda_at_once(a) = node[i].ev;
        free_node(a, i);
    }
    return &a->fifo[a->head++ & a->mask];
}

const struct sim_event *sim_agenda_forward(struct sim_agenda *a, uint64_t until)
{
    if (a->levels == 0) {
        return NULL;
    }
    uint32_t level = (uint32_t)__builtin_ctz(a->levels);
    uint32_t slot = (uint32_t)__builtin_ctzll(a->occupied[level]);
    uint32_t i = a->last[level][slot];
    struct sim_agenda_node *n = &a->node[i];
    if (n->next != i) {
        return spread(a, i, until);
    }
    if (n->t > until) {
        return NULL;
    }
    move_to(a, n->t);
    close_slot(a, level);
    free_node(a, i);
    a->alone++;
    return &n->ev;
}
