// SPDX-License-Identifier: Apache-2.0
// See states.h.
#include "replica/states.h"

#include <string.h>

#include "replica/issue.h"
#include "replica/members.h"
#include "replica/progress.h"
#include "replica/role.h"
#include "replica/send.h"
#include "replica/transfer.h"

static void remember(struct bt_group_states *s, struct bt_group_state one)
{
    if (s->count == BT_GROUP_STATES_MAX) {
        s->count--;
        memmove(s->at, s->at + 1, s->count * sizeof s->at[0]);
    }
    s->at[s->count++] = one;
}

static const struct bt_group_state *state_at(const struct bt_group_states *s, uint64_t index)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->at[i].index == index) {
            return &s->at[i];
        }
    }
    return NULL;
}

/* --- a member --- */

static void say(struct bt_replica *r)
{
    if (r->conf.hash_every == 0 || r->role == BT_REPLICA_LEADER || r->leader == 0) {
        return;
    }
    r->states_said_ns = r->now;
    struct bt_group_states *s = &replica_message(r, BT_GROUP_STATE)->states;
    *s = r->states;
    s->flags = r->fenced.index != 0 ? BT_GROUP_FENCED : 0;
    s->applied = r->applied;
    replica_send(r, r->leader);
}

// A leader steps down as one whose disk failed: at once, for what it would answer is wrong.
static void fence(struct bt_replica *r, struct bt_group_state right)
{
    if (r->fenced.index != 0) {
        return;
    }
    r->fenced = right;
    replica_count(r, BT_REPLICA_FENCED_TOTAL);
    if (r->role == BT_REPLICA_LEADER) {
        replica_hand_over(r);
        replica_follow(r, r->term, 0);
    }
}

void replica_states_other(struct bt_replica *r, const struct bt_group_message *m)
{
    const struct bt_group_state *own = state_at(&r->states, m->states.at[0].index);
    if (own != NULL && own->hash != m->states.at[0].hash) {
        fence(r, m->states.at[0]);
    }
    say(r);
}

void replica_states_remind(struct bt_replica *r)
{
    if (r->fenced.index != 0 && r->now - r->states_said_ns >= r->conf.heartbeat_ns) {
        say(r);
    }
}

void replica_states_replaced(struct bt_replica *r)
{
    bool was = r->fenced.index != 0;
    r->states.count = 0;
    r->fenced = (struct bt_group_state){0};
    if (was) {
        replica_count(r, BT_REPLICA_MENDED_TOTAL);
        say(r);
    }
}

/* --- a leader --- */

static const struct bt_group_state *voters_state(const struct bt_replica *r, int i, uint64_t index)
{
    if (r->config.member[i].role != BT_GROUP_VOTER) {
        return NULL;
    }
    bool own = r->config.member[i].id == r->conf.id;
    return state_at(own ? &r->states : &r->peer[i].states, index);
}

// The state that most voters have at this index, *most how many; those that said nothing yet are *silent.
static struct bt_group_state commonest(const struct bt_replica *r, uint64_t index, uint32_t *most, uint32_t *silent)
{
    struct bt_group_state best = {0};
    *most = *silent = 0;
    for (int i = 0; i < r->config.count; i++) {
        const struct bt_group_state *a = voters_state(r, i, index);
        uint32_t alike = 0;
        *silent += a == NULL && r->config.member[i].role == BT_GROUP_VOTER;
        for (int k = 0; a != NULL && k < r->config.count; k++) {
            const struct bt_group_state *b = voters_state(r, k, index);
            alike += b != NULL && b->hash == a->hash;
        }
        if (alike > *most) {
            *most = alike;
            best = *a;
        }
    }
    return best;
}

static void tell(struct bt_replica *r, int i)
{
    replica_message(r, BT_GROUP_DIVERGED)->states =
        (struct bt_group_states){.count = 1, .applied = r->applied, .at = {r->peer[i].right}};
    replica_send(r, r->config.member[i].id);
}

static void undecided(struct bt_replica *r, uint64_t index)
{
    if (index > r->undecided) {
        r->undecided = index;
        replica_count(r, BT_REPLICA_STATES_UNDECIDED_TOTAL);
    }
}

