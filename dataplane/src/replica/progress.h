// SPDX-License-Identifier: Apache-2.0
// What the leader sends to a member: entries it lacks, at most `pipeline` messages at once, or chunks of the
// snapshot when the log no longer has them.
#ifndef BT_REPLICA_PROGRESS_H
#define BT_REPLICA_PROGRESS_H

#include "replica/state.h"

// The longest body that a message of this group carries.
uint32_t replica_body_most(const struct bt_replica *r);

// Entries of the log from `next` to `last`, as many as a message carries; returns how many.
uint32_t replica_fill(struct bt_replica *r, struct bt_group_append *a, uint64_t next, uint64_t last);

// A new leader knows nothing of anybody.
void replica_progress_begin(struct bt_replica *r);

// Entries that member i lacks, as many messages as may be under way. `even_empty`: at least one message, which says how
// far the commit is and that there is a leader.
void replica_feed(struct bt_replica *r, int i, bool even_empty);
void replica_feed_all(struct bt_replica *r, bool even_empty);

// Member i holds all up to `match`.
void replica_progress_match(struct bt_replica *r, int i, uint64_t match);

// Member i lacks the entry at `refused`; it may have those up to `last`.
void replica_progress_refused(struct bt_replica *r, int i, uint64_t refused, uint64_t last);

// Member i is to take the current snapshot, whatever it holds.
void replica_progress_replace(struct bt_replica *r, int i);

// Member i wants this byte of the snapshot next.
void replica_progress_chunk(struct bt_replica *r, int i, uint64_t offset);

// A member is being given the current snapshot, and took a chunk of it not long ago.
bool replica_progress_giving(const struct bt_replica *r);

#endif
