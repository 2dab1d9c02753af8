// SPDX-License-Identifier: Apache-2.0
// See migrate.h and Z-13. What `from` saw goes before what `to` saw: first the flows that were ready, with the events
// they had, then what `from` put aside, then what `to` did.
#include "sched/migrate.h"

#include "sched/flow.h"
#include "sched/lock.h"
#include "sched/queue.h"

static uint32_t word(enum sched_phase phase, uint32_t from, uint32_t to)
{
    return (uint32_t)phase | from << 8 | to << 16;
}

static uint32_t phase_of(uint32_t now)
{
    return now & 0xffu;
}

static uint32_t from_of(uint32_t now)
{
    return now >> 8 & 0xffu;
}

static uint32_t to_of(uint32_t now)
{
    return now >> 16;
}

/* The next phase of the migration that `now` tells of. */
static void enter(struct bt_sched *s, uint32_t now, enum sched_phase phase)
{
    sched_store(&s->move.now, word(phase, from_of(now), to_of(now)), release);
}

static bool in_set(const struct sched_migration *m, uint32_t group)
{
    return (m->set[group / 64u] >> (group % 64u) & 1u) != 0;
}

uint32_t bt_sched_home(const struct bt_sched *s, uint32_t group)
{
    return sched_load(&s->group[group].owner, acquire) & ~SCHED_TAG;
}

bool bt_sched_moving(const struct bt_sched *s, uint32_t group)
{
    return (sched_load(&s->group[group].owner, acquire) & SCHED_TAG) != 0;
}

bool bt_sched_move_pending(const struct bt_sched *s)
{
    return sched_load(&s->move.now, acquire) != SCHED_REST;
}

enum bt_sched_phase bt_sched_move_phase(const struct bt_sched *s)
{
    return (enum bt_sched_phase)phase_of(sched_load(&s->move.now, acquire));
}

bool bt_sched_move_set(const struct bt_sched *s, uint32_t group)
{
    return in_set(&s->move, group);
}

static bool all_at(const struct bt_sched *s, uint32_t from, const uint64_t *set)
{
    bool any = false;
    for (uint32_t g = 0; g < s->setup.groups; g++) {
        if ((set[g / 64u] >> (g % 64u) & 1u) != 0) {
            any = true;
            if (sched_load(&s->group[g].owner, acquire) != from) {
                return false;
            }
        }
    }
    return any;
}

bool bt_sched_move(struct bt_sched *s, uint32_t from, uint32_t to, const uint64_t *set, uint64_t wait_ns)
{
    struct sched_migration *m = &s->move;
    if (sched_load(&m->now, acquire) != SCHED_REST || from >= s->setup.cores || to >= s->setup.cores || from == to ||
        !all_at(s, from, set)) {
        return false;
    }
    for (uint32_t i = 0; i <= (s->setup.groups - 1u) / 64u; i++) {
        m->set[i] = set[i];
    }
    sched_put(&m->wait_ns, wait_ns);
    sched_events_clear(&m->remote);
    sched_events_clear(&m->local);
    sched_flows_clear(&m->parked);
    sched_store(&m->now, word(SCHED_ASKED, from, to), release);
    return true;
}

bool sched_migrate_hold(struct bt_sched *s, uint32_t home, uint32_t group, struct bt_sched_event *event)
{
    struct sched_migration *m = &s->move;
    uint32_t now = sched_load(&m->now, acquire), phase = phase_of(now);
    bool to = home == to_of(now), from = home == from_of(now) && phase != SCHED_HANDED;
    if (phase < SCHED_HOLDING || (!to && !from) || !in_set(m, group)) {
        return false;
    }
    sched_events_add(to ? &m->local : &m->remote, event);
    return true;
}

static void tag_groups(struct bt_sched *s, uint32_t from)
{
    for (uint32_t g = 0; g < s->setup.groups; g++) {
        if (in_set(&s->move, g)) {
            sched_store(&s->group[g].owner, from | SCHED_TAG, release);
        }
    }
}

