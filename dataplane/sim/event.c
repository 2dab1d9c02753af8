// SPDX-License-Identifier: Apache-2.0
// Agenda of virtual time: 4-ary heap plus a same-instant FIFO, both growing by doubling.
#include "event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 1024, ARITY = 4 };

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
    a->heap_cap = a->fifo_cap = FIRST_CAP;
    a->heap = grow(NULL, a->heap_cap, sizeof *a->heap);
    a->fifo = grow(NULL, a->fifo_cap, sizeof *a->fifo);
}

void sim_agenda_free(struct sim_agenda *a)
{
    free(a->heap);
    free(a->fifo);
    memset(a, 0, sizeof *a);
}

static inline bool earlier(const struct sim_event *x, const struct sim_event *y)
{
    return x->t != y->t ? x->t < y->t : x->seq < y->seq;
}

static void fifo_grow(struct sim_agenda *a)
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

void sim_agenda_push(struct sim_agenda *a, uint64_t t, struct sim_event ev)
{
    ev.seq = a->next_seq++;
    if (t <= a->now) {
        ev.t = a->now;
        if (a->fifo_n == a->fifo_cap)
            fifo_grow(a);
        a->fifo[(a->fifo_head + a->fifo_n++) & (a->fifo_cap - 1)] = ev;
        return;
    }
    ev.t = t;
    if (a->heap_n == a->heap_cap) {
        a->heap_cap *= 2;
        a->heap = grow(a->heap, a->heap_cap, sizeof *a->heap);
    }
    size_t i = a->heap_n++;
    while (i > 0) {
        size_t parent = (i - 1) / ARITY;
        if (!earlier(&ev, &a->heap[parent]))
            break;
        a->heap[i] = a->heap[parent];
        i = parent;
    }
    a->heap[i] = ev;
}

static void heap_take(struct sim_agenda *a, struct sim_event *out)
{
    *out = a->heap[0];
    struct sim_event last = a->heap[--a->heap_n];
    size_t i = 0;
    for (;;) {
        size_t child = i * ARITY + 1;
        if (child >= a->heap_n)
            break;
        size_t end = child + ARITY < a->heap_n ? child + ARITY : a->heap_n;
        size_t best = child;
        for (size_t c = child + 1; c < end; c++) {
            if (earlier(&a->heap[c], &a->heap[best]))
                best = c;
        }
        if (!earlier(&a->heap[best], &last))
            break;
        a->heap[i] = a->heap[best];
        i = best;
    }
    a->heap[i] = last;
}

bool sim_agenda_pop(struct sim_agenda *a, struct sim_event *out)
{
    const struct sim_event *f = a->fifo_n > 0 ? &a->fifo[a->fifo_head] : NULL;
    if (f != NULL && (a->heap_n == 0 || earlier(f, &a->heap[0]))) {
        *out = *f;
        a->fifo_head = (a->fifo_head + 1) & (a->fifo_cap - 1);
        a->fifo_n--;
    } else if (a->heap_n > 0) {
        heap_take(a, out);
    } else {
        return false;
    }
    a->now = out->t;
    return true;
}

uint64_t sim_agenda_next(const struct sim_agenda *a)
{
    if (a->fifo_n > 0)
        return a->fifo[a->fifo_head].t;
    return a->heap_n > 0 ? a->heap[0].t : UINT64_MAX;
}

size_t sim_agenda_count(const struct sim_agenda *a)
{
    return a->heap_n + a->fifo_n;
}
