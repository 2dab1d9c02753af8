// SPDX-License-Identifier: Apache-2.0
// See share.h.
#include "replica/share.h"

#include <string.h>

#include "replica/apart.h"
#include "replica/commit.h"
#include "replica/members.h"
#include "replica/progress.h"
#include "replica/send.h"

enum { PATIENCE = 3 }; // signs of life without word that all is committed

/* --- whether --- */

// something of the own term is committed. R-344: and so is the membership.
static bool may_probe(const struct bt_replica *r)
{
    bool own = r->role == BT_REPLICA_LEADER && !r->failed && r->transfer_to == 0 && replica_votes(r, r->conf.id);
    return own && r->conf.apart.aggregator && replica_apart(r) && r->config_index <= r->commit &&
           replica_log_term(&r->log, r->commit) == r->term;
}

// W-11: a switch keeps the low halves of indices, so the leader leaves it before they wrap.
static bool may_share(const struct bt_replica *r)
{
    const struct replica_share *s = &r->share;
    bool same_half = (r->log.last + 1) >> 32 == s->floor >> 32;
    return may_probe(r) && s->epoch == r->config_index && s->next > r->log.base && same_half;
}

static void serve_alone(struct bt_replica *r, struct replica_peer *p)
{
    uint64_t from = p->match > r->log.base ? p->match : r->log.base;
    p->shared = false;
    p->next = from + 1;
    p->feed = REPLICA_PROBE;
    p->under_way_n = 0;
    p->waiting = false;
}

static void leave(struct bt_replica *r)
{
    r->share.on = false;
    replica_count(r, BT_REPLICA_FALLBACKS_TOTAL);
    for (int i = 0; i < r->config.count; i++) {
        if (r->peer[i].shared) {
            serve_alone(r, &r->peer[i]);
        }
    }
    replica_feed_all(r, false);
}

// Sends by way of the aggregator, and nothing speaks against it.
static bool sharing(struct bt_replica *r)
{
    if (!r->share.on) {
        return false;
    }
    if (!may_share(r)) {
        leave(r);
        return false;
    }
    return true;
}

bool replica_shares(struct bt_replica *r, int i)
{
    return sharing(r) && r->peer[i].shared;
}

/* --- what a leader sends --- */

// Whoever gets its entries this way is taken to have them; one that does not says so.
static void take_for_sent(struct bt_replica *r)
{
    for (int i = 0; i < r->config.count; i++) {
        struct replica_peer *p = &r->peer[i];
        if (p->shared) {
            p->next = r->share.next > p->match ? r->share.next : p->match + 1;
        }
    }
}

static uint32_t send_shared(struct bt_replica *r, bool with_entries)
{
    struct replica_share *s = &r->share;
    struct bt_group_append *a = &replica_message(r, BT_GROUP_SHARED)->append;
    a->prev_index = s->next - 1;
    a->prev_term = replica_log_term(&r->log, a->prev_index);
    a->commit = r->commit;
    a->epoch = s->epoch;
    a->count = with_entries ? replica_fill(r, a, s->next, r->log.durable) : 0;
    if (a->count > 0) {
        s->next += a->count;
        s->under_way[s->under_way_n++] = s->next - 1;
        take_for_sent(r);
    }
    uint32_t n = a->count;
    if (n > 0 || !with_entries) {
        replica_send(r, BT_GROUP_AGGREGATOR);
    }
    return n;
}

static void forget_committed(struct replica_share *s, uint64_t commit)
{
    uint8_t done = 0;
    while (done < s->under_way_n && s->under_way[done] <= commit) {
        done++;
    }
    memmove(s->under_way, s->under_way + done, (size_t)(s->under_way_n - done) * sizeof s->under_way[0]);
    s->under_way_n = (uint8_t)(s->under_way_n - done);
}

// only what is durable here, so that this leader is one of those who hold it.
void replica_share_feed(struct bt_replica *r)
{
    struct replica_share *s = &r->share;
    if (!sharing(r)) {
        return;
    }
    forget_committed(s, r->commit);
    while (s->next <= r->log.durable && s->under_way_n < r->conf.pipeline) {
        if (send_shared(r, true) == 0) {
            leave(r); // an entry that does not fit this way
            return;
        }
    }
}

static void probe(struct bt_replica *r)
{
    replica_message(r, BT_GROUP_PROBE)->probe = (struct bt_group_probe){
        .flags = BT_GROUP_DURABLE, .epoch = r->config_index, .floor = r->commit, .config = r->config};
    replica_send(r, BT_GROUP_AGGREGATOR);
}

// After what the member is known to hold, or what was committed at the sign before: it is not refused while entries are
// on their longer way, and one that the aggregator does not reach says so.
static void send_sign(struct bt_replica *r, int i)
{
    struct bt_group_append *a = &replica_message(r, BT_GROUP_APPEND)->append;
    uint64_t after = r->peer[i].match > r->share.seen ? r->peer[i].match : r->share.seen;
    a->prev_index = after > r->log.base ? after : r->log.base;
    a->prev_term = replica_log_term(&r->log, a->prev_index);
    a->commit = r->commit;
    a->epoch = 0;
    a->count = 0;
    replica_send(r, r->config.member[i].id);
}

void replica_share_beat(struct bt_replica *r)
{
    if (r->share.on && r->now - r->share.ok_ns > PATIENCE * r->conf.heartbeat_ns) {
        leave(r);
    }
    if (!sharing(r)) {
        if (may_probe(r)) {
            probe(r);
        }
        return;
    }
    for (int i = 0; i < r->config.count; i++) {
        if (r->peer[i].shared) {
            send_sign(r, i);
        }
    }
    r->share.seen = r->commit;
    send_shared(r, false);
}