// Learners are judged by the voters, too.
static void compare(struct bt_replica *r, struct bt_group_state right)
{
    for (int i = 0; i < r->config.count; i++) {
        struct replica_peer *p = &r->peer[i];
        const struct bt_group_state *has = state_at(&p->states, right.index);
        if (r->config.member[i].id != r->conf.id && p->right.index == 0 && has != NULL && has->hash != right.hash) {
            p->right = right;
            replica_count(r, BT_REPLICA_STATES_DIFFER_TOTAL);
            tell(r, i);
        }
    }
    const struct bt_group_state *own = state_at(&r->states, right.index);
    if (own != NULL && own->hash != right.hash) {
        fence(r, right);
    }
}

static void judge(struct bt_replica *r, uint64_t index)
{
    uint32_t most, silent;
    struct bt_group_state right = commonest(r, index, &most, &silent);
    if (most + silent < replica_majority(r)) {
        undecided(r, index);
    }
    if (most < replica_majority(r)) {
        return;
    }
    if (index >= r->undecided) {
        r->undecided = 0;
    }
    if (index > r->compared) {
        r->compared = index;
        replica_count(r, BT_REPLICA_STATES_COMPARED_TOTAL);
    }
    compare(r, right);
}

// what replaces the member's state is that after a later entry, so that its log goes on from there. In a group
// at rest this leader makes one.
static void mend(struct bt_replica *r, int i)
{
    struct replica_peer *p = &r->peer[i];
    if (replica_current(r)->last_index > p->applied) {
        replica_progress_replace(r, i);
    } else if (r->log.last <= p->applied && r->transfer_to == 0 && !replica_store_busy(r) &&
               replica_store_own(r, BT_ENTRY_NOOP, NULL, 0)) {
        replica_feed_all(r, false);
    }
}

void replica_states_told(struct bt_replica *r, const struct bt_group_message *m)
{
    int i = replica_member(r, m->header.from);
    if (r->role != BT_REPLICA_LEADER || i < 0) {
        replica_count(r, i < 0 ? BT_REPLICA_STRANGER_TOTAL : BT_REPLICA_UNASKED_TOTAL);
        return;
    }
    struct replica_peer *p = &r->peer[i];
    struct bt_group_states said = m->states;
    p->states = said;
    p->applied = said.applied > p->applied ? said.applied : p->applied;
    p->fenced = (said.flags & BT_GROUP_FENCED) != 0;
    if (p->fenced) {
        p->right.index = p->right.index != 0 ? p->right.index : said.applied; // another leader found it
        p->states.count = 0;
        return;
    }
    p->right = (struct bt_group_state){0};
    for (uint32_t k = 0; k < said.count && r->role == BT_REPLICA_LEADER; k++) {
        judge(r, said.at[k].index);
    }
}

void replica_states_beat(struct bt_replica *r)
{
    for (int i = 0; r->role == BT_REPLICA_LEADER && i < r->config.count; i++) {
        if (r->config.member[i].id == r->conf.id || r->peer[i].right.index == 0) {
            continue;
        }
        if (r->peer[i].fenced) {
            mend(r, i);
        } else {
            tell(r, i);
        }
    }
}

void replica_states_mended(struct replica_peer *p)
{
    p->fenced = false;
    p->right = (struct bt_group_state){0};
    p->states.count = 0;
}

bool replica_states_mending(const struct bt_replica *r)
{
    uint64_t held = replica_current(r)->last_index;
    for (int i = 0; r->role == BT_REPLICA_LEADER && i < r->config.count; i++) {
        const struct replica_peer *p = &r->peer[i];
        if (p->fenced && held <= p->applied && r->applied > p->applied) {
            return true;
        }
    }
    return false;
}

/* --- the application --- */

bool bt_replica_hash_wanted(const struct bt_replica *r, const struct bt_entry *e)
{
    bool here = r->conf.hash_every != 0 && r->fenced.index == 0;
    return here && (e->kind == BT_ENTRY_NOOP || e->index % r->conf.hash_every == 0);
}

void bt_replica_hashed(struct bt_replica *r, uint64_t now, uint64_t index, uint64_t hash)
{
    r->now = now;
    uint64_t last = r->states.count > 0 ? r->states.at[r->states.count - 1].index : 0;
    if (r->conf.hash_every == 0 || r->fenced.index != 0 || index <= last || index > r->applied) {
        return;
    }
    remember(&r->states, (struct bt_group_state){index, hash});
    if (r->role == BT_REPLICA_LEADER) {
        judge(r, index);
    } else {
        say(r);
    }
}
