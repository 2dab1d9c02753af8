// SPDX-License-Identifier: Apache-2.0
// See replica_check.h.
#include "replica_check.h"

#include "replica_check_log.h"
#include "replica_check_majority.h"
#include "replica_disk.h"

static void commit_first(struct replica_world *w, const struct bt_entry *e, uint64_t by_term)
{
    struct replica_committed *c = replica_at(w, e->index);
    c->is = true;
    c->term = e->term;
    c->hash = replica_hash(e);
    c->op = replica_op(e);
    c->at_term = by_term;
    c->config = e->kind == BT_ENTRY_CONFIG;
    if (c->config) {
        bt_group_config_decode(e->body, e->length, &c->body);
    }
    c->read = e->kind == BT_ENTRY_READ;
    c->replier = bt_group_is_request(e) ? bt_group_meta_get(e->body).replier : 0;
    w->count.reads += c->read;
    uint64_t before = e->index > 0 ? w->at[e->index - 1].chain : 0;
    c->chain = c->read ? before : (before ^ c->hash) * UINT64_C(0x9e3779b97f4a7c15) + e->index;
    w->commit = e->index;
}

static void check_committed(struct replica_world *w, uint16_t id, const struct bt_entry *e, uint64_t by_term)
{
    const struct replica_committed *c = replica_at(w, e->index);
    if (!c->is) {
        if (e->index != w->commit + 1) {
            replica_breach(w, REPLICA_STATE_MACHINE, "member %u commits %llu after %llu", id,
                           (unsigned long long)e->index, (unsigned long long)w->commit);
            return;
        }
        commit_first(w, e, by_term);
    } else if (c->term != e->term || c->hash != replica_hash(e)) {
        replica_breach(w, REPLICA_STATE_MACHINE, "member %u commits another entry %llu than was committed", id,
                       (unsigned long long)e->index);
    }
}

static void check_commits(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    struct replica_member *m = &w->member[id];
    if (s->commit < m->seen_commit || s->applied > s->commit || s->commit > s->last || s->durable > s->last) {
        replica_breach(w, REPLICA_INDICES, "member %u: applied %llu, commit %llu after %llu, durable %llu, last %llu",
                       id, (unsigned long long)s->applied, (unsigned long long)s->commit,
                       (unsigned long long)m->seen_commit, (unsigned long long)s->durable, (unsigned long long)s->last);
        return;
    }
    if (s->commit > w->commit && s->role == BT_REPLICA_LEADER) {
        replica_check_held(w, id, s);
    }
    struct bt_entry e;
    for (uint64_t i = m->seen_commit + 1; i <= s->commit; i++) {
        if (bt_replica_entry(m->core, i, &e)) {
            check_committed(w, id, &e, s->term);
        }
    }
    m->seen_commit = s->commit;
}

/* What the leader of the latest term believes a member to hold is on that member's disk. */
static void check_belief(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    struct bt_replica_peer p;
    for (int i = 0; s->term == w->term_most && i < s->config->count; i++) {
        uint16_t of = s->config->member[i].id;
        if (!bt_replica_peer(w->member[id].core, of, &p) || p.match == 0) {
            continue;
        }
        const struct replica_disk *d = w->member[of].disk;
        uint64_t term = replica_term_at(w->member[id].core, p.match);
        if (term != 0 ? !replica_disk_holds(d, p.match, term) : !replica_disk_reaches(d, p.match)) {
            replica_breach(w, REPLICA_NOT_DURABLE, "leader %u of term %llu takes %llu for durable at member %u", id,
                           (unsigned long long)s->term, (unsigned long long)p.match, of);
        }
    }
}

/* Terms are begun by candidates of this group, and by nobody else. */
static void check_term(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    if (s->role == BT_REPLICA_CANDIDATE || s->role == BT_REPLICA_LEADER) {
        w->term_most = s->term > w->term_most ? s->term : w->term_most;
    }
    if (s->term > w->term_most && s->term > 1) {
        replica_breach(w, REPLICA_FOREIGN_TERM, "member %u is in term %llu, which nobody began", id,
                       (unsigned long long)s->term);
    }
}

void replica_check_started(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    m->seen_last = m->seen_commit = m->seen_term = 0;
    m->seen_leader = false;
    struct bt_replica_status s = bt_replica_status(m->core);
    m->seen_commit = s.commit;
}

