// SPDX-License-Identifier: Apache-2.0
// See replica_check.h.
#include "replica_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "replica_apart.h"
#include "replica_diverge.h"
#include "replica_sessions.h"

void replica_breach(struct replica_world *w, enum replica_breach b, const char *what, ...)
{
    if (w->breach != REPLICA_HELD) {
        return;
    }
    char text[REPLICA_SAYS - 60];
    va_list ap;
    va_start(ap, what);
    vsnprintf(text, sizeof text, what, ap);
    va_end(ap);
    w->breach = b;
    snprintf(w->says, sizeof w->says, "%s at %.3f ms: %s", replica_breach_name(b), (double)w->agenda.now / 1e6, text);
}

const char *replica_breach_name(enum replica_breach b)
{
    static const char *const names[REPLICA_BREACHES] = {
        "held",          "two-leaders",    "append-only",   "log-matching", "leader-completeness",
        "state-machine", "history",        "not-durable",   "indices",      "two-votes",
        "no-majority",   "membership",     "snapshots",     "foreign-term", "store-misuse",
        "wrong-body",    "bound",          "wrong-replier", "reads",        "dropped-but-executed",
        "announced",     "executed-twice", "fence",         "no-progress"};
    return names[b];
}

static void *grown(void *p, uint64_t *room, uint64_t need, size_t size)
{
    if (need < *room) {
        return p;
    }
    uint64_t more = 2 * need + 256;
    uint8_t *q = realloc(p, more * size);
    if (q == NULL) {
        abort();
    }
    memset(q + *room * size, 0, (more - *room) * size);
    *room = more;
    return q;
}

static struct replica_committed *at(struct replica_world *w, uint64_t index)
{
    w->at = grown(w->at, &w->at_room, index, sizeof *w->at);
    return &w->at[index];
}

uint64_t replica_hash(const struct bt_entry *e)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ e->kind;
    for (uint32_t i = 0; i < e->length; i++) {
        h = (h ^ e->body[i]) * UINT64_C(0x100000001b3);
    }
    return h ^ (h >> 29);
}

uint64_t replica_op(const struct bt_entry *e)
{
    if (bt_group_is_request(e)) {
        return e->length >= BT_GROUP_META + 8 ? bt_get64(e->body + BT_GROUP_META) : 0;
    }
    return e->kind == BT_ENTRY_COMMAND && e->length >= 8 ? bt_get64(e->body) : 0;
}

/* --- logs --- */

/* I-3: one entry for an index and a term, and one before it. */
static void know(struct replica_world *w, uint16_t id, const struct bt_entry *e, uint64_t prev_term)
{
    struct replica_committed *c = at(w, e->index);
    uint64_t hash = replica_hash(e);
    for (uint32_t k = c->known; k != 0; k = w->known[k].next) {
        const struct replica_known *had = &w->known[k];
        if (had->term != e->term) {
            continue;
        }
        if (had->hash != hash || (prev_term != 0 && had->prev_term != 0 && had->prev_term != prev_term)) {
            replica_breach(w, REPLICA_LOG_MATCHING, "member %u has another entry %llu of term %llu than there was", id,
                           (unsigned long long)e->index, (unsigned long long)e->term);
        }
        return;
    }
    if (w->known_n + 1 >= w->known_room) {
        w->known_room = 2 * w->known_room + 1024;
        w->known = realloc(w->known, w->known_room * sizeof *w->known);
        if (w->known == NULL) {
            abort();
        }
    }
    uint32_t n = ++w->known_n; /* 0 is none */
    w->known[n] = (struct replica_known){.term = e->term, .hash = hash, .prev_term = prev_term, .next = c->known};
    c->known = n;
}

static uint64_t term_at(const struct bt_replica *r, uint64_t index)
{
    struct bt_entry e;
    return bt_replica_entry(r, index, &e) ? e.term : 0;
}

