// SPDX-License-Identifier: Apache-2.0
// See role.h.
#include "replica/role.h"

#include "replica/apart.h"
#include "replica/issue.h"
#include "replica/progress.h"

void replica_patience(struct bt_replica *r)
{
    r->election_at = r->now + r->conf.election_ns + bt_rng_next(&r->rng) % r->conf.election_ns;
}

static void enter_term(struct bt_replica *r, uint64_t term)
{
    r->term = term;
    r->vote = 0;
    r->verified = 0;
    r->ack_due = r->vote_due = false;
    r->share = (struct replica_share){0};
    replica_lack_nothing(r);
    if (r->spare == REPLICA_SPARE_RECEIVING) {
        r->spare = REPLICA_SPARE_IDLE; // its sender leads no more
    }
    replica_store_hard_state(r);
}

void replica_follow(struct bt_replica *r, uint64_t term, uint16_t leader)
{
    if (term > r->term) {
        enter_term(r, term);
    }
    r->role = BT_REPLICA_FOLLOWER;
    r->share.on = false;
    r->leader = leader;
    r->campaign_due = false;
    r->transfer_to = 0;
    replica_patience(r);
}

void replica_lead(struct bt_replica *r)
{
    replica_count(r, BT_REPLICA_LEADERSHIPS_TOTAL);
    r->role = BT_REPLICA_LEADER;
    r->leader = r->conf.id;
    r->transfer_to = 0;
    r->heartbeat_at = r->now + r->conf.heartbeat_ns;
    r->quorum_at = r->now + r->conf.election_ns;
    replica_progress_begin(r);
    r->undecided = r->compared = 0;
    if (!replica_store_own(r, BT_ENTRY_NOOP, NULL, 0)) {
        replica_follow(r, r->term, 0);
        return;
    }
    replica_feed_all(r, true);
    replica_announce(r); // what its leader did not come to order
}
