// SPDX-License-Identifier: Apache-2.0
// A member executes an entry wrongly, now and then: from there on its state is another one than the others' (mode
// diverge). It must be found, never answer for the group as its leader from then on, and come back to the group's
// state; and nobody whose state is right may be taken for it.
#ifndef BOBTAIL_SIM_REPLICA_DIVERGE_H
#define BOBTAIL_SIM_REPLICA_DIVERGE_H

#include "replica_world.h"

static inline bool replica_diverges(const struct replica_world *w)
{
    return w->mode == REPLICA_DIVERGE;
}

/* A member applied an entry that changes the state: rightly? */
void replica_diverge_applied(struct replica_world *w, uint16_t id, uint64_t index);

/* Its state is one that was written down; right: it is that of all. */
void replica_diverge_restored(struct replica_world *w, uint16_t id, bool right);

/* All members of this configuration have the group's state again, or it was reported that nobody can tell. */
bool replica_diverge_over(const struct replica_world *w, const struct bt_replica_status *leader);

#endif
