// SPDX-License-Identifier: Apache-2.0
// See replica_diverge.h.
#include "replica_diverge.h"

enum { PLANTS = 3, APART = 30 };

static bool anybody_astray(const struct replica_world *w)
{
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        if (w->member[id].astray) {
            return true;
        }
    }
    return false;
}

/* One at a time: more than one is no minority. */
void replica_diverge_applied(struct replica_world *w, uint16_t id, uint64_t index)
{
    bool may = replica_diverges(w) && !w->calm && !w->spread && w->planted < PLANTS && index >= w->plant_at;
    if (!may || !replica_chance(w, 0.5 / w->rules.members) || anybody_astray(w)) {
        return;
    }
    w->member[id].state.chain ^= 1;
    w->member[id].astray = true;
    w->planted++;
    w->plant_at = index + APART;
    w->count.planted++;
}

void replica_diverge_restored(struct replica_world *w, uint16_t id, bool right)
{
    struct replica_member *m = &w->member[id];
    bool own = m->core == NULL && m->was_astray; /* what it wrote down itself before it ended */
    if (!right && !own && !w->spread) {          /* another's state, which that one gave away before it was found */
        w->spread = true;
        w->count.spread++;
    }
    m->astray = !right;
}

bool replica_diverge_over(const struct replica_world *w, const struct bt_replica_status *leader)
{
    if (!replica_diverges(w) || w->spread || leader->undecided != 0) {
        return true;
    }
    for (int i = 0; i < leader->config->count; i++) {
        const struct replica_member *m = &w->member[leader->config->member[i].id];
        if (m->astray || m->core == NULL || bt_replica_status(m->core).fenced.index != 0) {
            return false;
        }
    }
    return true;
}
