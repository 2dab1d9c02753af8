// SPDX-License-Identifier: Apache-2.0
// A member reckons the hash of bodies wrongly for a while (mode lacking): what it orders then fits no body of the
// others', and no body fits what others order. Whoever lacks a body for good must ask ever less, and the group must go
// on: by another leader, or by the leader's state.
#ifndef BOBTAIL_SIM_REPLICA_LACKING_H
#define BOBTAIL_SIM_REPLICA_LACKING_H

#include "replica_world.h"

static inline bool replica_lacks(const struct replica_world *w)
{
    return w->mode == REPLICA_LACKING;
}

/* Before each input of a member that runs. */
void replica_lacking_input(struct replica_world *w, uint16_t id);

/* It starts, with the right key. */
void replica_lacking_started(struct replica_world *w, uint16_t id);

#endif
