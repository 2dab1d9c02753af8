// SPDX-License-Identifier: Apache-2.0
// Agenda of virtual time: radix queue plus a same-instant FIFO, both growing by doubling.
#include "event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 1024, SLOT_MASK = SIM_AGENDA_SLOTS - 1 };

struct sim_agenda_node {
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
    a->fifo_cap = a->nodes_cap = FIRST_CAP;
    a->nodes_free = UINT32_MAX;
    a->fifo = grow(NULL, a->fifo_cap, sizeof *a->fifo);
    a->node = grow(NULL, a->nodes_cap, sizeof *a->node);
}

void sim_agenda_free(struct sim_agenda *a)
{
    free(a->fifo);
    free(a->node);
    memset(a, 0, sizeof *a);
}

void sim_agenda_fifo_grow(struct sim_agenda *a)
{
    size_t cap = a->fifo_cap * 2;
    struct sim_event *ring = grow(NULL, cap, sizeof *ring);
    for (size_t i = 0; i < a->fifo_n; i++) {
        ring[i] = a->fifo[(a->fifo_head + i) & (a->fifo_cap - 1)];
    }
    free(a->fifo);
    a->fifo = ring;
    a->fifo_cap = cap;
    a->fifo_head = 0;
}

static uint32_t new_node(struct sim_agenda *a)
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
static inline void place(struct sim_agenda *a, uint32_t i)
{
    struct sim_agenda_node *n = &a->node[i];
    unsigned level = (63u - (unsigned)__builtin_clzll(n->ev.t ^ a->now)) / SIM_AGENDA_BITS;
    unsigned slot = (unsigned)(n->ev.t >> (level * SIM_AGENDA_BITS)) & SLOT_MASK;
    uint32_t *last = &a->last[level][slot];
    if ((a->occupied[level] >> slot & 1) != 0) {
        n->next = a->node[*last].next;
        a->node[*last].next = i;
    } else {
        n->next = i;
        a->occupied[level] |= 1ULL << slot;
        a->levels |= 1u << level;
    }
    *last = i;
}

struct sim_event *sim_agenda_later(struct sim_agenda *a, uint64_t t)
{
    uint32_t i = new_node(a);
    a->node[i].ev.t = t;
    a->future_n++;
    place(a, i);
    return &a->node[i].ev;
}

/* Moves `now` to the earliest of the slot. What is due then goes to the FIFO, the rest down to lower levels. */
__attribute__((noinline)) static bool spread(struct sim_agenda *a, uint32_t last, uint64_t until)
{
    uint32_t first = a->node[last].next, i = first, next;
    uint64_t soonest = UINT64_MAX;
    do {
        soonest = a->node[i].ev.t < soonest ? a->node[i].ev.t : soonest;
        i = a->node[i].next;
    } while (i != first);
    if (soonest > until)
        return false;
    a->now = soonest;
    a->at_once = 0;
    unsigned level = (unsigned)__builtin_ctz(a->levels);
    a->occupied[level] &= a->occupied[level] - 1;
    if (a->occupied[level] == 0)
        a->levels &= a->levels - 1;
    bool more = true;
    for (i = first; more; i = next) {
        more = i != last;
        next = a->node[i].next;
        if (a->node[i].ev.t > soonest) {
            place(a, i);
            continue;
        }
        *sim_agenda_fifo_slot(a) = a->node[i].ev;
        free_node(a, i);
        a->future_n--;
    }
    return true;
}

bool sim_agenda_forward(struct sim_agenda *a, uint64_t until, struct sim_event *out)
{
    if (a->levels == 0)
        return false;
    unsigned level = (unsigned)__builtin_ctz(a->levels);
    unsigned slot = (unsigned)__builtin_ctzll(a->occupied[level]);
    uint32_t i = a->last[level][slot];
    if (a->node[i].next != i) {
        return spread(a, i, until) && sim_agenda_take(a, until, out);
    }
    if (a->node[i].ev.t > until)
        return false;
    *out = a->node[i].ev;
    a->now = out->t;
    a->at_once = 0;
    a->occupied[level] &= a->occupied[level] - 1;
    if (a->occupied[level] == 0)
        a->levels &= a->levels - 1;
    free_node(a, i);
    a->future_n--;
    return true;
}

size_t sim_agenda_count(const struct sim_agenda *a)
{
    return a->future_n + a->fifo_n;
}
