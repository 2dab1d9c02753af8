// SPDX-License-Identifier: Apache-2.0
// Writes the messages of a replication group; see group.h for their layout.
#include "base/bytes.h"
#include "wire/group.h"

struct writer {
    uint8_t *p;
    size_t room, at;
    bool full;
};

static uint8_t *give(struct writer *w, size_t n)
{
    if (w->room - w->at < n) {
        w->full = true;
        return NULL;
    }
    uint8_t *p = w->p + w->at;
    w->at += n;
    return p;
}

static void put8(struct writer *w, uint8_t v)
{
    uint8_t *p = give(w, 1);
    if (p != NULL) {
        *p = v;
    }
}

static void put16(struct writer *w, uint16_t v)
{
    uint8_t *p = give(w, 2);
    if (p != NULL) {
        bt_put16(p, v);
    }
}

static void put32(struct writer *w, uint32_t v)
{
    uint8_t *p = give(w, 4);
    if (p != NULL) {
        bt_put32(p, v);
    }
}

static void put64(struct writer *w, uint64_t v)
{
    uint8_t *p = give(w, 8);
    if (p != NULL) {
        bt_put64(p, v);
    }
}

static void put_bytes(struct writer *w, const uint8_t *bytes, size_t n)
{
    uint8_t *p = give(w, n);
    if (p != NULL && n > 0) {
        memcpy(p, bytes, n);
    }
}

static void write_config(struct writer *w, const struct bt_group_config *c)
{
    put16(w, c->count);
    for (uint32_t i = 0; i < c->count; i++) {
        put16(w, c->member[i].id);
        put8(w, c->member[i].role);
        put8(w, 0);
    }
}

static void write_vote(struct writer *w, const struct bt_group_message *m)
{
    put32(w, m->vote.flags);
    put64(w, m->vote.asked);
    if (m->header.type == BT_GROUP_VOTE) {
        put64(w, m->vote.last_index);
        put64(w, m->vote.last_term);
    }
}

static void write_append(struct writer *w, const struct bt_group_append *a, bool shared)
{
    put32(w, a->count);
    put64(w, a->prev_index);
    put64(w, a->prev_term);
    put64(w, a->commit);
    if (shared) {
        put64(w, a->epoch);
    }
    for (uint32_t i = 0; i < a->count; i++) {
        put64(w, a->entry[i].term);
        put32(w, a->entry[i].length);
        put8(w, a->entry[i].kind);
        put8(w, 0);
        put16(w, 0);
        put_bytes(w, a->entry[i].body, a->entry[i].length);
    }
}

static void write_append_reply(struct writer *w, const struct bt_group_append_reply *r, bool shared)
{
    put32(w, r->flags);
    put64(w, r->index);
    put64(w, r->last);
    put64(w, r->applied);
    if (shared) {
        put64(w, r->epoch);
    }
}

static void write_committed(struct writer *w, const struct bt_group_committed *c)
{
    put32(w, c->count);
    put64(w, c->epoch);
    put64(w, c->commit);
    for (uint32_t i = 0; i < c->count; i++) {
        put16(w, c->done[i].id);
        put16(w, 0);
        put64(w, c->done[i].applied);
    }
}

static void write_probe(struct writer *w, const struct bt_group_message *m)
{
    put32(w, m->probe.flags);
    put64(w, m->probe.epoch);
    put64(w, m->probe.floor);
    if (m->header.type == BT_GROUP_PROBE) {
        write_config(w, &m->probe.config);
    }
}

static void write_snapshot(struct writer *w, const struct bt_group_snapshot *s)
{
    put32(w, s->length);
    put64(w, s->last_index);
    put64(w, s->last_term);
    put64(w, s->total);
    put64(w, s->offset);
    write_config(w, &s->config);
    put_bytes(w, s->bytes, s->length);
}

static void write_snapshot_reply(struct writer *w, const struct bt_group_snapshot_reply *r)
{
    put32(w, r->flags);
    put64(w, r->last_index);
    put64(w, r->offset);
}

static void write_lack(struct writer *w, const struct bt_group_lack *l)
{
    put64(w, l->index);
    uint8_t *p = give(w, BT_GROUP_META);
    if (p != NULL) {
        bt_group_meta_put(p, &l->meta);
    }
}

static void write_recovery(struct writer *w, const struct bt_group_recovery *r)
{
    put32(w, r->count);
    for (uint32_t i = 0; i < r->count; i++) {
        write_lack(w, &r->lack[i]);
    }
}

static void write_recovery_reply(struct writer *w, const struct bt_group_recovery_reply *r)
{
    put32(w, r->flags);
    write_lack(w, &r->of);
    if ((r->flags & BT_GROUP_YES) != 0) {
        put_bytes(w, r->body, r->of.meta.length);
    }
}

static void write_states(struct writer *w, const struct bt_group_states *s)
{
    put32(w, s->flags);
    put32(w, s->count);
    put64(w, s->applied);
    for (uint32_t i = 0; i < s->count; i++) {
        put64(w, s->at[i].index);
        put64(w, s->at[i].hash);
    }
}

static void write_beside(struct writer *w, const struct bt_group_message *m)
{
    switch (m->header.type) {
    case BT_GROUP_COMMITTED:
        write_committed(w, &m->committed);
        break;
    case BT_GROUP_PROBE:
    case BT_GROUP_PROBE_REPLY:
        write_probe(w, m);
        break;
    case BT_GROUP_STATE:
    case BT_GROUP_DIVERGED:
        write_states(w, &m->states);
        break;
    default:
        break;
    }
}

static void write_body(struct writer *w, const struct bt_group_message *m)
{
    switch (m->header.type) {
    case BT_GROUP_VOTE:
    case BT_GROUP_VOTE_REPLY:
        write_vote(w, m);
        break;
    case BT_GROUP_APPEND:
    case BT_GROUP_SHARED:
        write_append(w, &m->append, m->header.type == BT_GROUP_SHARED);
        break;
    case BT_GROUP_APPEND_REPLY:
    case BT_GROUP_SHARED_REPLY:
        write_append_reply(w, &m->append_reply, m->header.type == BT_GROUP_SHARED_REPLY);
        break;
    case BT_GROUP_SNAPSHOT:
        write_snapshot(w, &m->snapshot);
        break;
    case BT_GROUP_SNAPSHOT_REPLY:
        write_snapshot_reply(w, &m->snapshot_reply);
        break;
    case BT_GROUP_RECOVERY:
        write_recovery(w, &m->recovery);
        break;
    case BT_GROUP_RECOVERY_REPLY:
        write_recovery_reply(w, &m->recovery_reply);
        break;
    default:
        write_beside(w, m);
    }
}

size_t bt_group_encode(uint8_t *p, size_t room, const struct bt_group_message *m)
{
    struct writer w = {.p = p, .room = room < BT_GROUP_MESSAGE_MAX ? room : BT_GROUP_MESSAGE_MAX};
    put8(&w, m->header.version);
    put8(&w, m->header.type);
    put16(&w, m->header.from);
    put32(&w, m->header.group);
    put64(&w, m->header.term);
    put64(&w, m->header.cluster);
    write_body(&w, m);
    return w.full ? 0 : w.at;
}

size_t bt_group_config_encode(uint8_t *p, size_t room, const struct bt_group_config *c)
{
    struct writer w = {.p = p, .room = room};
    write_config(&w, c);
    return w.full ? 0 : w.at;
}
