// SPDX-License-Identifier: Apache-2.0
// See bodyless.h.
#include "replica/bodyless.h"

#include "replica/apart.h"
#include "replica/members.h"
#include "replica/progress.h"
#include "replica/role.h"
#include "replica/transfer.h"

void replica_bodyless_told(struct bt_replica *r, int i, uint64_t last)
{
    if (!replica_apart(r) || last >= r->log.last) {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
        return;
    }
    r->peer[i].bodyless = last + 1;
}

// What comes after the commit can no more be held by a majority.
static bool beyond_help(const struct bt_replica *r)
{
    uint32_t able = 0;
    for (int i = 0; i < r->config.count; i++) {
        const struct replica_peer *p = &r->peer[i];
        bool stuck = replica_bodyless(p) && p->bodyless > r->commit;
        able += r->config.member[i].role == BT_GROUP_VOTER && !stuck;
    }
    return able < replica_majority(r);
}

void replica_bodyless_beat(struct bt_replica *r)
{
    if (r->role == BT_REPLICA_LEADER && beyond_help(r)) {
        replica_hand_over(r);
        replica_follow(r, r->term, 0);
    }
    for (int i = 0; r->role == BT_REPLICA_LEADER && i < r->config.count; i++) {
        const struct replica_peer *p = &r->peer[i];
        if (replica_bodyless(p) && replica_current(r)->last_index >= p->bodyless) {
            replica_progress_replace(r, i);
        }
    }
}

bool replica_bodyless_waits(const struct bt_replica *r)
{
    uint64_t held = replica_current(r)->last_index;
    for (int i = 0; r->role == BT_REPLICA_LEADER && i < r->config.count; i++) {
        const struct replica_peer *p = &r->peer[i];
        if (replica_bodyless(p) && held < p->bodyless && r->applied >= p->bodyless) {
            return true;
        }
    }
    return false;
}