/* only after an entry of the own term, and never two that are not committed. */
static void check_change(struct replica_world *w, uint16_t id, const struct bt_replica_status *s, uint64_t index)
{
    const struct bt_replica *r = w->member[id].core;
    if (s->commit >= s->first && term_at(r, s->commit) != s->term) {
        replica_breach(w, REPLICA_MEMBERSHIP,
                       "member %u changes the membership before an entry of its term %llu is committed", id,
                       (unsigned long long)s->term);
    }
    struct bt_entry e;
    for (uint64_t i = s->commit + 1; i < index; i++) {
        if (bt_replica_entry(r, i, &e) && e.kind == BT_ENTRY_CONFIG) {
            replica_breach(w, REPLICA_MEMBERSHIP,
                           "member %u changes the membership at %llu before the change at %llu is committed", id,
                           (unsigned long long)index, (unsigned long long)i);
        }
    }
}

static bool executes(const struct bt_entry *e, uint16_t id)
{
    return e->kind == BT_ENTRY_WRITE || (e->kind == BT_ENTRY_READ && bt_group_meta_get(e->body).replier == id);
}

/* I-10: as far as the leader knows, whoever is to answer has at most B to execute, this one among them. */
static void check_bound(struct replica_world *w, uint16_t id, const struct bt_replica_status *s,
                        const struct bt_entry *of)
{
    uint16_t replier = bt_group_meta_get(of->body).replier;
    struct bt_replica_peer p = {.applied = s->applied};
    struct bt_entry e;
    uint32_t depth = 0;
    if (replier != id && !bt_replica_peer(w->member[id].core, replier, &p)) {
        return; /* left meanwhile */
    }
    for (uint64_t i = of->index; i > p.applied && bt_replica_entry(w->member[id].core, i, &e); i--) {
        depth += executes(&e, replier);
    }
    if (depth > w->rules.apart.bound) {
        replica_breach(w, REPLICA_BOUND, "leader %u names member %u for entry %llu, its number %u to execute, above %u",
                       id, replier, (unsigned long long)of->index, depth, w->rules.apart.bound);
    }
}

static void check_log(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    struct replica_member *m = &w->member[id];
    if (m->seen_leader && s->role == BT_REPLICA_LEADER && m->seen_term == s->term && s->last < m->seen_last) {
        replica_breach(w, REPLICA_APPEND_ONLY, "leader %u took back entries from %llu", id,
                       (unsigned long long)s->last + 1);
    }
    struct bt_entry e;
    for (uint64_t i = s->last; i >= s->first && bt_replica_entry(m->core, i, &e); i--) {
        uint64_t *shadow = &m->shadow[i % REPLICA_SLOTS];
        if (i <= m->seen_last && *shadow == e.term) {
            break;
        }
        *shadow = e.term;
        know(w, id, &e, i == s->first ? 0 : term_at(m->core, i - 1));
        bool own = s->role == BT_REPLICA_LEADER && e.term == s->term;
        if (e.kind == BT_ENTRY_CONFIG && own) {
            check_change(w, id, s, i);
        }
        if (bt_group_is_request(&e) && own) {
            check_bound(w, id, s, &e);
        }
    }
    m->seen_last = s->last;
}

/* --- majorities --- */

void replica_config_of(const struct replica_world *w, uint16_t id, struct bt_group_config *out, uint64_t *index)
{
    struct bt_replica_status s = bt_replica_status(w->member[id].core);
    struct bt_entry e;
    for (uint64_t i = s.last; i >= s.first && bt_replica_entry(w->member[id].core, i, &e); i--) {
        if (e.kind == BT_ENTRY_CONFIG) {
            bt_group_config_decode(e.body, e.length, out);
            *index = i;
            return;
        }
    }
    for (uint64_t i = s.first - 1; i > 0; i--) {
        if (w->at[i].is && w->at[i].config) {
            *out = w->at[i].body;
            *index = i;
            return;
        }
    }
    *out = w->at[0].body; /* the first one */
    *index = 0;
}

static uint32_t voters_of(const struct bt_group_config *c)
{
    uint32_t n = 0;
    for (int i = 0; i < c->count; i++) {
        n += c->member[i].role == BT_GROUP_VOTER;
    }
    return n;
}

