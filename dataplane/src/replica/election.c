// SPDX-License-Identifier: Apache-2.0
// See election.h.
#include "replica/election.h"

#include "replica/issue.h"
#include "replica/members.h"
#include "replica/role.h"
#include "replica/send.h"

static void ask_all(struct bt_replica *r, uint32_t flags, uint64_t asked)
{
    for (int i = 0; i < r->config.count; i++) {
        if (r->config.member[i].id == r->conf.id || r->config.member[i].role != BT_GROUP_VOTER) {
            continue;
        }
        replica_message(r, BT_GROUP_VOTE)->vote =
            (struct bt_group_vote){.flags = flags,
                                   .asked = asked,
                                   .last_index = r->log.last,
                                   .last_term = replica_log_term(&r->log, r->log.last)};
        replica_send(r, r->config.member[i].id);
    }
}

// The vote for oneself is made durable first: after a crash nobody else gets it, and no answer to this election finds
// a shorter log.
static void campaign(struct bt_replica *r, bool by_transfer)
{
    replica_count(r, BT_REPLICA_ELECTIONS_TOTAL);
    replica_follow(r, r->term + 1, 0);
    r->role = BT_REPLICA_CANDIDATE;
    r->vote = r->conf.id;
    r->campaign_due = true;
    r->by_transfer = by_transfer;
    replica_grant_none(r);
    replica_store_hard_state(r);
}

static bool may_campaign(const struct bt_replica *r)
{
    bool ready = !r->failed && r->fenced.index == 0 && r->spare != REPLICA_SPARE_INSTALLED &&
                 replica_log_fits(&r->log, BT_ENTRY_NOOP, 0);
    return ready && replica_stands(r);
}

void replica_election_begin(struct bt_replica *r)
{
    replica_patience(r);
    if (!may_campaign(r)) {
        return;
    }
    r->role = BT_REPLICA_ASKING;
    r->leader = 0;
    r->campaign_due = false;
    replica_grant_none(r);
    replica_grant(r, r->conf.id);
    if (replica_granted(r) >= replica_majority(r)) {
        campaign(r, false);
        return;
    }
    ask_all(r, BT_GROUP_PRE, r->term + 1);
}

void replica_election_take_over(struct bt_replica *r)
{
    if (!may_campaign(r)) {
        replica_count(r, BT_REPLICA_NOT_VOTER_TOTAL);
        return;
    }
    campaign(r, true);
}

// There is a leader, as far as this member knows.
static bool has_leader(const struct bt_replica *r)
{
    return r->role == BT_REPLICA_LEADER ||
           (r->leader != 0 && r->leader_heard && r->now - r->leader_heard_ns < r->conf.election_ns);
}

bool replica_vote_welcome(struct bt_replica *r, const struct bt_group_message *m)
{
    if (r->failed) {
        replica_count(r, BT_REPLICA_STORE_FAILED_TOTAL);
        return false;
    }
    if ((m->vote.flags & BT_GROUP_TRANSFER) == 0 && has_leader(r) && m->vote.asked > r->term) {
        replica_count(r, BT_REPLICA_LEASE_TOTAL);
        return false;
    }
    return true;
}

static bool as_new_as_ours(const struct bt_replica *r, const struct bt_group_vote *v)
{
    uint64_t own_term = replica_log_term(&r->log, r->log.last);
    return v->last_term > own_term || (v->last_term == own_term && v->last_index >= r->log.last);
}

static void answer_question(struct bt_replica *r, const struct bt_group_message *m)
{
    bool yes = m->vote.asked > r->term && as_new_as_ours(r, &m->vote);
    replica_send_vote_reply(r, m->header.from, BT_GROUP_PRE | (yes ? BT_GROUP_YES : 0), m->vote.asked);
}

void replica_vote_asked(struct bt_replica *r, const struct bt_group_message *m)
{
    if ((m->vote.flags & BT_GROUP_PRE) != 0) {
        answer_question(r, m);
        return;
    }
    bool free_vote = r->vote == 0 && r->leader == 0;
    bool yes = m->vote.asked == r->term && (r->vote == m->header.from || free_vote) && as_new_as_ours(r, &m->vote);
    if (!yes) {
        replica_send_vote_reply(r, m->header.from, 0, m->vote.asked);
        return;
    }
    if (r->vote == 0) {
        r->vote = m->header.from;
        r->role = BT_REPLICA_FOLLOWER; // not one that asks for votes itself
        replica_store_hard_state(r);
        replica_patience(r);
    }
    r->vote_due = true;
    replica_election_settled(r);
}

static bool expected(const struct bt_replica *r, const struct bt_group_vote *v)
{
    if ((v->flags & BT_GROUP_PRE) != 0) {
        return r->role == BT_REPLICA_ASKING && v->asked == r->term + 1;
    }
    return r->role == BT_REPLICA_CANDIDATE && !r->campaign_due && v->asked == r->term;
}

void replica_vote_answered(struct bt_replica *r, const struct bt_group_message *m)
{
    if (!expected(r, &m->vote)) {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
        return;
    }
    if ((m->vote.flags & BT_GROUP_YES) == 0) {
        return;
    }
    if (!replica_grant(r, m->header.from)) {
        replica_count(r, BT_REPLICA_STRANGER_TOTAL);
        return;
    }
    if (replica_granted(r) < replica_majority(r)) {
        return;
    }
    if (r->role == BT_REPLICA_ASKING) {
        campaign(r, false);
    } else {
        replica_lead(r);
    }
}

void replica_election_settled(struct bt_replica *r)
{
    if (!replica_settled(r)) {
        return;
    }
    if (r->vote_due) {
        r->vote_due = false;
        replica_send_vote_reply(r, r->vote, BT_GROUP_YES, r->term);
    }
    if (!r->campaign_due) {
        return;
    }
    r->campaign_due = false;
    replica_grant(r, r->conf.id);
    if (replica_granted(r) >= replica_majority(r)) {
        replica_lead(r);
        return;
    }
    ask_all(r, r->by_transfer ? BT_GROUP_TRANSFER : 0, r->term);
}
