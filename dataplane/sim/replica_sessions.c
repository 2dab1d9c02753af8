// SPDX-License-Identifier: Apache-2.0
// See replica_sessions.h.
#include "replica_sessions.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "replica_record.h"

/* Sends come round after a multiple of the request ids of a pair, and so late that none is a write's twice: one that is
 * refused is sent again at once. */
enum { CLIENT_AT = 40, SEND_AT = 26, SESSION_AT = 16, SENDS = 16320, SESSIONS = 1024 };
#define WRITES    UINT64_C(0xffff)
#define SEND_BITS (UINT64_C(0x3fff) << SEND_AT)

/* A client goes on to the next write without an answer; or to another session, with nothing wrong with this one. */
#define GIVES_UP 0.1
#define LEAVES   0.04

/* An attempt that is late comes after others that its client made meanwhile. */
#define LATE 0.08
enum { LATE_LEAST_MS = 40, LATE_MOST_MS = 600 };

bool replica_in_session(const struct replica_world *w, uint64_t op)
{
    return replica_has_sessions(w) && op != 0 && (op >> CLIENT_AT) <= REPLICA_CLIENTS;
}

uint64_t replica_write_of(const struct replica_world *w, uint64_t op)
{
    return replica_in_session(w, op) ? op & ~SEND_BITS : op;
}

uint64_t replica_send_of(const struct replica_world *w, uint64_t op)
{
    return replica_in_session(w, op) ? (op & SEND_BITS) >> SEND_AT : op;
}

uint64_t replica_attempt(struct replica_world *w, uint32_t client)
{
    struct replica_client *c = &w->client[client];
    if (c->op != 0 && replica_chance(w, GIVES_UP)) {
        c->again = false; /* what a later number makes void, if that gets there first */
    }
    if (!c->again && replica_chance(w, LEAVES)) {
        c->opened = false;
    }
    if (!c->opened && !c->again) {
        c->session = (c->session + 1) % SESSIONS;
        c->seq = 0;
    } else if (!c->again) {
        c->seq++;
    }
    c->floor = c->again ? c->floor : w->acked_index;
    c->again = true;
    c->sends = (c->sends + 1) % SENDS;
    return (uint64_t)(client + 1) << CLIENT_AT | (uint64_t)c->sends << SEND_AT | (uint64_t)c->session << SESSION_AT |
           c->seq;
}

uint64_t replica_late_attempt(struct replica_world *w)
{
    bool late = replica_has_sessions(w) && !w->calm && replica_chance(w, LATE);
    return late ? replica_draw(w, LATE_LEAST_MS, LATE_MOST_MS) * SIM_MS : 0;
}

bool replica_attempt_answered(struct replica_world *w, uint32_t client, const struct replica_did *did)
{
    struct replica_client *c = &w->client[client];
    c->again = false;
    if (did->status == BT_SESSION_OPENED) {
        c->opened = true;
        c->seq = did->index;
        return false;
    }
    if (did->status != BT_SESSION_NEW && did->status != BT_SESSION_DONE) {
        c->opened = false; /* forgotten: nobody knows of this write, and another session is begun */
        w->count.forgotten++;
        return false;
    }
    w->count.repeated += did->status == BT_SESSION_DONE;
    return true;
}

/* --- at a member --- */

struct replica_did replica_do(struct replica_world *w, uint16_t id, const struct bt_entry *e)
{
    struct bt_sessions *s = w->member[id].sessions;
    struct replica_did did = {BT_SESSION_NEW, e->index};
    uint64_t op = replica_op(e), session = (replica_write_of(w, op) & ~WRITES) >> SESSION_AT;
    const uint8_t *reply = NULL;
    uint32_t n = 0;
    if (!replica_in_session(w, op)) {
        return did;
    }
    did.status = bt_sessions_ask(s, e->index, session, op & WRITES, &reply, &n);
    if (did.status == BT_SESSION_NEW) {
        uint8_t where[8];
        bt_put64(where, e->index);
        bt_sessions_done(s, session, where, sizeof where);
    } else {
        did.index = n == 8 ? bt_get64(reply) : 0;
    }
    return did;
}

uint64_t replica_sessions_write(const struct replica_world *w, const struct bt_sessions *s, uint8_t *p, uint64_t room)
{
    return replica_has_sessions(w) ? bt_sessions_write(s, p, room) : 0;
}

bool replica_sessions_restore(struct replica_world *w, uint16_t id, const uint8_t *p, uint64_t n)
{
    return !replica_has_sessions(w) || bt_sessions_read(w->member[id].sessions, p, n) != 0;
}

void replica_sessions_forget(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    if (!replica_has_sessions(w)) {
        return;
    }
    m->sessions = m->sessions != NULL ? m->sessions : calloc(1, sizeof *m->sessions);
    if (m->sessions == NULL) {
        abort();
    }
    m->sessions->count = 0;
    m->sessions->most = w->rules.sessions;
}
