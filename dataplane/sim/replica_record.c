// SPDX-License-Identifier: Apache-2.0
// See replica_record.h.
#include "replica_record.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

const char *replica_breach_name(enum replica_breach b)
{
    static const char *const names[REPLICA_BREACHES] = {
        "held",          "two-leaders",    "append-only",   "log-matching", "leader-completeness",
        "state-machine", "history",        "not-durable",   "indices",      "two-votes",
        "no-majority",   "membership",     "snapshots",     "foreign-term", "store-misuse",
        "wrong-body",    "bound",          "wrong-replier", "reads",        "dropped-but-executed",
        "announced",     "executed-twice", "fence",         "questions",    "no-progress"};
    return names[b];
}

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

void *replica_grown(void *p, uint64_t *room, uint64_t need, size_t size)
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

struct replica_committed *replica_at(struct replica_world *w, uint64_t index)
{
    w->at = replica_grown(w->at, &w->at_room, index, sizeof *w->at);
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

uint64_t replica_term_at(const struct bt_replica *r, uint64_t index)
{
    struct bt_entry e;
    return bt_replica_entry(r, index, &e) ? e.term : 0;
}

/* That which was in force before entry `before`. */
static void config_before(const struct replica_world *w, uint16_t id, uint64_t before, struct bt_group_config *out,
                          uint64_t *index)
{
    struct bt_replica_status s = bt_replica_status(w->member[id].core);
    struct bt_entry e;
    for (uint64_t i = before - 1; i >= s.first && bt_replica_entry(w->member[id].core, i, &e); i--) {
        if (e.kind == BT_ENTRY_CONFIG) {
            bt_group_config_decode(e.body, e.length, out);
            *index = i;
            return;
        }
    }
    for (uint64_t i = before < s.first ? before - 1 : s.first - 1; i > 0; i--) {
        if (w->at[i].is && w->at[i].config) {
            *out = w->at[i].body;
            *index = i;
            return;
        }
    }
    *out = w->at[0].body; /* the first one */
    *index = 0;
}

void replica_config_of(const struct replica_world *w, uint16_t id, struct bt_group_config *out, uint64_t *index)
{
    config_before(w, id, bt_replica_status(w->member[id].core).last + 1, out, index);
}

bool replica_may_stand(const struct replica_world *w, uint16_t id)
{
    struct bt_group_config c;
    uint64_t index;
    replica_config_of(w, id, &c, &index);
    if (!replica_votes_in(&c, id) && index > bt_replica_status(w->member[id].core).commit) {
        config_before(w, id, index, &c, &index);
    }
    return replica_votes_in(&c, id);
}

uint32_t replica_voters_of(const struct bt_group_config *c)
{
    uint32_t n = 0;
    for (int i = 0; i < c->count; i++) {
        n += c->member[i].role == BT_GROUP_VOTER;
    }
    return n;
}

bool replica_votes_in(const struct bt_group_config *c, uint16_t id)
{
    for (int i = 0; i < c->count; i++) {
        if (c->member[i].id == id) {
            return c->member[i].role == BT_GROUP_VOTER;
        }
    }
    return false;
}
