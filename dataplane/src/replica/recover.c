// SPDX-License-Identifier: Apache-2.0
// Bodies that a member lacks: it asks the leader, then one member after the other. Whoever has the
// body, in its log or waiting, answers. What nobody has is left to the leader, which then sends it whole, or a
// snapshot. A body that fits no hash comes from nobody ever: then it asks less and less, and tells the leader.
#include <string.h>

#include "replica/apart.h"
#include "replica/members.h"
#include "replica/send.h"

enum { ROUNDS = 2, IN_VAIN = 2, DOUBLED_MOST = 16 };

void replica_lack_nothing(struct bt_replica *r)
{
    r->lacks = 0;
}

// The leader begins again after the last entry that is here.
static void ask_leader_again(struct bt_replica *r)
{
    replica_lack_nothing(r);
    if (r->leader != 0 && r->leader != r->conf.id && !r->failed) {
        replica_send_refusal(r, r->leader, r->log.last + 1, r->log.last);
    }
}

static void ask_leader_in_vain(struct bt_replica *r)
{
    r->lack_in_vain += r->leader != 0 && r->lack_in_vain < UINT32_MAX;
    if (r->lack_in_vain < IN_VAIN || r->leader == 0 || r->failed) {
        ask_leader_again(r);
        return;
    }
    replica_lack_nothing(r);
    replica_count(r, BT_REPLICA_BODYLESS_TOTAL);
    replica_send_bodyless(r, r->leader);
}

static uint64_t patience(const struct bt_replica *r)
{
    uint64_t ns = r->conf.apart.recover_ns << (r->lack_in_vain < DOUBLED_MOST ? r->lack_in_vain : DOUBLED_MOST);
    return ns < r->conf.election_ns || r->lack_in_vain == 0 ? ns : r->conf.election_ns;
}

static uint16_t whom_to_ask(const struct bt_replica *r)
{
    if (r->lack_asked == 0 || r->config.count < 2) {
        return r->leader;
    }
    uint32_t own = (uint32_t)replica_member(r, r->conf.id), n = r->config.count;
    uint32_t at = (own + r->lack_asked) % n;
    uint16_t id = r->config.member[at].id;
    return id != r->conf.id ? id : r->leader;
}

static void ask(struct bt_replica *r)
{
    struct bt_group_recovery *q = &replica_message(r, BT_GROUP_RECOVERY)->recovery;
    q->count = r->lacks;
    for (uint32_t i = 0; i < r->lacks; i++) {
        q->lack[i] = r->lack[i].of;
    }
    replica_count(r, BT_REPLICA_RECOVERIES_TOTAL);
    replica_send(r, whom_to_ask(r));
    r->lack_asked++;
    r->lack_at = r->now + patience(r);
}

void replica_lack(struct bt_replica *r, const struct bt_group_append *a, uint32_t from)
{
    if (!replica_apart(r)) {
        replica_count(r, BT_REPLICA_UNASKED_TOTAL); // a Raft group's entries come whole
        return;
    }
    if (r->lacks > 0 && r->lack[0].of.index == a->entry[from].index) {
        return; // asked for already
    }
    r->lacks = 0;
    r->lack_asked = 0;
    for (uint32_t i = from; i < a->count && r->lacks < BT_GROUP_RECOVER_MAX; i++) {
        const struct bt_entry *e = &a->entry[i];
        if (!bt_group_is_request(e)) {
            continue;
        }
        struct bt_group_meta m = bt_group_meta_get(e->body);
        // The first one is not here, whatever its request says that waits: the body fits no more.
        if (i == from || replica_kept_find(&r->kept, &m) == REPLICA_NOBODY) {
            r->lack[r->lacks++] = (struct replica_lack){.of = {.index = e->index, .meta = m}, .kind = e->kind};
        }
    }
    if (r->lacks > 0) {
        ask(r);
    }
}

void replica_lack_tick(struct bt_replica *r)
{
    if (r->lacks == 0 || r->now < r->lack_at) {
        return;
    }
    uint32_t rounds = r->lack_in_vain < IN_VAIN ? ROUNDS : 1;
    if (r->lack_asked > rounds * r->config.count || r->leader == 0) {
        ask_leader_in_vain(r);
    } else {
        ask(r);
    }
}

void replica_lack_found(struct bt_replica *r, const struct bt_group_meta *m)
{
    for (uint32_t i = 0; i < r->lacks; i++) {
        const struct bt_group_meta *l = &r->lack[i].of.meta;
        if (l->hash == m->hash && l->req_id == m->req_id && bt_addr_eq(&l->client, &m->client)) {
            memmove(r->lack + i, r->lack + i + 1, (r->lacks - i - 1) * sizeof r->lack[0]);
            if (--r->lacks == 0) {
                ask_leader_again(r);
            }
            return;
        }
    }
}

/* --- the other side --- */

static bool same_request(const struct bt_group_meta *a, const struct bt_group_meta *b)
{
    return a->hash == b->hash && a->length == b->length && a->req_id == b->req_id && bt_addr_eq(&a->client, &b->client);
}

static const uint8_t *held(const struct bt_replica *r, const struct bt_group_lack *l)
{
    if (l->index > r->log.base && l->index <= r->log.last) {
        struct bt_entry e = replica_log_entry(&r->log, l->index);
        if (bt_group_is_request(&e)) {
            struct bt_group_meta m = bt_group_meta_get(e.body);
            if (same_request(&m, &l->meta)) {
                return e.body + BT_GROUP_META;
            }
        }
    }
    uint32_t at = replica_kept_find(&r->kept, &l->meta);
    return at != REPLICA_NOBODY ? replica_kept_body(&r->kept, at) : NULL;
}

void replica_recovery_asked(struct bt_replica *r, const struct bt_group_message *m)
{
    for (uint32_t i = 0; i < m->recovery.count; i++) {
        const struct bt_group_lack *l = &m->recovery.lack[i];
        const uint8_t *body = held(r, l);
        replica_message(r, BT_GROUP_RECOVERY_REPLY)->recovery_reply =
            (struct bt_group_recovery_reply){.flags = body != NULL ? BT_GROUP_YES : 0, .of = *l, .body = body};
        replica_send(r, m->header.from);
    }
}

void replica_recovery_answered(struct bt_replica *r, const struct bt_group_message *m)
{
    const struct bt_group_recovery_reply *a = &m->recovery_reply;
    for (uint32_t i = 0; i < r->lacks; i++) {
        if (!same_request(&r->lack[i].of.meta, &a->of.meta)) {
            continue;
        }
        if ((a->flags & BT_GROUP_YES) == 0) {
            bool soon = r->lack_in_vain == 0 && r->now < r->lack_at; // somebody else, at the next tick
            r->lack_at = soon ? r->now : r->lack_at;
            return;
        }
        if (!replica_body_right(r, a->body, &a->of.meta)) {
            replica_count(r, BT_REPLICA_WRONG_BODY_TOTAL);
            return;
        }
        struct bt_group_meta meta = a->of.meta;
        meta.replier = 0;
        replica_kept_put(
            &r->kept, &(struct replica_request){.meta = meta, .arrived_ns = r->now, .kind = r->lack[i].kind}, a->body);
        replica_count(r, BT_REPLICA_RECOVERED_TOTAL);
        replica_lack_found(r, &meta);
        return;
    }
    replica_count(r, BT_REPLICA_UNASKED_TOTAL);
}
