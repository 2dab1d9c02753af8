// SPDX-License-Identifier: Apache-2.0
// See bed.h.
#include "bed.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

static void on_send(void *ctx, uint16_t to, const uint8_t *message, size_t n)
{
    struct bed *b = ctx;
    assert_true(b->sent_n < BED_SENT && n <= BED_MESSAGE);
    struct bed_sent *s = &b->sent[b->sent_n++];
    s->to = to;
    s->n = (uint32_t)n;
    memcpy(s->bytes, message, n);
}

static void on_store(void *ctx, const struct bt_store_op *op)
{
    struct bed *b = ctx;
    assert_true(b->ops_n < BED_OPS);
    struct bed_op *o = &b->op[b->ops_n++];
    *o = (struct bed_op){.generation = op->generation, .kind = op->kind};
    switch (op->kind) {
    case BT_STORE_APPEND:
        o->index = op->append.entry[0].index;
        o->count = op->append.count;
        break;
    case BT_STORE_TRUNCATE:
        o->index = op->from;
        break;
    case BT_STORE_HARD_STATE:
        o->hard_state = op->hard_state;
        break;
    case BT_STORE_SNAPSHOT:
        o->index = op->snapshot.last_index;
        o->config = op->snapshot.config;
        break;
    case BT_STORE_COMPACT:
        o->index = op->to;
        break;
    }
}

static void on_restore(void *ctx, uint64_t last_index, const uint8_t *bytes, uint64_t n)
{
    struct bed *b = ctx;
    (void)bytes;
    b->restored = last_index;
    b->restored_n = n;
}

struct bt_group_config bed_voters(uint16_t n)
{
    struct bt_group_config c = {.count = n};
    for (uint16_t i = 0; i < n; i++) {
        c.member[i] = (struct bt_group_member){.id = (uint16_t)(i + 1), .role = BT_GROUP_VOTER};
    }
    return c;
}

enum bt_replica_result bed_restart(struct bed *b, const struct bt_recovery *found)
{
    static const struct bt_replica_ops ops = {.send = on_send, .store = on_store, .restore = on_restore};
    bed_forget(b);
    return bt_replica_start(b->mem, &b->c, &ops, b, found, &b->r);
}

struct bed *bed_open(uint16_t id, uint16_t voters)
{
    struct bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->c = (struct bt_replica_config){.cluster = BED_CLUSTER,
                                      .group = BED_GROUP,
                                      .id = id,
                                      .pipeline = 4,
                                      .election_ns = 50 * BED_MS,
                                      .heartbeat_ns = 10 * BED_MS,
                                      .seed = 1,
                                      .log_slots = 256,
                                      .body_bytes = 32768,
                                      .keep_entries = 4,
                                      .message_bytes = BED_MESSAGE,
                                      .snapshot_bytes = 4000};
    b->mem = malloc(bt_replica_bytes(&b->c));
    assert_non_null(b->mem);
    struct bt_recovery fresh = {.snapshot = {.config = bed_voters(voters)}};
    assert_int_equal(bed_restart(b, &fresh), BT_REPLICA_OK);
    bed_wait(b, 0);
    return b;
}

void bed_close(struct bed *b)
{
    free(b->mem);
    free(b);
}

void bed_done_to(struct bed *b, uint64_t generation)
{
    bt_replica_stored(b->r, b->now, generation, BT_STORE_DURABLE);
}

void bed_done(struct bed *b)
{
    for (uint64_t before = 0; b->ops_n > 0 && b->op[b->ops_n - 1].generation != before;) {
        before = b->op[b->ops_n - 1].generation;
        bed_done_to(b, before);
    }
}

void bed_wait(struct bed *b, uint64_t ns)
{
    for (uint64_t until = b->now + ns; b->now < until;) {
        b->now += BED_MS;
        bt_replica_tick(b->r, b->now);
    }
}

void bed_forget(struct bed *b)
{
    b->sent_n = b->ops_n = 0;
}

struct bt_group_message bed_message(enum bt_group_type type, uint16_t from, uint64_t term)
{
    return (struct bt_group_message){.header = {.version = BT_GROUP_VERSION,
                                                .type = (uint8_t)type,
                                                .from = from,
                                                .group = BED_GROUP,
                                                .term = term,
                                                .cluster = BED_CLUSTER}};
}

