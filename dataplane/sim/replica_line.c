// SPDX-License-Identifier: Apache-2.0
// See replica_line.h.
#include "replica_line.h"

#include "replica_apart.h"

/* One request after the other: by way of an aggregator it waits for the sync under way and for its own, at the leader
 * and then at a follower, and for four messages. */
static uint64_t turn_ns(const struct replica_rules *r)
{
    return 4 * (r->sync_ns + r->delay_ns + r->spread_ns);
}

uint64_t replica_line_ns(const struct replica_world *w)
{
    const struct replica_rules *r = &w->rules;
    if (!replica_is_apart(w)) {
        return 0;
    }
    uint64_t turns = (r->clients + r->apart.bound - 1) / r->apart.bound;
    return turns * turn_ns(r);
}

bool replica_line_forgets(const struct replica_world *w)
{
    return replica_is_apart(w) && w->rules.apart.keep_ns < replica_line_ns(w);
}