/* */
static void check_fence(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    struct replica_member *m = &w->member[id];
    bool fenced = s->fenced.index != 0;
    if (fenced && !m->seen_fenced) {
        w->count.fenced++;
        if (!m->astray && !w->spread) {
            replica_breach(w, REPLICA_FENCE, "member %u is fenced at %llu, and its state is right", id,
                           (unsigned long long)s->fenced.index);
        }
    }
    if (fenced && s->role == BT_REPLICA_LEADER) {
        replica_breach(w, REPLICA_FENCE, "member %u leads term %llu with a state that is known to be wrong", id,
                       (unsigned long long)s->term);
    }
    m->seen_fenced = fenced;
}

void replica_check_step(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    struct bt_replica_status s = bt_replica_status(m->core);
    replica_at(w, s.last);
    check_term(w, id, &s);
    replica_check_log(w, id, &s);
    if (s.role == BT_REPLICA_LEADER && !(m->seen_leader && m->seen_term == s.term)) {
        replica_check_election(w, id, &s);
        replica_check_complete(w, id, &s);
    }
    if (s.role == BT_REPLICA_LEADER) {
        check_belief(w, id, &s);
    }
    check_commits(w, id, &s);
    if (s.role == BT_REPLICA_LEADER && s.config_index <= s.commit && !replica_votes_in(s.config, id)) {
        replica_breach(w, REPLICA_MEMBERSHIP, "member %u leads term %llu after its removal at %llu was committed", id,
                       (unsigned long long)s.term, (unsigned long long)s.config_index);
    }
    check_fence(w, id, &s);
    m->seen_leader = s.role == BT_REPLICA_LEADER;
    m->seen_term = s.term;
}

static void check_vote(struct replica_world *w, uint16_t voter, uint64_t term, uint16_t to)
{
    struct replica_vote *v = &w->vote[voter][term % REPLICA_VOTES];
    if (v->term == term && v->to != to) {
        replica_breach(w, REPLICA_TWO_VOTES, "member %u votes for %u and for %u in term %llu", voter, v->to, to,
                       (unsigned long long)term);
    }
    *v = (struct replica_vote){term, to};
    struct bt_hard_state h = replica_disk_hard_state(w->member[voter].disk);
    if (h.term != term || h.vote != to) {
        replica_breach(w, REPLICA_NOT_DURABLE, "member %u tells its vote of term %llu before it is durable", voter,
                       (unsigned long long)term);
    }
}

static void check_ack(struct replica_world *w, uint16_t from, uint64_t term, uint64_t index)
{
    const struct replica_member *m = &w->member[from];
    if (replica_disk_hard_state(m->disk).term < term && term > 1) {
        replica_breach(w, REPLICA_NOT_DURABLE, "member %u acknowledges in term %llu, which is not durable", from,
                       (unsigned long long)term);
    }
    uint64_t has = replica_term_at(m->core, index); /* 0: its log begins after it */
    bool held = has != 0 ? replica_disk_holds(m->disk, index, has) : replica_disk_reaches(m->disk, index);
    if (!held) {
        replica_breach(w, REPLICA_NOT_DURABLE, "member %u acknowledges %llu, which is not durable", from,
                       (unsigned long long)index);
    }
}

void replica_check_sent(struct replica_world *w, uint16_t from, uint16_t to, const uint8_t *message, size_t n)
{
    static struct bt_group_message m;
    struct bt_group_fault f = bt_group_decode(message, n, &m);
    if (f.error != BT_GROUP_OK) {
        replica_breach(w, REPLICA_STORE_MISUSE, "member %u sends a malformed message: %s at byte %u", from,
                       bt_group_error_name(f.error), f.at);
        return;
    }
    bool question = m.header.type <= BT_GROUP_VOTE_REPLY && (m.vote.flags & BT_GROUP_PRE) != 0;
    if (m.header.type == BT_GROUP_VOTE && !question) {
        check_vote(w, from, m.vote.asked, from);
    } else if (m.header.type == BT_GROUP_VOTE_REPLY && !question && (m.vote.flags & BT_GROUP_YES) != 0) {
        check_vote(w, from, m.vote.asked, to);
    } else if ((m.header.type == BT_GROUP_APPEND_REPLY || m.header.type == BT_GROUP_SHARED_REPLY) &&
               (m.append_reply.flags & BT_GROUP_YES) != 0) {
        check_ack(w, from, m.header.term, m.append_reply.index);
    } else if (m.header.type == BT_GROUP_SNAPSHOT_REPLY && (m.snapshot_reply.flags & BT_GROUP_YES) != 0) {
        check_ack(w, from, m.header.term, m.snapshot_reply.last_index);
    }
}
