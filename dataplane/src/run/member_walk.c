// SPDX-License-Identifier: Apache-2.0
// The document names the voters that are wanted, and the leader walks there: one change at a time, who is new
// first and promoted when it has caught up, who is too many last. A leader that is to go, or is to be avoided, hands
// over instead.
#include <stdio.h>

#include "run/member_internal.h"

static const uint64_t PACE_NS = 50000000;

static bool votes(const struct bt_replica_status *s, uint16_t id, bool *there)
{
    *there = false;
    for (uint16_t i = 0; i < s->config->count; i++) {
        if (s->config->member[i].id == id) {
            *there = true;
            return s->config->member[i].role == BT_GROUP_VOTER;
        }
    }
    return false;
}

static void change(struct bt_member *m, enum bt_replica_change what, const struct bt_group_document_member *d,
                   uint16_t id)
{
    uint64_t index;
    char text[160];
    static const char *const words[] = {[BT_REPLICA_ADD_LEARNER] = "is added",
                                        [BT_REPLICA_PROMOTE] = "gets its vote",
                                        [BT_REPLICA_REMOVE] = "is removed"};
    struct bt_member_order o = {.change = what, .id = id};
    if (d != NULL) {
        o.address = d->address;
        o.client = d->client;
        o.name = d->name;
    }
    if (bt_member_change(m, m->now, &o, &index) == BT_REPLICA_OK) {
        snprintf(text, sizeof text, "member %u (%s) %s, as the document wants", id, member_name(m, id), words[what]);
        m->conf.say(m->conf.arg, false, text);
    }
}

// True while somebody who is wanted has no vote yet.
static bool bring_in(struct bt_member *m, const struct bt_replica_status *s)
{
    for (size_t i = 0; i < m->document.n_wanted; i++) {
        bool there;
        uint16_t id = (uint16_t)m->document.wanted[i];
        if (votes(s, id, &there)) {
            continue;
        }
        change(m, there ? BT_REPLICA_PROMOTE : BT_REPLICA_ADD_LEARNER, bt_group_document_by_id(&m->document, id), id);
        return true;
    }
    return false;
}

static void take_out(struct bt_member *m, const struct bt_replica_status *s)
{
    for (uint16_t i = 0; i < s->config->count; i++) {
        uint16_t id = s->config->member[i].id;
        if (id != m->id && !bt_group_document_wants(&m->document, id)) {
            change(m, BT_REPLICA_REMOVE, NULL, id);
            return;
        }
    }
}

// To the voter that has most, of those that may lead; nobody: it stays.
static void give_away(struct bt_member *m, const struct bt_replica_status *s)
{
    struct bt_replica_peer peer;
    uint64_t most = 0;
    uint16_t best = 0, to;
    for (uint16_t i = 0; i < s->config->count; i++) {
        const struct bt_group_member *g = &s->config->member[i];
        bool wanted = !m->document.wanted_given || bt_group_document_wants(&m->document, g->id);
        bool may = g->id != m->id && g->role == BT_GROUP_VOTER && wanted &&
                   !bt_group_document_avoids(&m->document, g->id) && bt_replica_peer(m->core, g->id, &peer) &&
                   peer.diverged == 0 && m->now - peer.heard_ns < (uint64_t)m->document.election_ms * 1000000;
        if (may && (best == 0 || peer.match > most)) {
            best = g->id;
            most = peer.match;
        }
    }
    if (best != 0) {
        bt_member_transfer(m, m->now, best, &to);
    }
}

void member_walk_turn(struct bt_member *m)
{
    struct bt_replica_status s = bt_replica_status(m->core);
    const struct bt_group_document *d = &m->document;
    bool idle = m->now < m->walk_at || s.role != BT_REPLICA_LEADER || m->phase != BT_MEMBER_RUNNING;
    if (idle || !m->roster.formed || s.config_index > s.commit || m->applied < m->order_index) {
        return;
    }
    m->walk_at = m->now + PACE_NS;
    if (d->wanted_given && bring_in(m, &s)) {
        return;
    }
    bool unwanted = d->wanted_given && !bt_group_document_wants(d, m->id);
    if (unwanted || bt_group_document_avoids(d, m->id)) {
        give_away(m, &s);
    } else if (d->wanted_given) {
        take_out(m, &s);
    }
}