void bed_deliver(struct bed *b, struct bt_group_message *m)
{
    static uint8_t bytes[BED_MESSAGE];
    size_t n = bt_group_encode(bytes, sizeof bytes, m);
    assert_true(n > 0);
    bt_replica_receive(b->r, b->now, bytes, n);
}

void bed_append_after(struct bed *b, uint16_t from, uint64_t term, struct bed_place prev, uint64_t commit,
                      const uint64_t *terms)
{
    struct bt_group_message m = bed_message(BT_GROUP_APPEND, from, term);
    m.append = (struct bt_group_append){.prev_index = prev.index, .prev_term = prev.term, .commit = commit};
    for (; terms[m.append.count] != 0; m.append.count++) {
        m.append.entry[m.append.count] = (struct bt_entry){
            .term = terms[m.append.count], .kind = BT_ENTRY_COMMAND, .body = (const uint8_t *)"write", .length = 5};
    }
    bed_deliver(b, &m);
}

void bed_fill(struct bed *b, uint16_t from)
{
    uint64_t terms[BT_GROUP_ENTRIES_MAX + 1] = {0};
    for (unsigned i = 0; i < 50; i++) {
        terms[i] = 1;
    }
    for (uint64_t prev = 0; prev < 300; prev += 50) {
        bed_append(b, from, 1, prev, prev > 0, 0, terms);
        bed_done(b);
    }
}

void bed_ack(struct bed *b, uint16_t from, uint64_t index)
{
    struct bt_group_message m = bed_message(BT_GROUP_APPEND_REPLY, from, bed_status(b).term);
    m.append_reply = (struct bt_group_append_reply){.flags = BT_GROUP_YES, .index = index, .last = index};
    bed_deliver(b, &m);
}

const struct bt_group_message *bed_last(struct bed *b, enum bt_group_type type, uint16_t to)
{
    static struct bt_group_message m;
    for (uint32_t i = b->sent_n; i > 0; i--) {
        const struct bed_sent *s = &b->sent[i - 1];
        if (s->to == to && s->bytes[1] == type) {
            assert_int_equal(bt_group_decode(s->bytes, s->n, &m).error, BT_GROUP_OK);
            return &m;
        }
    }
    return NULL;
}

uint32_t bed_count(struct bed *b, enum bt_group_type type)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->sent_n; i++) {
        n += b->sent[i].bytes[1] == type;
    }
    return n;
}

const struct bed_op *bed_last_op(struct bed *b, enum bt_store_kind kind)
{
    for (uint32_t i = b->ops_n; i > 0; i--) {
        if (b->op[i - 1].kind == kind) {
            return &b->op[i - 1];
        }
    }
    return NULL;
}

static void grant(struct bed *b, uint16_t from, uint32_t flags)
{
    uint64_t term = bed_status(b).term;
    struct bt_group_message m = bed_message(BT_GROUP_VOTE_REPLY, from, term);
    bool pre = (flags & BT_GROUP_PRE) != 0;
    m.vote = (struct bt_group_vote){.flags = flags | BT_GROUP_YES, .asked = term + pre};
    bed_deliver(b, &m);
}

void bed_lead(struct bed *b)
{
    uint16_t n = bed_status(b).config->count;
    for (int i = 0; i < 200 && bed_status(b).role == BT_REPLICA_FOLLOWER; i++) {
        bed_wait(b, BED_MS);
    }
    for (uint16_t from = 1; from <= n; from++) {
        if (from != b->c.id && bed_status(b).role == BT_REPLICA_ASKING) {
            grant(b, from, BT_GROUP_PRE);
        }
    }
    bed_done(b);
    for (uint16_t from = 1; from <= n; from++) {
        if (from != b->c.id && bed_status(b).role == BT_REPLICA_CANDIDATE) {
            grant(b, from, 0);
        }
    }
    assert_int_equal(bed_status(b).role, BT_REPLICA_LEADER);
    bed_done(b);
    for (uint16_t from = 1; from <= n; from++) {
        if (from != b->c.id) {
            bed_ack(b, from, bed_status(b).last);
        }
    }
    assert_int_equal(bed_status(b).commit, bed_status(b).last);
    bed_forget(b);
}

uint64_t bed_counter(const struct bed *b, enum bt_replica_counter c)
{
    return bt_replica_counters(b->r)[c];
}
