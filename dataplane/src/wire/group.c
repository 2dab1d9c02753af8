// SPDX-License-Identifier: Apache-2.0
// Reads the messages of a replication group; see group.h for their layout. A field is judged where it is read, so that
// a fault has its byte.
#include "wire/group.h"

#include "base/bytes.h"

#define INDEX_MAX (UINT64_MAX / 2) // sums of an index and a count never wrap

struct cursor {
    const uint8_t *p;
    size_t n, at;
    struct bt_group_fault fault; // the first one
};

static void refuse(struct cursor *c, enum bt_group_error error, size_t at)
{
    if (c->fault.error == BT_GROUP_OK) {
        c->fault = (struct bt_group_fault){error, (uint32_t)at};
    }
}

static void want(struct cursor *c, bool good, enum bt_group_error error, size_t at)
{
    if (!good) {
        refuse(c, error, at);
    }
}

// n bytes, or NULL when there are fewer.
static const uint8_t *take(struct cursor *c, size_t n)
{
    if (c->n - c->at < n) {
        refuse(c, BT_GROUP_BAD_SHORT, c->n);
        c->at = c->n;
        return NULL;
    }
    const uint8_t *p = c->p + c->at;
    c->at += n;
    return p;
}

static uint8_t take8(struct cursor *c)
{
    const uint8_t *p = take(c, 1);
    return p != NULL ? *p : 0;
}

static uint16_t take16(struct cursor *c)
{
    const uint8_t *p = take(c, 2);
    return p != NULL ? bt_get16(p) : 0;
}

static uint32_t take32(struct cursor *c)
{
    const uint8_t *p = take(c, 4);
    return p != NULL ? bt_get32(p) : 0;
}

static uint64_t take64(struct cursor *c)
{
    const uint8_t *p = take(c, 8);
    return p != NULL ? bt_get64(p) : 0;
}

static uint64_t take_index(struct cursor *c)
{
    uint64_t v = take64(c);
    want(c, v <= INDEX_MAX, BT_GROUP_BAD_INDEX, c->at - 8);
    return v;
}

static uint32_t take_flags(struct cursor *c, uint32_t known)
{
    uint32_t v = take32(c);
    want(c, (v & ~known) == 0, BT_GROUP_BAD_FLAGS, c->at - 4);
    return v;
}

static bool sound(const struct cursor *c)
{
    return c->fault.error == BT_GROUP_OK;
}

static void read_config(struct cursor *c, struct bt_group_config *out)
{
    bool votes = false;
    size_t from = c->at;
    out->count = take16(c);
    want(c, out->count <= BT_GROUP_MEMBERS_MAX, BT_GROUP_BAD_COUNT, from);
    for (uint32_t i = 0; sound(c) && i < out->count; i++) {
        struct bt_group_member *m = &out->member[i];
        size_t at = c->at;
        m->id = take16(c);
        m->role = take8(c);
        uint8_t reserved = take8(c);
        want(c, m->id > (i > 0 ? out->member[i - 1].id : 0) && m->id != BT_GROUP_AGGREGATOR, BT_GROUP_BAD_CONFIG, at);
        want(c, m->role == BT_GROUP_VOTER || m->role == BT_GROUP_LEARNER, BT_GROUP_BAD_CONFIG, at + 2);
        want(c, reserved == 0, BT_GROUP_BAD_RESERVED, at + 3);
        votes = votes || m->role == BT_GROUP_VOTER;
    }
    want(c, votes, BT_GROUP_BAD_CONFIG, from);
}

static bool aggregators(uint8_t type)
{
    return type == BT_GROUP_COMMITTED || type == BT_GROUP_PROBE_REPLY;
}

static void read_header(struct cursor *c, struct bt_group_header *h)
{
    h->version = take8(c);
    want(c, h->version == BT_GROUP_VERSION, BT_GROUP_BAD_VERSION, 0);
    h->type = take8(c);
    h->from = take16(c);
    h->group = take32(c);
    h->term = take64(c);
    h->cluster = take64(c);
    want(c, h->from != 0 && (h->from == BT_GROUP_AGGREGATOR) == aggregators(h->type), BT_GROUP_BAD_FROM, 2);
    want(c, h->term != 0 && h->term <= INDEX_MAX, BT_GROUP_BAD_TERM, 8);
}

