// SPDX-License-Identifier: Apache-2.0
// The log in memory: a ring of entries after a base, which a snapshot covers, and a ring of their bodies. An
// entry is durable when the store has completed the generation that wrote it; one that replaces another has a later
// generation, so a completion of what was truncated says nothing about it.
#ifndef BT_REPLICA_LOG_H
#define BT_REPLICA_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/group.h"

#define REPLICA_LOG_RESERVED 64u // slots that a leader fills with nothing but entries of elections and memberships

struct replica_slot {
    uint64_t term, generation;
    uint32_t at, length; // of the body
    uint8_t kind;
};

struct replica_log {
    struct replica_slot *slot;
    uint8_t *bytes;
    uint32_t mask, room;
    uint32_t spare;           // bytes that a leader leaves free: another member's ring may be cut elsewhere
    uint64_t base, base_term; // the entry before the first one
    uint64_t last;            // base when there is none
    uint64_t durable;         // all up to it
};

// slot: slots of them, a power of two; bytes: room of them.
void replica_log_init(struct replica_log *l, struct replica_slot *slot, uint32_t slots, uint8_t *bytes, uint32_t room);

// Empty, after an entry that a durable snapshot covers.
void replica_log_reset(struct replica_log *l, uint64_t base, uint64_t base_term);

// Copies the body. False when it is full, then nothing changed. Takes the reserve, too: what one log holds, another one
// that begins no earlier must be able to hold, or a full group never commits again.
bool replica_log_append(struct replica_log *l, const struct bt_entry *e, uint64_t generation);

// May a leader add an entry of its own? Commands leave the reserve alone.
bool replica_log_fits(const struct replica_log *l, uint8_t kind, uint32_t length);

// Three quarters full: what a snapshot covers is dropped, and a snapshot is wanted.
bool replica_log_pressed(const struct replica_log *l);

// Entry `from` and those after it go. Precondition: from > base.
void replica_log_truncate(struct replica_log *l, uint64_t from);

// Entries up to `to` go. Precondition: to <= last.
void replica_log_compact(struct replica_log *l, uint64_t to);

// Everything up to this generation is durable; true when the durable end moved.
bool replica_log_settle(struct replica_log *l, uint64_t generation);

static inline const struct replica_slot *replica_log_at(const struct replica_log *l, uint64_t index)
{
    return &l->slot[index & l->mask];
}

// Term of an entry in [base, last]; 0 for any other.
static inline uint64_t replica_log_term(const struct replica_log *l, uint64_t index)
{
    if (index == l->base) {
        return l->base_term;
    }
    return index > l->base && index <= l->last ? replica_log_at(l, index)->term : 0;
}

// Precondition: base < index <= last.
struct bt_entry replica_log_entry(const struct replica_log *l, uint64_t index);

#endif
