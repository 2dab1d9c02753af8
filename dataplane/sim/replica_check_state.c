// SPDX-License-Identifier: Apache-2.0
// See replica_check_state.h.
#include "replica_check_state.h"

#include "replica_apart.h"
#include "replica_diverge.h"
#include "replica_sessions.h"

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
    struct replica_committed *c = replica_at(w, e->index);
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
    const struct replica_committed *c = replica_at(w, e->index);
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
    w->dropped = replica_grown(w->dropped, &w->drops_room, w->drops, sizeof *w->dropped);
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
    const struct replica_committed *c = replica_at(w, last_index);
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
