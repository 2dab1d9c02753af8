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
    uint64_t seq;  /* order of pushing; breaks ties, so equal times never depend on heap shape */
    void *ptr;     /* e.g. the packet that arrives */
    uint32_t node; /* index of the actor it happens to */
    uint16_t kind; /* meaning is the world's */
    uint16_t arg;
};

/*
 * A 4-ary heap for the future and a FIFO for "at this very instant". Zero-delay links put
 * most packets into the FIFO, which costs a store and a load instead of a sift.
 */
struct sim_agenda {
    uint64_t now;
    uint64_t next_seq;
    struct sim_event *heap;
    size_t heap_n, heap_cap;
    struct sim_event *fifo; /* ring, capacity a power of two */
    size_t fifo_head, fifo_n, fifo_cap;
};

void sim_agenda_init(struct sim_agenda *a);
void sim_agenda_free(struct sim_agenda *a);
/* Schedules ev.kind at time t; a time in the past means now. Sets t and seq of the stored copy. */
void sim_agenda_push(struct sim_agenda *a, uint64_t t, struct sim_event ev);
/* Takes the earliest event and moves `now` to it; false when nothing is left. */
bool sim_agenda_pop(struct sim_agenda *a, struct sim_event *out);
/* Time of the earliest event, UINT64_MAX when there is none. */
uint64_t sim_agenda_next(const struct sim_agenda *a);
size_t sim_agenda_count(const struct sim_agenda *a);

#endif
