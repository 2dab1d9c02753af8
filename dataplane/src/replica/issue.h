// SPDX-License-Identifier: Apache-2.0
// Operations for the store, in order, each with its generation.
#ifndef BT_REPLICA_ISSUE_H
#define BT_REPLICA_ISSUE_H

#include "replica/state.h"

// The generation that the next operation will have.
static inline uint64_t replica_next_generation(const struct bt_replica *r)
{
    return r->issued + 1;
}

// Entries that the log already holds under replica_next_generation.
void replica_store_append(struct bt_replica *r, const struct bt_entry *entry, uint32_t count);

// Takes entries out of log and store.
void replica_store_truncate(struct bt_replica *r, uint64_t from);
void replica_store_hard_state(struct bt_replica *r);
void replica_store_snapshot(struct bt_replica *r, const struct bt_snapshot *s);
void replica_store_compact(struct bt_replica *r, uint64_t to);

// An entry of the leader's own term, into log and store; false when it does not fit.
bool replica_store_own(struct bt_replica *r, uint8_t kind, const uint8_t *body, uint32_t n);

#endif