static bool votes_in(const struct bt_group_config *c, uint16_t id)
{
    for (int i = 0; i < c->count; i++) {
        if (c->member[i].id == id) {
            return c->member[i].role == BT_GROUP_VOTER;
        }
    }
    return false;
}

static bool voted_for(const struct replica_world *w, uint16_t voter, uint64_t term, uint16_t to)
{
    const struct replica_vote *v = &w->vote[voter][term % REPLICA_VOTES];
    return v->term == term && v->to == to;
}

/* I-1, and a majority of the configuration in its log voted for it. */
static void check_election(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    w->leader_of = grown(w->leader_of, &w->terms_room, s->term, sizeof *w->leader_of);
    uint16_t had = w->leader_of[s->term];
    if (had != 0 && had != id) {
        replica_breach(w, REPLICA_TWO_LEADERS, "members %u and %u both lead term %llu", had, id,
                       (unsigned long long)s->term);
    }
    w->leader_of[s->term] = id;
    struct bt_group_config c;
    uint64_t index;
    replica_config_of(w, id, &c, &index);
    uint32_t votes = 0;
    for (int i = 0; i < c.count; i++) {
        votes += c.member[i].role == BT_GROUP_VOTER && voted_for(w, c.member[i].id, s->term, id);
    }
    if (!votes_in(&c, id)) {
        replica_breach(w, REPLICA_MEMBERSHIP, "member %u leads term %llu and has no vote", id,
                       (unsigned long long)s->term);
    }
    if (votes <= voters_of(&c) / 2) {
        replica_breach(w, REPLICA_NO_MAJORITY, "member %u leads term %llu with %u votes of %u", id,
                       (unsigned long long)s->term, votes, voters_of(&c));
    }
    w->count.elections++;
}

/* I-4: what was committed in an earlier term is in its log. */
static void check_complete(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    uint64_t i = w->commit;
    while (i > 0 && w->at[i].at_term >= s->term) {
        i--;
    }
    if (i < s->first) {
        return;
    }
    if (i > s->last || term_at(w->member[id].core, i) != w->at[i].term) {
        replica_breach(w, REPLICA_INCOMPLETE, "member %u leads term %llu without the committed entry %llu", id,
                       (unsigned long long)s->term, (unsigned long long)i);
    }
}

