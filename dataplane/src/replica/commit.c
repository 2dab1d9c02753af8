// SPDX-License-Identifier: Apache-2.0
// See commit.h.
#include "replica/commit.h"

#include "replica/members.h"
#include "replica/progress.h"
#include "replica/role.h"
#include "replica/transfer.h"

static void commit_to(struct bt_replica *r, uint64_t held)
{
    if (held <= r->commit || replica_log_term(&r->log, held) != r->term) {
        return;
    }
    r->commit = held;
    replica_feed_all(r, true);
    if (r->config_index <= r->commit && !replica_votes(r, r->conf.id)) {
        replica_hand_over(r);
        replica_follow(r, r->term, 0);
    }
}

void replica_commit(struct bt_replica *r)
{
    int own = replica_member(r, r->conf.id);
    if (own >= 0) {
        r->peer[own].match = r->log.durable;
    }
    commit_to(r, replica_held_by_majority(r));
}

void replica_commit_told(struct bt_replica *r, uint64_t held)
{
    commit_to(r, held);
}
