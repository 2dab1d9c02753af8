// SPDX-License-Identifier: Apache-2.0
// See transfer.h.
#include "replica/transfer.h"

#include "replica/members.h"
#include "replica/progress.h"
#include "replica/send.h"
#include "replica/states.h"

static void tell(struct bt_replica *r, uint16_t to)
{
    replica_message(r, BT_GROUP_TAKE_OVER);
    replica_send(r, to);
}

void replica_transfer_step(struct bt_replica *r)
{
    if (r->transfer_to == 0) {
        return;
    }
    int i = replica_member(r, r->transfer_to);
    if (i < 0 || r->now >= r->transfer_until) {
        r->transfer_to = 0; // commands are taken again
        return;
    }
    if (!r->transfer_told && r->peer[i].match == r->log.last) {
        r->transfer_told = true;
        tell(r, r->transfer_to);
    }
}

void replica_hand_over(struct bt_replica *r)
{
    int best = -1;
    for (int i = 0; i < r->config.count; i++) {
        const struct replica_peer *p = &r->peer[i];
        bool other = r->config.member[i].role == BT_GROUP_VOTER && r->config.member[i].id != r->conf.id;
        if (other && replica_states_differs(p) == 0 && (best < 0 || p->match > r->peer[best].match)) {
            best = i;
        }
    }
    if (best >= 0) {
        tell(r, r->config.member[best].id);
    }
}

enum bt_replica_result bt_replica_transfer(struct bt_replica *r, uint64_t now, uint16_t to)
{
    r->now = now;
    if (r->role != BT_REPLICA_LEADER) {
        return BT_REPLICA_NOT_LEADER;
    }
    if (r->transfer_to != 0) {
        return BT_REPLICA_TRANSFERRING;
    }
    if (to == r->conf.id) {
        return BT_REPLICA_ALREADY;
    }
    if (!replica_votes(r, to)) {
        return BT_REPLICA_NO_MEMBER;
    }
    if (replica_states_differs(&r->peer[replica_member(r, to)]) != 0) {
        return BT_REPLICA_DIVERGED;
    }
    if (replica_by_states(&r->peer[replica_member(r, to)])) {
        return BT_REPLICA_BEHIND;
    }
    r->transfer_to = to;
    r->transfer_told = false;
    r->transfer_until = now + 2 * r->conf.election_ns;
    replica_feed(r, replica_member(r, to), false);
    replica_transfer_step(r);
    return BT_REPLICA_OK;
}