static void read_vote(struct cursor *c, const struct bt_group_header *h, struct bt_group_vote *v)
{
    v->flags = take_flags(c, BT_GROUP_PRE | BT_GROUP_TRANSFER);
    size_t at = c->at;
    v->asked = take_index(c);
    // A question asks for the next term and is of this one; an election is of the term it asks for.
    uint64_t asked = h->term + ((v->flags & BT_GROUP_PRE) != 0);
    want(c, v->asked == asked, BT_GROUP_BAD_TERM, at);
    v->last_index = take_index(c);
    v->last_term = take64(c);
    want(c, v->last_term < v->asked && (v->last_term == 0) == (v->last_index == 0), BT_GROUP_BAD_TERM, c->at - 8);
}

static void read_vote_reply(struct cursor *c, const struct bt_group_header *h, struct bt_group_vote *v)
{
    (void)h;
    v->flags = take_flags(c, BT_GROUP_PRE | BT_GROUP_YES);
    v->asked = take_index(c);
    want(c, v->asked != 0, BT_GROUP_BAD_TERM, c->at - 8);
}

static void judge_meta(struct cursor *c, const uint8_t *p, size_t at)
{
    want(c, bt_get16(p + 20) != 0, BT_GROUP_BAD_META, at + 20);
    want(c, bt_get16(p + 22) == 0, BT_GROUP_BAD_RESERVED, at + 22);
}

static struct bt_group_meta take_meta(struct cursor *c)
{
    size_t at = c->at;
    const uint8_t *p = take(c, BT_GROUP_META);
    if (p == NULL) {
        return (struct bt_group_meta){0};
    }
    judge_meta(c, p, at);
    return bt_group_meta_get(p);
}

// A request's body: metadata, and nothing more or all that it says.
static void judge_request(struct cursor *c, const struct bt_entry *e, size_t at)
{
    if (e->length < BT_GROUP_META) {
        refuse(c, BT_GROUP_BAD_META, at);
        return;
    }
    judge_meta(c, e->body, at);
    uint32_t rest = e->length - BT_GROUP_META;
    want(c, rest == 0 || rest == bt_group_meta_get(e->body).length, BT_GROUP_BAD_META, at + 24);
}

static void judge_body(struct cursor *c, const struct bt_entry *e, size_t at)
{
    struct bt_group_config ignored;
    if (!sound(c) || e->kind == BT_ENTRY_COMMAND) {
        return;
    }
    if (bt_group_is_request(e)) {
        judge_request(c, e, at);
        return;
    }
    if (e->kind == BT_ENTRY_NOOP) {
        want(c, e->length == 0, BT_GROUP_BAD_LONG, at);
        return;
    }
    struct bt_group_fault f = bt_group_config_decode(e->body, e->length, &ignored);
    want(c, f.error == BT_GROUP_OK, f.error, at + f.at);
}

static void read_entry(struct cursor *c, uint64_t least_term, uint64_t most_term, struct bt_entry *e)
{
    size_t at = c->at;
    e->term = take64(c);
    want(c, e->term >= least_term && e->term != 0 && e->term <= most_term, BT_GROUP_BAD_TERM, at);
    e->length = take32(c);
    e->kind = take8(c);
    want(c, e->kind < BT_ENTRY_KINDS, BT_GROUP_BAD_KIND, at + 12);
    uint8_t reserved8 = take8(c);
    uint16_t reserved16 = take16(c);
    want(c, reserved8 == 0 && reserved16 == 0, BT_GROUP_BAD_RESERVED, at + 13);
    e->body = take(c, e->length);
    judge_body(c, e, at + BT_GROUP_ENTRY);
}

static void read_append(struct cursor *c, const struct bt_group_header *h, struct bt_group_append *a)
{
    size_t at = c->at;
    a->count = take32(c);
    want(c, a->count <= BT_GROUP_ENTRIES_MAX, BT_GROUP_BAD_COUNT, at);
    a->prev_index = take_index(c);
    a->prev_term = take64(c);
    want(c, a->prev_term <= h->term && (a->prev_term == 0) == (a->prev_index == 0), BT_GROUP_BAD_TERM, at + 12);
    a->commit = take_index(c);
    a->epoch = h->type == BT_GROUP_SHARED ? take_index(c) : 0;
    uint64_t term = a->prev_term;
    for (uint32_t i = 0; sound(c) && i < a->count; i++) {
        a->entry[i].index = a->prev_index + 1 + i;
        read_entry(c, term, h->term, &a->entry[i]);
        term = a->entry[i].term;
    }
}

