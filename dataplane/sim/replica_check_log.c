// SPDX-License-Identifier: Apache-2.0
// See replica_check_log.h.
#include "replica_check_log.h"

#include <stdlib.h>

/* I-3: one entry for an index and a term, and one before it. */
static void know(struct replica_world *w, uint16_t id, const struct bt_entry *e, uint64_t prev_term)
{
    struct replica_committed *c = replica_at(w, e->index);
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

/* only after an entry of the own term, and never two that are not committed. */
static void check_change(struct replica_world *w, uint16_t id, const struct bt_replica_status *s, uint64_t index)
{
    const struct bt_replica *r = w->member[id].core;
    if (s->commit >= s->first && replica_term_at(r, s->commit) != s->term) {
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

void replica_check_log(struct replica_world *w, uint16_t id, const struct bt_replica_status *s)
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
        know(w, id, &e, i == s->first ? 0 : replica_term_at(m->core, i - 1));
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