/* Ready flows of the set leave the shuffle queue, the others keep their order. */
static void park_ready(struct bt_sched *s, uint32_t from)
{
    struct sched_core *c = &s->core[from];
    struct sched_flows all = c->queue;
    uint32_t flow;
    sched_flows_clear(&c->queue);
    sched_store(&c->ready, 0u, relaxed);
    while ((flow = sched_flows_take(s, &all)) != BT_SCHED_NONE) {
        if (in_set(&s->move, sched_get(&s->flow[flow].group))) {
            sched_flows_add(s, &s->move.parked, flow);
        } else {
            sched_queue_add(s, from, flow);
        }
    }
}

static enum bt_sched_moved begin(struct bt_sched *s, uint32_t word_now, uint64_t now)
{
    struct sched_migration *m = &s->move;
    uint32_t from = from_of(word_now);
    struct sched_core *c = &s->core[from];
    sched_lock(c);
    tag_groups(s, from);
    park_ready(s, from);
    sched_unlock(c);
    sched_put(&m->deadline, now + sched_get(&m->wait_ns));
    enter(s, word_now, SCHED_HOLDING);
    return BT_SCHED_MOVE_REDIRECT;
}

/* Flows of the set that are executed now, or whose replies have not left. */
static bool any_busy(struct bt_sched *s, uint32_t from)
{
    bool busy = false;
    sched_lock(&s->core[from]);
    for (uint32_t g = 0; g < s->setup.groups && !busy; g++) {
        busy = in_set(&s->move, g) && sched_get(&s->group[g].busy) != 0;
    }
    sched_unlock(&s->core[from]);
    return busy;
}

static void deliver_held(struct bt_sched *s, uint32_t to, struct sched_events *held)
{
    struct bt_sched_event *e = sched_events_take(held, 0), *next;
    for (; e != NULL; e = next) {
        next = sched_get(&e->next);
        sched_flow_event(s, to, e);
    }
}

static enum bt_sched_moved adopt(struct bt_sched *s, uint32_t to)
{
    struct sched_migration *m = &s->move;
    struct sched_core *c = &s->core[to];
    uint32_t flow;
    sched_lock(c);
    while ((flow = sched_flows_take(s, &m->parked)) != BT_SCHED_NONE) {
        sched_queue_add(s, to, flow);
    }
    deliver_held(s, to, &m->remote);
    deliver_held(s, to, &m->local);
    for (uint32_t g = 0; g < s->setup.groups; g++) {
        if (in_set(m, g)) {
            sched_store(&s->group[g].owner, to, release);
            sched_note(&c->moved);
        }
    }
    sched_unlock(c);
    sched_store(&m->now, (uint32_t)SCHED_REST, release);
    return BT_SCHED_MOVE_DONE;
}

static enum bt_sched_moved step_from(struct bt_sched *s, uint32_t word_now, bool empty, uint64_t now)
{
    if (phase_of(word_now) == SCHED_ASKED) {
        return begin(s, word_now, now);
    }
    if (phase_of(word_now) == SCHED_CLOSING && empty && !any_busy(s, from_of(word_now))) {
        enter(s, word_now, SCHED_HANDED);
    }
    return BT_SCHED_MOVE_NOTHING;
}

static enum bt_sched_moved step_to(struct bt_sched *s, uint32_t word_now, uint64_t now)
{
    struct sched_migration *m = &s->move;
    bool holding = phase_of(word_now) == SCHED_HOLDING;
    if (holding && (sched_get(&m->local.first) != NULL || now >= sched_get(&m->deadline))) {
        enter(s, word_now, SCHED_CLOSING);
    }
    return phase_of(word_now) == SCHED_HANDED ? adopt(s, to_of(word_now)) : BT_SCHED_MOVE_NOTHING;
}

enum bt_sched_moved bt_sched_move_step(struct bt_sched *s, uint32_t home, bool empty, uint64_t now)
{
    uint32_t word_now = sched_load(&s->move.now, acquire);
    if (word_now == SCHED_REST) {
        return BT_SCHED_MOVE_NOTHING;
    }
    if (home == from_of(word_now)) {
        return step_from(s, word_now, empty, now);
    }
    return home == to_of(word_now) ? step_to(s, word_now, now) : BT_SCHED_MOVE_NOTHING;
}
