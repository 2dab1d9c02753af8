// SPDX-License-Identifier: Apache-2.0
// What happens to a member, and which of its parts it concerns.
#include "replica/replica.h"

#include "replica/apart.h"
#include "replica/append.h"
#include "replica/bodyless.h"
#include "replica/commit.h"
#include "replica/election.h"
#include "replica/issue.h"
#include "replica/members.h"
#include "replica/progress.h"
#include "replica/reply.h"
#include "replica/role.h"
#include "replica/send.h"
#include "replica/share.h"
#include "replica/snapshot.h"
#include "replica/states.h"
#include "replica/transfer.h"

/* --- messages --- */

static bool from_a_leader(const struct bt_group_message *m)
{
    return m->header.type == BT_GROUP_APPEND || m->header.type == BT_GROUP_SHARED ||
           m->header.type == BT_GROUP_SNAPSHOT || m->header.type == BT_GROUP_TAKE_OVER ||
           m->header.type == BT_GROUP_DIVERGED;
}

static bool is_question(const struct bt_group_message *m)
{
    return (m->header.type == BT_GROUP_VOTE || m->header.type == BT_GROUP_VOTE_REPLY) &&
           (m->vote.flags & BT_GROUP_PRE) != 0;
}

// A message of an earlier term: its sender learns the later one, so that it does not wait for ever.
static void answer_stale(struct bt_replica *r, const struct bt_group_message *m)
{
    replica_count(r, BT_REPLICA_STALE_TOTAL);
    if (m->header.type == BT_GROUP_VOTE) {
        replica_send_vote_reply(r, m->header.from, 0, m->vote.asked);
    } else if (from_a_leader(m)) {
        replica_send_refusal(r, m->header.from, r->log.last, r->log.last);
    }
}

// Brings the term up to the message's; false when there is nothing more to do with it.
static bool judge_term(struct bt_replica *r, const struct bt_group_message *m)
{
    if (m->header.type == BT_GROUP_VOTE && !replica_vote_welcome(r, m)) {
        return false;
    }
    bool question = is_question(m), answer = question && m->header.type == BT_GROUP_VOTE_REPLY;
    if (m->header.term > r->term && (!question || answer)) {
        replica_follow(r, m->header.term, from_a_leader(m) ? m->header.from : 0);
    }
    if (m->header.term < r->term && !question) {
        answer_stale(r, m);
        return false;
    }
    return true;
}

// From the one leader of this term: it is followed.
static bool obey(struct bt_replica *r, const struct bt_group_message *m)
{
    if (r->role == BT_REPLICA_LEADER || (r->leader != 0 && r->leader != m->header.from)) {
        replica_count(r, BT_REPLICA_SECOND_LEADER_TOTAL);
        return false;
    }
    replica_follow(r, r->term, m->header.from);
    r->leader_heard = true;
    r->leader_heard_ns = r->now;
    return true;
}

static void answered(struct bt_replica *r, const struct bt_group_message *m)
{
    if (r->role != BT_REPLICA_LEADER) {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
    } else if (m->header.type == BT_GROUP_APPEND_REPLY) {
        replica_append_answered(r, m);
    } else {
        replica_snapshot_answered(r, m);
    }
}

static void take_over(struct bt_replica *r, const struct bt_group_message *m)
{
    if (r->role == BT_REPLICA_FOLLOWER && r->leader == m->header.from) {
        replica_election_take_over(r);
    } else {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
    }
}

static void dispatch(struct bt_replica *r, const struct bt_group_message *m)
{
    switch (m->header.type) {
    case BT_GROUP_VOTE:
        replica_vote_asked(r, m);
        break;
    case BT_GROUP_VOTE_REPLY:
        replica_vote_answered(r, m);
        break;
    case BT_GROUP_APPEND:
    case BT_GROUP_SHARED:
        if (obey(r, m)) {
            replica_append(r, m);
            replica_states_remind(r);
        }
        break;
    case BT_GROUP_SNAPSHOT:
        if (obey(r, m)) {
            replica_snapshot_chunk(r, m);
            replica_states_remind(r);
        }
        break;
    case BT_GROUP_DIVERGED:
        if (obey(r, m)) {
            replica_states_other(r, m);
        }
        break;
    case BT_GROUP_STATE:
        replica_states_told(r, m);
        break;
    case BT_GROUP_TAKE_OVER:
        take_over(r, m);
        break;
    default:
        answered(r, m);
    }
}

static bool is_recovery(const struct bt_group_message *m)
{
    return m->header.type == BT_GROUP_RECOVERY || m->header.type == BT_GROUP_RECOVERY_REPLY;
}

// Of the aggregator, or of what only it is to get: a member begins no term by such a message.
static bool is_of_aggregator(const struct bt_group_message *m)
{
    return m->header.from == BT_GROUP_AGGREGATOR || m->header.type == BT_GROUP_PROBE ||
           m->header.type == BT_GROUP_SHARED_REPLY;
}

static void recover(struct bt_replica *r, const struct bt_group_message *m)
{
    if (!replica_apart(r)) {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
    } else if (m->header.type == BT_GROUP_RECOVERY) {
        replica_recovery_asked(r, m);
    } else {
        replica_recovery_answered(r, m);
    }
}

