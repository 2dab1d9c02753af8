// SPDX-License-Identifier: Apache-2.0
// The agenda of virtual time: what happens next, in a total and repeatable order.
#ifndef BOBTAIL_SIM_EVENT_H
#define BOBTAIL_SIM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thing that will happen. Held by value: pushing allocates nothing once the arrays have grown. */
struct sim_event {
    void *ptr;     /* e.g. the packet that arrives */
    uint32_t node; /* index of the actor it happens to */
    uint16_t kind; /* meaning is the world's */
    uint16_t arg;
};

enum { SIM_AGENDA_BITS = 6, SIM_AGENDA_SLOTS = 1 << SIM_AGENDA_BITS, SIM_AGENDA_LEVELS = 11 };
enum { SIM_AGENDA_INSTANT_LIMIT = 300000 }; /* events at one instant: more, and time stands still */

struct sim_agenda_node; /* an event of the future, in a list of its slot */

/*
 * A radix queue for the future and a FIFO for "at this very instant". A future event lies at the level of the highest
 * 6-bit group in which its time differs from `now`, in the slot that group names, so that all of a lower level come
 * before any of a higher one. Lists keep the order of pushing, also when a slot is spread over lower levels, so equal
 * times are served in the order of pushing without comparing anything. Cost does not grow with the number of
 * events; zero-delay links put most packets into the FIFO, which therefore carries no times: they are all `now`.
 */
struct sim_agenda {
    uint64_t now;
    struct sim_event *fifo;      /* ring, its size a power of two */
    uint64_t head, tail;         /* taken from and put into it ever; where that is, the mask says */
    uint64_t full_at;            /* tail from which on it has to be looked whether there is room */
    uint32_t mask;               /* its size - 1 */
    uint32_t levels;             /* bit per level that has anything */
    uint64_t still_at;           /* head from which on this instant is too long a one */
    uint64_t alone;              /* events ever that had an instant for themselves when they were taken */
    uint32_t nodes_n, nodes_cap; /* used ever, allocated */
    uint32_t nodes_free;         /* first of the free list */
    struct sim_agenda_node *node;
    uint64_t occupied[SIM_AGENDA_LEVELS];               /* bit per slot */
    uint32_t last[SIM_AGENDA_LEVELS][SIM_AGENDA_SLOTS]; /* newest node of a slot's ring; its next is the oldest */
};

void sim_agenda_init(struct sim_agenda *a);
void sim_agenda_free(struct sim_agenda *a);
/* The parts of sim_agenda_next and sim_agenda_push that concern the future; what forward returns, the next push may
 * overwrite. */
const struct sim_event *sim_agenda_forward(struct sim_agenda *a, uint64_t until);
struct sim_event *sim_agenda_later(struct sim_agenda *a, uint64_t t);
void sim_agenda_fifo_room(struct sim_agenda *a) __attribute__((noinline, cold));

/* Where the next event of this instant is to be put. */
static inline struct sim_event *sim_agenda_at_once(struct sim_agenda *a)
{
    if (__builtin_expect(a->tail == a->full_at, 0)) {
        sim_agenda_fifo_room(a);
    }
    return &a->fifo[a->tail++ & a->mask];
}

/* Schedules ev at time t; a time in the past means now. */
static inline void sim_agenda_push(struct sim_agenda *a, uint64_t t, struct sim_event ev)
{
    *(t > a->now ? sim_agenda_later(a, t) : sim_agenda_at_once(a)) = ev;
}

/* Whether the next event is of this instant too. */
static inline bool sim_agenda_has_more_now(const struct sim_agenda *a)
{
    return a->head != a->tail;
}

/* Takes the earliest event that is due at `until` or before and moves `now` to it; false when there is none.
 * Precondition: it is not later than `until` already. */
static inline bool sim_agenda_next(struct sim_agenda *a, uint64_t until, struct sim_event *out)
{
    const struct sim_event *ev;
    if (sim_agenda_has_more_now(a)) {
        ev = &a->fifo[a->head++ & a->mask];
    } else {
        ev = sim_agenda_forward(a, until);
        if (ev == NULL) {
            return false;
        }
    }
    *out = *ev;
    return true;
}

/* The same at any time. */
static inline bool sim_agenda_take(struct sim_agenda *a, uint64_t until, struct sim_event *out)
{
    return a->now <= until && sim_agenda_next(a, until, out);
}

static inline bool sim_agenda_empty(const struct sim_agenda *a)
{
    return a->head == a->tail && a->levels == 0;
}

/* Events went by, and time did not. */
static inline bool sim_agenda_stands_still(const struct sim_agenda *a)
{
    return a->head > a->still_at;
}

/* Events taken ever. */
static inline uint64_t sim_agenda_taken(const struct sim_agenda *a)
{
    return a->head + a->alone;
}

#endif
