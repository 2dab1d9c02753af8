// SPDX-License-Identifier: Apache-2.0
// Replication apart from ordering (HovercRaft): every member gets the requests by itself; the leader orders them by
// their metadata and names who answers; a member that lacks a body asks for it.
#ifndef BT_REPLICA_APART_H
#define BT_REPLICA_APART_H

#include "replica/state.h"

static inline bool replica_apart(const struct bt_replica *r)
{
    return r->conf.apart.kept_requests > 0;
}

// This body is that of its metadata, as far as the key is known.
bool replica_body_right(const struct bt_replica *r, const uint8_t *body, const struct bt_group_meta *m);

size_t replica_apart_bytes(const struct bt_replica_config *c);
void replica_apart_init(struct bt_replica *r, void *mem);

// The time is known, or the state became another one's: pairs before it are not known.
void replica_apart_begin(struct bt_replica *r);

// These entries are in the log: their requests wait no more.
void replica_apart_ordered(struct bt_replica *r, const struct bt_entry *entry, uint32_t count);

// Entries from `from` on are about to leave the log: their requests wait again.
void replica_apart_taken_back(struct bt_replica *r, uint64_t from);

// Orders what waits, as far as somebody may answer it.
void replica_announce(struct bt_replica *r);

// Puts the body behind metadata that came without. False when it is not here.
bool replica_apart_resolve(struct bt_replica *r, struct bt_entry *e);

// As a message carries it to a member: without its body unless that may be gone elsewhere.
struct bt_entry replica_apart_shown(const struct bt_replica *r, struct bt_entry e);

/* recover.c */
void replica_lack(struct bt_replica *r, const struct bt_group_append *a, uint32_t from);
void replica_lack_nothing(struct bt_replica *r);
void replica_lack_tick(struct bt_replica *r);
void replica_recovery_asked(struct bt_replica *r, const struct bt_group_message *m);
void replica_recovery_answered(struct bt_replica *r, const struct bt_group_message *m);
void replica_lack_found(struct bt_replica *r, const struct bt_group_meta *m);

/* replier.c */
// Who answers the next entry: a member with fewer than the bound to execute, or 0.
uint16_t replica_replier(struct bt_replica *r);

#endif
