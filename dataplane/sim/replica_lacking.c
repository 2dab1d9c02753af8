// SPDX-License-Identifier: Apache-2.0
// See replica_lacking.h.
#include "replica_lacking.h"

#include "replica_check.h"

/* QUESTIONS: of a member whose key is wrong, in at most 400 ms. Asked as often as the others' questions it were 800. */
enum { PLANTS = 3, APART_MS = 100, QUESTIONS = 200 };

static bool anybody_wrong(const struct replica_world *w)
{
    for (uint16_t id = 1; id < REPLICA_MEMBERS; id++) {
        if (w->member[id].wrong_until != 0) {
            return true;
        }
    }
    return false;
}

static uint64_t questions(const struct replica_world *w, uint16_t id)
{
    return bt_replica_counters(w->member[id].core)[BT_REPLICA_RECOVERIES_TOTAL];
}

static void begin(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    uint8_t key[16];
    for (uint32_t i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)(1 + bt_rng_below(&w->rng, 255));
    }
    bt_replica_body_key(m->core, key);
    uint64_t until = w->agenda.now + replica_draw(w, 5, 400) * SIM_MS;
    m->wrong_until = replica_chance(w, 0.2) ? UINT64_MAX : until;
    m->asked_before = questions(w, id);
    w->planted++;
    w->plant_at = until + APART_MS * SIM_MS;
    w->count.planted++;
}

static void end(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    if (questions(w, id) - m->asked_before > QUESTIONS) {
        replica_breach(w, REPLICA_QUESTIONS, "member %u asked %llu times for bodies that nobody can give it", id,
                       (unsigned long long)(questions(w, id) - m->asked_before));
    }
    bt_replica_body_key(m->core, w->rules.apart.key);
    m->wrong_until = 0;
}

/* One at a time: more than one may be a majority that commits what the others cannot read. */
void replica_lacking_input(struct replica_world *w, uint16_t id)
{
    struct replica_member *m = &w->member[id];
    if (m->wrong_until != 0 && w->agenda.now >= m->wrong_until) {
        end(w, id);
    } else if (replica_lacks(w) && !w->calm && w->planted < PLANTS && w->agenda.now >= w->plant_at &&
               replica_chance(w, 0.01) && !anybody_wrong(w)) {
        begin(w, id);
    }
}

void replica_lacking_started(struct replica_world *w, uint16_t id)
{
    w->member[id].wrong_until = 0;
}