void bt_replica_receive(struct bt_replica *r, uint64_t now, const uint8_t *message, size_t n)
{
    r->now = now;
    struct bt_group_message *m = &r->in;
    if (bt_group_decode(message, n, m).error != BT_GROUP_OK) {
        replica_count(r, BT_REPLICA_MALFORMED_TOTAL);
        return;
    }
    if (m->header.cluster != r->conf.cluster || m->header.group != r->conf.group) {
        replica_count(r, BT_REPLICA_FOREIGN_TOTAL);
        return;
    }
    if (m->header.from == r->conf.id) {
        replica_count(r, BT_REPLICA_OWN_TOTAL);
        return;
    }
    if (is_recovery(m)) {
        recover(r, m); // a body is what it is in every term
    } else if (is_of_aggregator(m)) {
        replica_share_word(r, m);
    } else if (judge_term(r, m)) {
        dispatch(r, m);
    }
}

/* --- time --- */

// A leader that a majority does not answer is none.
static void check_quorum(struct bt_replica *r)
{
    uint32_t heard = 0;
    for (int i = 0; i < r->config.count; i++) {
        bool own = r->config.member[i].id == r->conf.id;
        bool lately = own || r->now - r->peer[i].heard_ns <= r->conf.election_ns;
        heard += r->config.member[i].role == BT_GROUP_VOTER && lately;
    }
    r->quorum_at = r->now + r->conf.election_ns;
    if (heard < replica_majority(r)) {
        replica_count(r, BT_REPLICA_NO_QUORUM_TOTAL);
        replica_follow(r, r->term, 0);
    }
}

static void tick_leader(struct bt_replica *r)
{
    if (r->now >= r->quorum_at) {
        check_quorum(r);
    }
    if (r->role == BT_REPLICA_LEADER && r->now >= r->heartbeat_at) {
        r->heartbeat_at = r->now + r->conf.heartbeat_ns;
        replica_feed_all(r, true);
        replica_share_beat(r);
        replica_states_beat(r);
        replica_transfer_step(r);
        replica_announce(r);
        replica_bodyless_beat(r);
    }
}

void bt_replica_tick(struct bt_replica *r, uint64_t now)
{
    r->now = now;
    if (r->election_at == 0) {
        replica_patience(r); // the first word of the time since the start
        replica_apart_begin(r);
    }
    replica_lack_tick(r);
    if (r->role == BT_REPLICA_LEADER) {
        tick_leader(r);
    } else if (now >= r->election_at) {
        replica_election_begin(r);
    }
}

uint64_t bt_replica_due(const struct bt_replica *r)
{
    if (r->role != BT_REPLICA_LEADER) {
        return r->lacks > 0 && r->lack_at < r->election_at ? r->lack_at : r->election_at;
    }
    return r->heartbeat_at < r->quorum_at ? r->heartbeat_at : r->quorum_at;
}

/* --- the store --- */

static void fail(struct bt_replica *r)
{
    if (r->failed) {
        return;
    }
    r->failed = true;
    if (r->role == BT_REPLICA_LEADER) {
        replica_hand_over(r);
    }
    replica_follow(r, r->term, r->role == BT_REPLICA_FOLLOWER ? r->leader : 0);
}

void bt_replica_stored(struct bt_replica *r, uint64_t now, uint64_t generation, enum bt_store_result result)
{
    r->now = now;
    if (result == BT_STORE_FAILED) {
        fail(r);
        return;
    }
    if (generation <= r->done || generation > r->issued || r->failed) {
        replica_count(r, BT_REPLICA_LATE_COMPLETION_TOTAL);
        return;
    }
    r->done = generation;
    replica_log_settle(&r->log, generation);
    replica_snapshot_settled(r);
    replica_election_settled(r);
    if (r->role == BT_REPLICA_LEADER) {
        replica_commit(r);
        if (r->role == BT_REPLICA_LEADER) {
            replica_share_feed(r);
            replica_transfer_step(r);
            replica_announce(r);
        }
        return;
    }
    if (r->ack_due) {
        replica_send_ack(r);
    }
    if (r->share.ack_due) {
        replica_share_ack(r);
    }
}

/* --- the application --- */

void bt_replica_applied(struct bt_replica *r, uint64_t index)
{
    if (index > r->applied && index <= r->commit && r->fenced.index == 0) {
        r->applied = index;
    }
}

enum bt_replica_result bt_replica_propose(struct bt_replica *r, uint64_t now, const uint8_t *body, uint32_t n,
                                          uint64_t *index)
{
    r->now = now;
    if (r->role != BT_REPLICA_LEADER) {
        return BT_REPLICA_NOT_LEADER;
    }
    if (r->failed) {
        return BT_REPLICA_FAILED;
    }
    if (r->transfer_to != 0) {
        return BT_REPLICA_TRANSFERRING;
    }
    if (n > replica_body_most(r)) {
        return BT_REPLICA_TOO_LONG;
    }
    if (replica_store_busy(r) || !replica_store_own(r, BT_ENTRY_COMMAND, body, n)) {
        return BT_REPLICA_FULL;
    }
    *index = r->log.last;
    replica_feed_all(r, false);
    return BT_REPLICA_OK;
}