static void go_shared(struct bt_replica *r, int i)
{
    struct replica_peer *p = &r->peer[i];
    p->shared = true;
    p->under_way_n = 0;
    p->next = r->share.next > p->match ? r->share.next : p->match + 1;
}

void replica_share_back(struct bt_replica *r, uint16_t from)
{
    int i = replica_member(r, from);
    if (r->role != BT_REPLICA_LEADER || i < 0 || from == r->conf.id || !sharing(r)) {
        return;
    }
    const struct replica_peer *p = &r->peer[i];
    if (!p->shared && p->feed == REPLICA_STREAM && p->next >= r->share.next) {
        go_shared(r, i);
    }
}

/* --- what the aggregator says to a leader --- */

static void answered(struct bt_replica *r, const struct bt_group_probe *p)
{
    struct replica_share *s = &r->share;
    if (s->on || !may_probe(r) || p->epoch != r->config_index || p->floor > r->commit) {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
        return;
    }
    s->on = true;
    s->epoch = p->epoch;
    s->floor = p->floor;
    s->next = r->commit + 1;
    s->seen = 0;
    s->under_way_n = 0;
    s->ok_ns = r->now;
    replica_count(r, BT_REPLICA_AGGREGATED_TOTAL);
    for (int i = 0; i < r->config.count; i++) {
        if (r->config.member[i].id != r->conf.id && r->peer[i].feed == REPLICA_STREAM) {
            go_shared(r, i);
        }
    }
    replica_share_feed(r);
}

static void note_applied(struct bt_replica *r, const struct bt_group_committed *c)
{
    for (uint32_t k = 0; k < c->count; k++) {
        int i = replica_member(r, c->done[k].id);
        if (i >= 0 && c->done[k].applied > r->peer[i].applied) {
            r->peer[i].applied = c->done[k].applied;
        }
    }
}

// of this term and membership, and nothing that is not durable here.
static void told_leader(struct bt_replica *r, const struct bt_group_committed *c)
{
    struct replica_share *s = &r->share;
    if (!s->on || c->epoch != s->epoch || !may_share(r)) {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
        return;
    }
    if (c->commit > r->commit && c->commit > r->log.durable) {
        replica_count(r, BT_REPLICA_CONFLICT_TOTAL);
        return;
    }
    if (s->under_way_n == 0 || c->commit >= s->under_way[0]) {
        s->ok_ns = r->now;
    }
    note_applied(r, c);
    replica_commit_told(r, c->commit);
    if (r->role == BT_REPLICA_LEADER) {
        replica_share_feed(r);
        replica_announce(r); // somebody may have less to execute
    }
}

/* --- a follower --- */

void replica_share_taken(struct bt_replica *r, const struct bt_group_append *a, uint32_t has)
{
    struct replica_share *s = &r->share;
    uint64_t end = a->prev_index + has;
    if (a->epoch > s->end_epoch) {
        s->end_epoch = a->epoch;
        s->end = 0;
    }
    if (a->epoch == s->end_epoch && end > s->end) {
        s->end = end;
    }
    // As with what the leader sends itself: word follows when it is durable, a sign of life is answered at once.
    if (a->count == 0 || (has == a->count && r->log.durable >= s->end)) {
        replica_share_ack(r);
    } else {
        s->ack_due = r->log.durable < s->end || !replica_settled(r);
    }
}

// only what came by way of the aggregator; the leader has all of that durably.
void replica_share_ack(struct bt_replica *r)
{
    struct replica_share *s = &r->share;
    if (r->failed) {
        replica_count(r, BT_REPLICA_STORE_FAILED_TOTAL);
        return;
    }
    s->ack_due = !replica_settled(r) || r->log.durable < s->end;
    if (!replica_settled(r) || r->leader == 0 || s->end == 0) {
        return;
    }
    uint64_t match = s->end < r->log.durable ? s->end : r->log.durable;
    replica_message(r, BT_GROUP_SHARED_REPLY)->append_reply =
        (struct bt_group_append_reply){.flags = BT_GROUP_YES,
                                       .index = match < r->verified ? match : r->verified,
                                       .last = r->log.last,
                                       .applied = r->applied,
                                       .epoch = s->end_epoch};
    replica_send(r, BT_GROUP_AGGREGATOR);
}

// no further than the leader of this very term vouched for.
static void told_follower(struct bt_replica *r, const struct bt_group_committed *c)
{
    uint64_t commit = c->commit < r->verified ? c->commit : r->verified;
    if (commit > r->commit) {
        r->commit = commit;
    }
}

/* --- both --- */

void replica_share_word(struct bt_replica *r, const struct bt_group_message *m)
{
    if (!r->conf.apart.aggregator || m->header.from != BT_GROUP_AGGREGATOR) {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL);
        return;
    }
    if (m->header.term != r->term) {
        replica_count(r, BT_REPLICA_STALE_TOTAL); // of a later one the leader tells, not the aggregator
        return;
    }
    if (m->header.type == BT_GROUP_PROBE_REPLY) {
        answered(r, &m->probe);
        return;
    }
    replica_count(r, BT_REPLICA_AGG_COMMITS_TOTAL);
    if (r->role == BT_REPLICA_LEADER) {
        told_leader(r, &m->committed);
    } else {
        told_follower(r, &m->committed);
    }
}