/* A commit is first seen at the leader: a majority of the voters has it on their disks, and it ends in its own term. */
static void check_held(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
{
    uint64_t term = term_at(w->member[id].core, s->commit);
    if (term != s->term) {
        replica_breach(w, REPLICA_INCOMPLETE, "leader %u of term %llu commits up to %llu, an entry of term %llu", id,
                       (unsigned long long)s->term, (unsigned long long)s->commit, (unsigned long long)term);
    }
    struct bt_group_config c;
    uint64_t index;
    replica_config_of(w, id, &c, &index);
    uint32_t holders = 0;
    for (int i = 0; i < c.count; i++) {
        const struct replica_member *m = &w->member[c.member[i].id];
        holders +=
            c.member[i].role == BT_GROUP_VOTER && m->disk != NULL && replica_disk_holds(m->disk, s->commit, term);
    }
    if (holders <= voters_of(&c) / 2) {
        replica_breach(w, REPLICA_NOT_DURABLE, "leader %u commits %llu, which %u of %u voters hold durably", id,
                       (unsigned long long)s->commit, holders, voters_of(&c));
    }
}

/* --- commits --- */

static void commit_first(struct replica_world *w, const struct bt_entry *e, uint64_t by_term)
{
    struct replica_committed *c = at(w, e->index);
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
    const struct replica_committed *c = at(w, e->index);
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
        check_held(w, id, s);
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
        uint64_t term = term_at(w->member[id].core, p.match);
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
    at(w, s.last);
    check_term(w, id, &s);
    check_log(w, id, &s);
    if (s.role == BT_REPLICA_LEADER && !(m->seen_leader && m->seen_term == s.term)) {
        check_election(w, id, &s);
        check_complete(w, id, &s);
    }
    if (s.role == BT_REPLICA_LEADER) {
        check_belief(w, id, &s);
    }
    check_commits(w, id, &s);
    if (s.role == BT_REPLICA_LEADER && s.config_index <= s.commit && !votes_in(s.config, id)) {
        replica_breach(w, REPLICA_MEMBERSHIP, "member %u leads term %llu after its removal at %llu was committed", id,
                       (unsigned long long)s.term, (unsigned long long)s.config_index);
    }
    check_fence(w, id, &s);
    m->seen_leader = s.role == BT_REPLICA_LEADER;
    m->seen_term = s.term;
}

/* --- what is said to others --- */

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
    uint64_t has = term_at(m->core, index); /* 0: its log begins after it */
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

/* I-15: a quorum of that membership has it on its disks, with an entry of that term; and never less than before. */
void replica_check_announced(struct replica_world *w, uint64_t term, const struct bt_group_committed *c)
{
    struct replica_aggregator *a = &w->aggregator;
    if (term == a->seen_term && c->epoch == a->seen_epoch && c->commit < a->seen_commit) {
        replica_breach(w, REPLICA_ANNOUNCED, "the aggregator announces %llu after %llu in term %llu",
                       (unsigned long long)c->commit, (unsigned long long)a->seen_commit, (unsigned long long)term);
    }
    a->seen_term = term;
    a->seen_epoch = c->epoch;
    a->seen_commit = c->commit;
    if (c->epoch > w->commit) {
        replica_breach(w, REPLICA_ANNOUNCED, "the aggregator counts by the membership of %llu, which is not committed",
                       (unsigned long long)c->epoch);
        return;
    }
    uint64_t i = c->epoch; /* or a snapshot's last entry, with the membership of before */
    while (i > 0 && !w->at[i].config) {
        i--;
    }
    const struct replica_committed *of = &w->at[i];
    if (c->commit <= w->commit) {
        return; /* judged before */
    }
    uint32_t holders = 0;
    for (int k = 0; k < of->body.count; k++) {
        const struct replica_member *m = &w->member[of->body.member[k].id];
        holders += of->body.member[k].role == BT_GROUP_VOTER && m->disk != NULL &&
                   replica_disk_holds(m->disk, c->commit, term);
    }
    if (holders <= voters_of(&of->body) / 2) {
        replica_breach(w, REPLICA_ANNOUNCED,
                       "the aggregator announces %llu of term %llu, which %u of %u voters hold durably",
                       (unsigned long long)c->commit, (unsigned long long)term, holders, voters_of(&of->body));
    }
}

/* --- the application --- */

/* I-8: the body is the one that was ordered. */
static void check_body(struct replica_world *w, uint16_t id, const struct bt_entry *e)
{
    struct bt_group_meta m = bt_group_meta_get(e->body);
    uint64_t op = replica_op(e);
    struct bt_addr client = replica_client_of(op);
    bool whole = e->length == BT_GROUP_META + m.length &&
                 bt_group_body_hash(w->rules.apart.key, e->body + BT_GROUP_META, m.length) == m.hash;
    bool read = e->kind == BT_ENTRY_READ;
    if (!whole || m.req_id != replica_req_id_of(w, op) || !bt_addr_eq(&m.client, &client) ||
        read != replica_is_read(w, op)) {
        replica_breach(w, REPLICA_WRONG_BODY, "member %u applies %llu with another body than its own", id,
                       (unsigned long long)e->index);
    }
}

/* What the table said is part of the state. Whoever applies an entry first says how it is. */
static void settle(struct replica_state *s, struct replica_committed *c, const struct replica_did *did)
{
    s->chain = (s->chain ^ did->status ^ did->index << 8) * UINT64_C(0x9e3779b97f4a7c15);
    if (!c->settled) {
        c->settled = true;
        c->executed = did->status == BT_SESSION_NEW;
        c->chain = s->chain;
    }
}

void replica_check_applied(struct replica_world *w, uint16_t id, const struct bt_entry *e, unsigned duty)
{
    struct replica_state *s = &w->member[id].state;
    struct replica_committed *c = at(w, e->index);
    if (e->index != s->applied + 1) {
        replica_breach(w, REPLICA_STATE_MACHINE, "member %u applies %llu after %llu", id, (unsigned long long)e->index,
                       (unsigned long long)s->applied);
        return;
    }
    if (bt_group_is_request(e)) {
        check_body(w, id, e);
    }
    s->applied = e->index;
    bool changes = e->kind != BT_ENTRY_READ && (!bt_group_is_request(e) || (duty & BT_REPLICA_EXECUTE) != 0);
    if (changes) {
        s->chain = (s->chain ^ replica_hash(e)) * UINT64_C(0x9e3779b97f4a7c15) + e->index;
    }
    if (replica_has_sessions(w)) {
        settle(s, c, &w->member[id].did);
    }
    if (changes) {
        replica_diverge_applied(w, id, e->index);
    }
    if (!c->is || (c->chain != s->chain && !w->member[id].astray)) {
        replica_breach(w, REPLICA_STATE_MACHINE, "member %u applied %llu and has another state", id,
                       (unsigned long long)e->index);
    }
}

void replica_check_answered(struct replica_world *w, uint16_t id, const struct bt_entry *e)
{
    struct replica_member *m = &w->member[id];
    const struct replica_committed *c = at(w, e->index);
    if (!c->is || c->replier != id || e->index <= m->answered) {
        replica_breach(w, REPLICA_WRONG_REPLIER, "member %u answers %llu, which is member %u's", id,
                       (unsigned long long)e->index, c->replier);
    }
    if (c->read && m->state.chain != c->chain && !m->astray) {
        replica_breach(w, REPLICA_READS, "member %u answers the read at %llu from another state", id,
                       (unsigned long long)e->index);
    }
    m->answered = e->index;
}

void replica_check_dropped(struct replica_world *w, uint64_t op)
{
    w->dropped = grown(w->dropped, &w->drops_room, w->drops, sizeof *w->dropped);
    w->dropped[w->drops++] = (struct replica_ack){0, op};
}

/* Answers that are lost with a member: what it was to answer and did not. */
void replica_check_crash(struct replica_world *w, uint16_t id)
{
    uint64_t lost = 0;
    struct bt_entry e;
    struct bt_replica *log = NULL;
    for (uint16_t k = 1; k < REPLICA_MEMBERS; k++) {
        if (w->member[k].core != NULL && bt_replica_status(w->member[k].core).role == BT_REPLICA_LEADER &&
            bt_replica_status(w->member[k].core).term == w->term_most) {
            log = w->member[k].core;
        }
    }
    for (uint64_t i = log != NULL ? bt_replica_status(log).last : 0;
         i > w->member[id].state.applied && bt_replica_entry(log, i, &e); i--) {
        lost += bt_group_is_request(&e) && bt_group_meta_get(e.body).replier == id;
    }
    w->lost_replies_most = lost > w->lost_replies_most ? lost : w->lost_replies_most;
    if (w->mode == REPLICA_KILLS && lost > w->rules.apart.bound) {
        replica_breach(w, REPLICA_BOUND, "with member %u go %llu answers, above %u", id, (unsigned long long)lost,
                       w->rules.apart.bound);
    }
}

void replica_check_restored(struct replica_world *w, uint16_t id, uint64_t last_index)
{
    const struct replica_state *s = &w->member[id].state;
    const struct replica_committed *c = at(w, last_index);
    if (replica_diverges(w)) {
        replica_diverge_restored(w, id, s->chain == c->chain);
    }
    if (!c->is || s->applied != last_index || (s->chain != c->chain && !w->member[id].astray)) {
        replica_breach(w, REPLICA_SNAPSHOTS, "member %u restores the state after %llu as the one after %llu", id,
                       (unsigned long long)s->applied, (unsigned long long)last_index);
    }
}

static bool same_members(const struct bt_group_config *a, const struct bt_group_config *b)
{
    for (int i = 0; i < a->count && a->count == b->count; i++) {
        if (a->member[i].id != b->member[i].id || a->member[i].role != b->member[i].role) {
            return false;
        }
    }
    return a->count == b->count;
}

void replica_check_snapshot(struct replica_world *w, uint16_t id, const struct bt_snapshot *s)
{
    uint64_t i = s->last_index <= w->commit ? s->last_index : w->commit;
    while (i > 0 && !w->at[i].config) {
        i--;
    }
    if (s->last_index > w->commit || !same_members(&s->config, &w->at[i].body)) {
        replica_breach(w, REPLICA_SNAPSHOTS,
                       "member %u stores a snapshot up to %llu with another configuration than %llu's", id,
                       (unsigned long long)s->last_index, (unsigned long long)i);
    }
}

void replica_check_acknowledged(struct replica_world *w, uint64_t index, uint64_t op, uint64_t floor)
{
    if (index > w->commit || replica_write_of(w, w->at[index].op) != replica_write_of(w, op)) {
        replica_breach(w, REPLICA_HISTORY, "write %llu is acknowledged at %llu, where another entry is",
                       (unsigned long long)op, (unsigned long long)index);
    }
    if (index <= floor) {
        replica_breach(w, REPLICA_HISTORY, "write %llu at %llu began after the one at %llu was acknowledged",
                       (unsigned long long)op, (unsigned long long)index, (unsigned long long)floor);
    }
    w->ack = grown(w->ack, &w->acks_room, w->acks, sizeof *w->ack);
    w->ack[w->acks++] = (struct replica_ack){index, op};
    w->acked_index = index > w->acked_index ? index : w->acked_index;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t attempt_at(const struct replica_world *w, uint64_t index)
{
    return w->at[index].op;
}

static uint64_t executed_at(const struct replica_world *w, uint64_t index)
{
    return w->at[index].executed ? replica_write_of(w, w->at[index].op) : 0;
}

/* Numbers but 0 that occur twice, of all that is committed. */
static uint64_t twice(const struct replica_world *w, uint64_t (*what)(const struct replica_world *w, uint64_t index))
{
    uint64_t *op = calloc(w->commit + 1, sizeof *op), n = 0, found = 0;
    if (op == NULL) {
        abort();
    }
    for (uint64_t i = 1; i <= w->commit; i++) {
        op[n] = what(w, i);
        n += op[n] != 0;
    }
    qsort(op, n, sizeof *op, by_number);
    for (uint64_t i = 1; i < n; i++) {
        found += op[i] == op[i - 1];
    }
    free(op);
    return found;
}

uint64_t replica_check_executed_twice(const struct replica_world *w)
{
    return twice(w, executed_at);
}

/* I-6: requests that a client was told DROP for, and that were executed. */
static uint64_t dropped_and_executed(const struct replica_world *w)
{
    uint64_t *op = calloc(w->commit + 1, sizeof *op), found = 0;
    if (op == NULL) {
        abort();
    }
    for (uint64_t i = 1; i <= w->commit; i++) {
        op[i - 1] = w->at[i].op;
    }
    qsort(op, w->commit, sizeof *op, by_number);
    for (uint64_t i = 0; i < w->drops; i++) {
        found += bsearch(&w->dropped[i].op, op, w->commit, sizeof *op, by_number) != NULL;
    }
    free(op);
    return found;
}

uint64_t replica_check_dropped_executed(const struct replica_world *w)
{
    return w->drops > 0 ? dropped_and_executed(w) : 0;
}

uint64_t replica_check_lost(const struct replica_world *w)
{
    uint64_t lost = twice(w, attempt_at);
    for (uint64_t i = 0; i < w->acks; i++) {
        const struct replica_ack *a = &w->ack[i];
        lost += a->index > w->commit || replica_write_of(w, w->at[a->index].op) != replica_write_of(w, a->op) ||
                (replica_has_sessions(w) && !w->at[a->index].executed);
    }
    return lost;
}