static void read_append_reply(struct cursor *c, const struct bt_group_header *h, struct bt_group_append_reply *r)
{
    bool shared = h->type == BT_GROUP_SHARED_REPLY;
    r->flags = take_flags(c, shared ? BT_GROUP_YES : BT_GROUP_YES | BT_GROUP_BODYLESS);
    want(c, r->flags != (BT_GROUP_YES | BT_GROUP_BODYLESS), BT_GROUP_BAD_FLAGS, c->at - 4);
    r->index = take_index(c);
    r->last = take_index(c);
    r->applied = take_index(c);
    r->epoch = shared ? take_index(c) : 0;
}

static void read_committed(struct cursor *c, struct bt_group_committed *d)
{
    size_t from = c->at;
    d->count = take32(c);
    want(c, d->count <= BT_GROUP_MEMBERS_MAX, BT_GROUP_BAD_COUNT, from);
    d->epoch = take_index(c);
    d->commit = take_index(c);
    for (uint32_t i = 0; sound(c) && i < d->count; i++) {
        size_t at = c->at;
        d->done[i].id = take16(c);
        uint16_t reserved = take16(c);
        d->done[i].applied = take_index(c);
        want(c, d->done[i].id > (i > 0 ? d->done[i - 1].id : 0), BT_GROUP_BAD_CONFIG, at);
        want(c, d->done[i].id != BT_GROUP_AGGREGATOR, BT_GROUP_BAD_CONFIG, at);
        want(c, reserved == 0, BT_GROUP_BAD_RESERVED, at + 2);
    }
}

// The epoch is an entry, and what is committed an entry after it.
static void read_probe(struct cursor *c, const struct bt_group_header *h, struct bt_group_probe *p)
{
    p->flags = take_flags(c, BT_GROUP_DURABLE);
    p->epoch = take_index(c);
    size_t at = c->at;
    p->floor = take_index(c);
    want(c, p->floor != 0 && p->floor >= p->epoch, BT_GROUP_BAD_INDEX, at);
    if (h->type == BT_GROUP_PROBE) {
        read_config(c, &p->config);
    }
}

static void read_snapshot(struct cursor *c, const struct bt_group_header *h, struct bt_group_snapshot *s)
{
    size_t at = c->at;
    s->length = take32(c);
    s->last_index = take_index(c);
    s->last_term = take64(c);
    s->total = take_index(c);
    s->offset = take_index(c);
    want(c, s->last_index != 0, BT_GROUP_BAD_INDEX, at + 4);
    want(c, s->last_term != 0 && s->last_term <= h->term, BT_GROUP_BAD_TERM, at + 12);
    want(c, s->offset <= s->total && s->length <= s->total - s->offset, BT_GROUP_BAD_INDEX, at + 28);
    read_config(c, &s->config);
    s->bytes = take(c, s->length);
}

static void read_snapshot_reply(struct cursor *c, const struct bt_group_header *h, struct bt_group_snapshot_reply *r)
{
    (void)h;
    r->flags = take_flags(c, BT_GROUP_YES);
    r->last_index = take_index(c);
    want(c, r->last_index != 0, BT_GROUP_BAD_INDEX, c->at - 8);
    r->offset = take_index(c);
}

static void read_recovery(struct cursor *c, struct bt_group_recovery *r)
{
    size_t at = c->at;
    r->count = take32(c);
    want(c, r->count > 0 && r->count <= BT_GROUP_RECOVER_MAX, BT_GROUP_BAD_COUNT, at);
    for (uint32_t i = 0; sound(c) && i < r->count; i++) {
        r->lack[i].index = take_index(c);
        r->lack[i].meta = take_meta(c);
    }
}

