// SPDX-License-Identifier: Apache-2.0
// What a leader puts into the log for the group itself: whose disk is whose, that the group is formed,
// and changes of its membership.
#include <stdio.h>
#include <string.h>

#include "run/member_internal.h"

// One thing at a time: what was put in before has taken effect, or was taken back by another leader.
static bool may_order(const struct bt_member *m, const struct bt_replica_status *s)
{
    bool settled = m->applied >= m->order_index || s->last < m->order_index;
    return s->role == BT_REPLICA_LEADER && !s->failed && settled && m->phase == BT_MEMBER_RUNNING;
}

static bool order(struct bt_member *m, const struct bt_command *c)
{
    uint8_t p[BT_COMMAND_HEAD + 24 + BT_COMMAND_NAME + BT_GROUP_CONFIG_MAX];
    uint64_t index;
    uint32_t n = bt_command_put(p, sizeof p, c);
    if (n == 0 || bt_replica_propose(m->core, m->now, p, n, &index) != BT_REPLICA_OK) {
        return false;
    }
    m->order_index = index;
    return true;
}

// The disk that this id speaks with; 0: it was not heard of yet.
static uint64_t disk_of(const struct bt_member *m, uint16_t id)
{
    const struct member_heard *h = member_heard_of(m, id);
    return id == m->id ? m->disk : h != NULL ? h->disk : 0;
}

static void register_next(struct bt_member *m, const struct bt_group_config *c)
{
    for (uint16_t i = 0; i < c->count; i++) {
        uint16_t id = c->member[i].id;
        const struct bt_roster_row *row = bt_roster_find(&m->roster, id);
        uint64_t disk = disk_of(m, id);
        if ((row == NULL || !row->registered) && disk != 0) {
            order(m, &(struct bt_command){.kind = BT_COMMAND_REGISTER, .id = id, .disk = disk});
            return;
        }
    }
}

// Every voter's disk is registered, and every voter holds the entries that say so: whoever comes back with an empty
// disk is known to be a stranger wherever a vote could be asked for.
static bool may_form(const struct bt_member *m, const struct bt_replica_status *s)
{
    for (uint16_t i = 0; i < s->config->count; i++) {
        uint16_t id = s->config->member[i].id;
        const struct bt_roster_row *row = bt_roster_find(&m->roster, id);
        struct bt_replica_peer peer;
        if (row == NULL || !row->registered) {
            return false;
        }
        uint64_t holds = id == m->id ? s->durable : bt_replica_peer(m->core, id, &peer) ? peer.match : 0;
        if (holds < m->roster.registered_at) {
            return false;
        }
    }
    return s->config->count != 0;
}

void member_group_turn(struct bt_member *m)
{
    struct bt_replica_status s = bt_replica_status(m->core);
    if (!may_order(m, &s)) {
        return;
    }
    register_next(m, s.config);
    if (!m->roster.formed && m->applied >= m->order_index && may_form(m, &s)) {
        order(m, &(struct bt_command){.kind = BT_COMMAND_FORMED, .config = *s.config});
    }
    if (m->roster.formed && m->applied >= m->order_index && member_wants_key(m)) {
        struct bt_command c;
        member_draw_key(&c);
        order(m, &c);
    }
}

static enum bt_replica_result may_change(const struct bt_member *m, const struct bt_member_order *o)
{
    const struct bt_roster_row *row = bt_roster_find(&m->roster, o->id);
    if (!member_runs(m) || m->phase != BT_MEMBER_RUNNING) {
        return BT_REPLICA_FAILED;
    }
    if (bt_replica_status(m->core).role != BT_REPLICA_LEADER) {
        return BT_REPLICA_NOT_LEADER;
    }
    if (!m->roster.formed) {
        return BT_REPLICA_NOT_YET;
    }
    if (o->change == BT_REPLICA_ADD_LEARNER && row != NULL && row->removed) {
        return BT_REPLICA_NO_MEMBER; // an id is not given twice
    }
    bool unknown = row == NULL || !row->registered;
    return o->change == BT_REPLICA_PROMOTE && row != NULL && unknown ? BT_REPLICA_BEHIND : BT_REPLICA_OK;
}

enum bt_replica_result bt_member_change(struct bt_member *m, uint64_t now, const struct bt_member_order *o,
                                        uint64_t *index)
{
    m->now = now;
    enum bt_replica_result r = may_change(m, o);
    if (r == BT_REPLICA_OK) {
        r = bt_replica_change(m->core, now, o->change, o->id);
    }
    if (r != BT_REPLICA_OK) {
        return r;
    }
    *index = bt_replica_status(m->core).config_index;
    if (o->change == BT_REPLICA_ADD_LEARNER) {
        struct bt_command c = {.kind = BT_COMMAND_ADDRESS, .id = o->id, .member = o->address, .client = o->client};
        snprintf(c.name, sizeof c.name, "%s", o->name);
        bt_roster_address(&m->roster, m->applied, &c); // at once: the new one is to hear of its membership
        order(m, &c);
    }
    return r;
}

// May this one take the leadership over? What it holds, and when it was heard, is in *peer.
static bool may_succeed(const struct bt_member *m, const struct bt_group_member *g, struct bt_replica_peer *peer)
{
    return g->id != m->id && g->role == BT_GROUP_VOTER && bt_replica_peer(m->core, g->id, peer) && peer->diverged == 0;
}

// Whoever was heard within two heartbeats is there; of these who holds most, and of those who was heard last. Somebody
// who stopped holds as much as the others when nothing was written since.
static bool is_better(const struct bt_member *m, const struct bt_replica_peer *a, const struct bt_replica_peer *b)
{
    uint64_t lately = 2 * (uint64_t)m->document.heartbeat_ms * 1000000;
    bool a_there = a->heard_ns + lately >= m->now, b_there = b->heard_ns + lately >= m->now;
    if (a_there != b_there) {
        return a_there;
    }
    return a->match != b->match ? a->match > b->match : a->heard_ns > b->heard_ns;
}

static uint16_t best_successor(const struct bt_member *m)
{
    struct bt_replica_status s = bt_replica_status(m->core);
    struct bt_replica_peer peer, most = {0};
    uint16_t best = 0;
    for (uint16_t i = 0; i < s.config->count; i++) {
        const struct bt_group_member *g = &s.config->member[i];
        if (may_succeed(m, g, &peer) && (best == 0 || is_better(m, &peer, &most))) {
            best = g->id;
            most = peer;
        }
    }
    return best;
}

enum bt_replica_result bt_member_transfer(struct bt_member *m, uint64_t now, uint16_t id, uint16_t *to)
{
    m->now = now;
    if (!member_runs(m)) {
        return BT_REPLICA_FAILED;
    }
    *to = id != 0 ? id : best_successor(m);
    return bt_replica_transfer(m->core, now, *to);
}

enum bt_replica_result bt_member_snapshot(struct bt_member *m, uint64_t now, uint64_t *index)
{
    m->now = now;
    if (!member_runs(m) || m->phase != BT_MEMBER_RUNNING) {
        return BT_REPLICA_FAILED;
    }
    *index = m->applied;
    return member_take_snapshot(m);
}
