// SPDX-License-Identifier: Apache-2.0
// See replica_clients.h.
#include "replica_clients.h"

#include <stdlib.h>

#include "replica_apart.h"
#include "replica_check_history.h"
#include "replica_net.h"
#include "replica_sessions.h"

/* With a bound of 1 a group takes one request after the other: who waits in a line of clients is patient. While there
 * are faults silence says nothing about the line. Later it says that it is longer than one waited: who asks again as
 * soon as before only makes it longer, by requests that nobody waits for any more. */
enum { GIVES_UP_MS = 60, GIVES_UP_APART_MS = 130, THINKS_MS = 6, DOUBLED_MOST = 4 };

struct answer {
    uint64_t op;
    struct replica_did did;
    bool refused;
    uint16_t leader;
};

static void wake_in(struct replica_world *w, uint32_t client, uint64_t ns)
{
    uint16_t latest = ++w->client[client].wake;
    sim_agenda_push(&w->agenda, w->agenda.now + ns, (struct sim_event){NULL, client, EV_CLIENT, latest});
}

void replica_clients_start(struct replica_world *w)
{
    for (uint32_t i = 0; i < w->rules.clients; i++) {
        w->client[i].target = (uint16_t)replica_draw(w, 1, w->rules.members);
        wake_in(w, i, bt_rng_next(&w->rng) % (20 * SIM_MS));
    }
}

static uint64_t patience_ns(const struct replica_world *w, const struct replica_client *c)
{
    uint64_t ms = replica_is_apart(w) ? GIVES_UP_APART_MS : GIVES_UP_MS;
    return (ms << (c->silent < DOUBLED_MOST ? c->silent : DOUBLED_MOST)) * SIM_MS;
}

static uint16_t another(struct replica_world *w)
{
    for (int tries = 0; tries < 20; tries++) {
        uint16_t id = (uint16_t)replica_draw(w, 1, REPLICA_MEMBERS - 1);
        if (w->member[id].exists) {
            return id;
        }
    }
    return 1;
}

bool replica_client_wake(struct replica_world *w, const struct sim_event *ev)
{
    uint32_t client = ev->node;
    struct replica_client *c = &w->client[client];
    if (w->closing || ev->arg != c->wake) {
        return false;
    }
    if (c->op != 0) {
        c->target = another(w); /* it was waited for */
        c->silent += w->calm;
    }
    if (replica_has_sessions(w)) {
        c->op = replica_attempt(w, client);
    } else {
        c->op = (uint64_t)(client + 1) << 40 | ++c->seq;
        c->floor = w->acked_index;
    }
    c->sent_at = w->agenda.now;
    w->count.writes++;
    wake_in(w, client, patience_ns(w, c));
    return true;
}

static void answer(struct replica_world *w, uint32_t client, struct answer a)
{
    uint64_t after = replica_net_client(w);
    if (after == 0) {
        return;
    }
    struct answer *p = malloc(sizeof *p);
    if (p == NULL) {
        abort();
    }
    *p = a;
    sim_agenda_push(&w->agenda, w->agenda.now + after, (struct sim_event){p, client, EV_ANSWER, 0});
}

void replica_client_answer(struct replica_world *w, uint32_t client, uint64_t op, const struct replica_did *did)
{
    answer(w, client, (struct answer){.op = op, .did = *did});
}

void replica_client_refused(struct replica_world *w, uint32_t client, uint64_t op, uint16_t leader)
{
    answer(w, client, (struct answer){.op = op, .refused = true, .leader = leader});
}

static void note_failover(struct replica_world *w)
{
    if (w->killed_at == 0) {
        return;
    }
    uint32_t room = sizeof w->failover / sizeof w->failover[0];
    if (w->failovers < room) {
        w->failover[w->failovers++] = w->agenda.now - w->killed_at;
    }
    w->killed_at = 0;
}

void replica_client_answered(struct replica_world *w, const struct sim_event *ev)
{
    struct replica_client *c = &w->client[ev->node];
    struct answer *a = ev->ptr;
    bool mine = a->op == c->op;
    c->silent = mine && !a->refused ? 0 : c->silent;
    if (mine && !a->refused && replica_has_sessions(w) && !replica_attempt_answered(w, ev->node, &a->did)) {
        c->op = 0;
        wake_in(w, ev->node, bt_rng_next(&w->rng) % SIM_MS);
    } else if (mine && !a->refused) {
        replica_check_acknowledged(w, a->did.index, a->op, c->floor);
        c->op = 0;
        c->acked++;
        w->count.acked++;
        if (c->sent_at > w->killed_at) {
            note_failover(w);
        }
        wake_in(w, ev->node, bt_rng_next(&w->rng) % (THINKS_MS * SIM_MS));
    } else if (mine) {
        c->op = 0;
        c->target = a->leader != 0 && w->member[a->leader].exists ? a->leader : another(w);
        wake_in(w, ev->node, SIM_MS + bt_rng_next(&w->rng) % (5 * SIM_MS));
    }
    free(a);
}
