// SPDX-License-Identifier: Apache-2.0
// The agenda of virtual time: what happens next, in a total and repeatable order.
#ifndef BOBTAIL_SIM_EVENT_H
#define BOBTAIL_SIM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thing that will happen. Held by value: pushing allocates nothing once the arrays have grown. */
struct sim_event {
    uint64_t t;    /* virtual ns */
    void *ptr;     /* e.g. the packet that arrives */
    uint32_t node; /* index of the actor it happens to */
    uint16_t kind; /* meaning is the world's */
    uint16_t arg;
};

enum { SIM_AGENDA_BITS = 6, SIM_AGENDA_SLOTS = 1 << SIM_AGENDA_BITS, SIM_AGENDA_LEVELS = 11 };

struct sim_agenda_node; /* an event of the future, in a list of its slot */

/*
 * A radix queue for the future and a FIFO for "at this very instant". A future event lies at the level of the highest
 * 6-bit group in which its time differs from `now`, in the slot that group names, so that all of a lower level come
 * before any of a higher one. Lists keep the order of pushing, also when a slot is spread over lower levels, so equal
 * times are served in the order of pushing without comparing anything. Cost does not grow with the number of
 * events; zero-delay links put most packets into the FIFO.
 */
struct sim_agenda {
    uint64_t now;
    struct sim_event *fifo; /* ring, capacity a power of two */
    size_t fifo_head, fifo_n, fifo_cap;
    uint32_t levels;                         /* bit per level that has anything */
    uint32_t nodes_n, nodes_cap, nodes_free; /* used ever, allocated, first of the free list */
    size_t future_n;                         /* events in the slots */
    uint64_t at_once;                        /* the taker's: events it took since time moved */
    struct sim_agenda_node *node;
    uint64_t occupied[SIM_AGENDA_LEVELS];               /* bit per slot */
    uint32_t last[SIM_AGENDA_LEVELS][SIM_AGENDA_SLOTS]; /* newest node of a slot's ring; its next is the oldest */
};

void sim_agenda_init(struct sim_agenda *a);
void sim_agenda_free(struct sim_agenda *a);
/* The part of sim_agenda_take and sim_agenda_push that concerns the future. */
bool sim_agenda_forward(struct sim_agenda *a, uint64_t until, struct sim_event *out);
struct sim_event *sim_agenda_later(struct sim_agenda *a, uint64_t t);
void sim_agenda_fifo_grow(struct sim_agenda *a) __attribute__((noinline, cold));

static inline struct sim_event *sim_agenda_fifo_slot(struct sim_agenda *a)
{
    if (a->fifo_n == a->fifo_cap)
        sim_agenda_fifo_grow(a);
    return &a->fifo[(a->fifo_head + a->fifo_n++) & (a->fifo_cap - 1)];
}

/* Schedules ev.kind at time t; a time in the past means now. Sets t of the stored copy. */
static inline void sim_agenda_push(struct sim_agenda *a, uint64_t t, struct sim_event ev)
{
    t = t > a->now ? t : a->now;
    struct sim_event *slot = t > a->now ? sim_agenda_later(a, t) : sim_agenda_fifo_slot(a);
    slot->t = t; /* field by field, so that ev need not exist in memory */
    slot->ptr = ev.ptr;
    slot->node = ev.node;
    slot->kind = ev.kind;
    slot->arg = ev.arg;
}

/* Takes the earliest event that is due at `until` or before and moves `now` to it; false when there is none. */
static inline bool sim_agenda_take(struct sim_agenda *a, uint64_t until, struct sim_event *out)
{
    if (a->fifo_n == 0)
        return sim_agenda_forward(a, until, out);
    if (a->now > until)
        return false;
    *out = a->fifo[a->fifo_head];
    a->fifo_head = (a->fifo_head + 1) & (a->fifo_cap - 1);
    a->fifo_n--;
    return true;
}
size_t sim_agenda_count(const struct sim_agenda *a);

#endif
