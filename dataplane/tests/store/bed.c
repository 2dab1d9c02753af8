// SPDX-License-Identifier: Apache-2.0
// See bed.h.
#include "unit.h"

#include "bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4096, SEGMENT = 16 * 1024, SNAPSHOT_MOST = 1 << 20 };

void bed_init(struct bed *b)
{
    memset(b, 0, sizeof *b);
    ram_init(&b->ram);
    b->config = (struct bt_store_config){.ids = {.cluster = "the cluster     ", .member = "the member      "},
                                         .first = {.count = 1, .member = {{.id = 7, .role = BT_GROUP_VOTER}}},
                                         .segment_bytes = SEGMENT,
                                         .batch_bytes = BATCH,
                                         .files_max = RAM_FILES,
                                         .snapshot_max = SNAPSHOT_MOST};
}

static void stop(struct bed *b)
{
    free(b->memory);
    free(b->image.entry);
    free(b->image.bytes);
    b->memory = NULL;
    memset(&b->image, 0, sizeof b->image);
}

void bed_free(struct bed *b)
{
    stop(b);
    ram_free(&b->ram);
}

void bed_copy(struct bed *to, const struct bed *from)
{
    memset(to, 0, sizeof *to);
    to->config = from->config;
    ram_copy(&to->ram, &from->ram);
}

bool bed_start(struct bed *b)
{
    struct bt_mem mem;
    stop(b);
    b->generation = 0;
    b->config.disk = &b->ram.disk;
    bt_mem_init(&mem, NULL, 0);
    assert_true(bt_store_init(&b->store, &b->config, &mem));
    size_t bytes = mem.used;
    assert_int_equal(posix_memalign(&b->memory, 64, bytes), 0);
    bt_mem_init(&mem, b->memory, bytes);
    assert_true(bt_store_init(&b->store, &b->config, &mem));
    bool ok = bt_store_room(&b->store, &b->image);
    b->image.entry = calloc(b->image.entries_max + 1, sizeof *b->image.entry);
    b->image.bytes = malloc(b->image.bytes_max + 1);
    assert_true(b->image.entry != NULL && b->image.bytes != NULL);
    ok = ok && bt_store_open(&b->store, &b->image);
    bt_store_error_text(&b->store.why, b->text, sizeof b->text);
    bt_store_recovered(&b->store, &b->image, &b->found);
    return ok;
}

bool bed_take(struct bed *b, struct bt_store_op op)
{
    op.generation = b->generation + 1;
    bool ok = bt_store_take(&b->store, &op);
    b->generation += ok;
    return ok;
}

bool bed_append(struct bed *b, uint64_t first, uint64_t last, uint64_t term)
{
    for (uint64_t i = first; i <= last; i++) {
        char body[32];
        int n = snprintf(body, sizeof body, "body of %llu", (unsigned long long)i);
        struct bt_entry e = {
            .index = i, .term = term, .kind = BT_ENTRY_COMMAND, .body = (const uint8_t *)body, .length = (uint32_t)n};
        if (!bed_take(b, (struct bt_store_op){.kind = BT_STORE_APPEND, .append = {.entry = &e, .count = 1}})) {
            return false;
        }
    }
    return true;
}

bool bed_truncate(struct bed *b, uint64_t from)
{
    return bed_take(b, (struct bt_store_op){.kind = BT_STORE_TRUNCATE, .from = from});
}

bool bed_vote(struct bed *b, uint64_t term, uint16_t vote)
{
    return bed_take(b, (struct bt_store_op){.kind = BT_STORE_HARD_STATE, .hard_state = {.term = term, .vote = vote}});
}

bool bed_snapshot(struct bed *b, uint64_t index, uint64_t term, uint32_t length)
{
    uint8_t *bytes = malloc(length + 1u);
    assert_non_null(bytes);
    memset(bytes, 's', length);
    struct bt_store_op op = {
        .kind = BT_STORE_SNAPSHOT,
        .snapshot = {
            .last_index = index,
            .last_term = term,
            .config = {.count = 2, .member = {{.id = 7, .role = BT_GROUP_VOTER}, {.id = 9, .role = BT_GROUP_LEARNER}}},
            .bytes = bytes,
            .length = length}};
    bool ok = bed_take(b, op);
    free(bytes);
    return ok;
}

bool bed_compact(struct bed *b, uint64_t to)
{
    return bed_take(b, (struct bt_store_op){.kind = BT_STORE_COMPACT, .to = to});
}

void bed_commit(struct bed *b)
{
    uint64_t generation = 0;
    assert_int_equal(bt_store_commit(&b->store, &generation), BT_STORE_DURABLE);
    assert_int_equal(generation, b->generation);
}

void bed_expect(const struct bed *b, uint64_t first, uint64_t last, uint64_t term)
{
    assert_int_equal(b->found.count, last + 1 - first);
    for (uint64_t i = 0; i < b->found.count; i++) {
        char body[32];
        int n = snprintf(body, sizeof body, "body of %llu", (unsigned long long)(first + i));
        const struct bt_entry *e = &b->found.entry[i];
        assert_int_equal(e->index, first + i);
        assert_int_equal(e->term, term);
        assert_int_equal(e->kind, BT_ENTRY_COMMAND);
        assert_int_equal(e->length, n);
        assert_memory_equal(e->body, body, (size_t)n);
    }
}
