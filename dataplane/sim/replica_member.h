// SPDX-License-Identifier: Apache-2.0
// A member's life: it starts from its disk, takes what happens to it, applies what is committed, and crashes.
#ifndef BOBTAIL_SIM_REPLICA_MEMBER_H
#define BOBTAIL_SIM_REPLICA_MEMBER_H

#include "replica_world.h"

/* A new disk; the first configuration, or none where it is to join. */
void replica_member_make(struct replica_world *w, uint16_t id, const struct bt_group_config *first);
void replica_member_start(struct replica_world *w, uint16_t id);
void replica_member_crash(struct replica_world *w, uint16_t id);
void replica_member_free(struct replica_world *w, uint16_t id);

static inline bool replica_member_up(const struct replica_world *w, uint16_t id)
{
    return w->member[id].core != NULL;
}

/* Events of a member; one that comes while it is paused comes again. */
void replica_member_event(struct replica_world *w, const struct sim_event *ev);

/* A client's write arrives. */
void replica_member_request(struct replica_world *w, uint16_t id, uint32_t client, uint64_t op);

/* What an administrator may ask of a leader. */
enum bt_replica_result replica_member_transfer(struct replica_world *w, uint16_t id, uint16_t to);
enum bt_replica_result replica_member_change(struct replica_world *w, uint16_t id, enum bt_replica_change change,
                                             uint16_t of);

/* The leader of the highest term that is up; 0: none. */
uint16_t replica_leader(const struct replica_world *w);

#endif
