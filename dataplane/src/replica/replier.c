// SPDX-License-Identifier: Apache-2.0
// Who answers a request. How much a member has to execute follows from indices alone: a new leader
// counts afresh, and a member that is not heard of keeps what it had.
#include "replica/apart.h"
#include "replica/states.h"

static uint32_t counts_for(const struct bt_replica *r, uint64_t index, uint16_t id)
{
    struct bt_entry e = replica_log_entry(&r->log, index);
    bool reads = e.kind == BT_ENTRY_READ && bt_group_meta_get(e.body).replier == id;
    return e.kind == BT_ENTRY_WRITE || reads ? 1 : 0;
}

// Brings the depth of member i up to what it applied and what the log holds.
static uint32_t depth(struct bt_replica *r, int i)
{
    struct replica_peer *p = &r->peer[i];
    uint16_t id = r->config.member[i].id;
    uint64_t applied = id == r->conf.id ? r->applied : p->applied;
    uint64_t from = applied > r->log.base ? applied : r->log.base;
    if (from < p->depth_from || r->log.base > p->depth_from || r->log.last < p->depth_to || from > p->depth_to) {
        p->depth = 0;
        p->depth_from = p->depth_to = from;
    }
    while (p->depth_to < r->log.last) {
        p->depth += counts_for(r, ++p->depth_to, id);
    }
    while (p->depth_from < from) {
        p->depth -= counts_for(r, ++p->depth_from, id);
    }
    return p->depth;
}

// Does this member take the place of the best so far?
static bool better(struct bt_replica *r, uint32_t d, uint32_t least, uint32_t able)
{
    return r->conf.apart.repliers == BT_REPLICA_RANDOM ? bt_rng_below(&r->rng, able) == 0 : d < least;
}

uint16_t replica_replier(struct bt_replica *r)
{
    uint32_t least = UINT32_MAX, able = 0;
    int best = -1, n = r->config.count;
    for (int k = 1; k <= n; k++) {
        int i = (r->replied_last + k) % n; // ties rotate
        uint32_t d = depth(r, i);
        bool may = r->config.member[i].role == BT_GROUP_VOTER && replica_states_differs(&r->peer[i]) == 0 &&
                   d < r->conf.apart.bound;
        if (may && better(r, d, least, ++able)) {
            best = i;
            least = d;
        }
    }
    if (best < 0) {
        return 0;
    }
    r->replied_last = best;
    return r->config.member[best].id;
}