static void read_recovery_reply(struct cursor *c, struct bt_group_recovery_reply *r)
{
    r->flags = take_flags(c, BT_GROUP_YES);
    r->of.index = take_index(c);
    r->of.meta = take_meta(c);
    r->body = (r->flags & BT_GROUP_YES) != 0 && sound(c) ? take(c, r->of.meta.length) : NULL;
}

static void read_states(struct cursor *c, const struct bt_group_header *h, struct bt_group_states *s)
{
    bool one = h->type == BT_GROUP_DIVERGED;
    s->flags = take_flags(c, one ? 0 : BT_GROUP_FENCED);
    size_t at = c->at;
    s->count = take32(c);
    want(c, one ? s->count == 1 : s->count <= BT_GROUP_STATES_MAX, BT_GROUP_BAD_COUNT, at);
    s->applied = take_index(c);
    for (uint32_t i = 0; sound(c) && i < s->count; i++) {
        at = c->at;
        s->at[i].index = take_index(c);
        want(c, s->at[i].index > (i > 0 ? s->at[i - 1].index : 0), BT_GROUP_BAD_INDEX, at);
        s->at[i].hash = take64(c);
    }
}

// What is said beside elections and entries.
static void read_beside(struct cursor *c, struct bt_group_message *m)
{
    switch (m->header.type) {
    case BT_GROUP_COMMITTED:
        read_committed(c, &m->committed);
        break;
    case BT_GROUP_PROBE:
    case BT_GROUP_PROBE_REPLY:
        read_probe(c, &m->header, &m->probe);
        break;
    case BT_GROUP_STATE:
    case BT_GROUP_DIVERGED:
        read_states(c, &m->header, &m->states);
        break;
    case BT_GROUP_TAKE_OVER:
        break;
    default:
        refuse(c, BT_GROUP_BAD_TYPE, 1);
    }
}

static void read_body(struct cursor *c, struct bt_group_message *m)
{
    switch (m->header.type) {
    case BT_GROUP_VOTE:
        read_vote(c, &m->header, &m->vote);
        break;
    case BT_GROUP_VOTE_REPLY:
        read_vote_reply(c, &m->header, &m->vote);
        break;
    case BT_GROUP_APPEND:
    case BT_GROUP_SHARED:
        read_append(c, &m->header, &m->append);
        break;
    case BT_GROUP_APPEND_REPLY:
    case BT_GROUP_SHARED_REPLY:
        read_append_reply(c, &m->header, &m->append_reply);
        break;
    case BT_GROUP_SNAPSHOT:
        read_snapshot(c, &m->header, &m->snapshot);
        break;
    case BT_GROUP_SNAPSHOT_REPLY:
        read_snapshot_reply(c, &m->header, &m->snapshot_reply);
        break;
    case BT_GROUP_RECOVERY:
        read_recovery(c, &m->recovery);
        break;
    case BT_GROUP_RECOVERY_REPLY:
        read_recovery_reply(c, &m->recovery_reply);
        break;
    default:
        read_beside(c, m);
    }
}

struct bt_group_fault bt_group_decode(const uint8_t *p, size_t n, struct bt_group_message *out)
{
    struct cursor c = {.p = p, .n = n};
    if (n > BT_GROUP_MESSAGE_MAX) {
        return (struct bt_group_fault){BT_GROUP_BAD_LONG, BT_GROUP_MESSAGE_MAX};
    }
    read_header(&c, &out->header);
    if (sound(&c)) {
        read_body(&c, out);
    }
    want(&c, c.at == n, BT_GROUP_BAD_LONG, c.at);
    return c.fault;
}

struct bt_group_fault bt_group_config_decode(const uint8_t *p, size_t n, struct bt_group_config *out)
{
    struct cursor c = {.p = p, .n = n};
    read_config(&c, out);
    want(&c, c.at == n, BT_GROUP_BAD_LONG, c.at);
    return c.fault;
}

const char *bt_group_error_name(enum bt_group_error e)
{
#define BT_GROUP_ERROR_WORD(name, word) word,
    static const char *const names[BT_GROUP_ERRORS] = {"ok", BT_GROUP_ERROR_LIST(BT_GROUP_ERROR_WORD)};
    return e < BT_GROUP_ERRORS ? names[e] : "unknown";
}
