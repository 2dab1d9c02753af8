// SPDX-License-Identifier: Apache-2.0
// See store.h: taking operations and committing them.
#include "store/store.h"

#include <string.h>

#include "store/write.h"

bool bt_store_init(struct bt_store *s, const struct bt_store_config *config, struct bt_mem *mem)
{
    memset(s, 0, sizeof *s);
    s->config = *config;
    s->next_number = 1;
    bool fits = config->batch_bytes >= BT_STORE_BATCH_LEAST && config->batch_bytes <= 1u << 26 &&
                config->segment_bytes >= 2 * config->batch_bytes && config->segment_bytes <= 1u << 30 &&
                config->files_max >= 8 && config->files_max <= 1u << 20;
    if (!fits || config->first.count > BT_GROUP_MEMBERS_MAX) {
        return false;
    }
    uint32_t payload = BT_SEGMENT_HEAD_MAX + config->batch_bytes;
    s->blocks_n = bt_blocks_of(payload);
    s->payload = bt_mem_take(mem, payload);
    s->blocks = bt_mem_take(mem, (size_t)s->blocks_n * BT_BLOCK_BYTES);
    s->chain = bt_mem_take(mem, (size_t)config->files_max * sizeof *s->chain);
    s->kept = bt_mem_take(mem, (size_t)config->files_max * sizeof *s->kept);
    s->files = bt_mem_take(mem, (size_t)config->files_max * sizeof *s->files);
    return !mem->overflowed;
}

static bool refuse(struct bt_store *s, const char *what)
{
    s->failed = true;
    return bt_store_trouble(&s->why, &(struct bt_store_error){.trouble = BT_STORE_REFUSED, .what = what});
}

// A record behind those that are gathered; a batch that is full is written first.
static bool gather(struct bt_store *s, const struct bt_record *r)
{
    if (r->length > s->config.batch_bytes - BT_RECORD_BYTES - 8) {
        return refuse(s, "an entry longer than a batch");
    }
    uint32_t n = bt_record_bytes(r->length);
    if (s->gathered + n > s->config.batch_bytes && !bt_write_gathered(s)) {
        return false;
    }
    bt_record_put(s->payload + BT_SEGMENT_HEAD_MAX + s->gathered, r);
    s->gathered += n;
    s->counter[BT_STORE_RECORDS]++;
    return true;
}

static bool take_entry(struct bt_store *s, const struct bt_entry *e)
{
    struct bt_record r = {
        .type = BT_RECORD_ENTRY, .kind = e->kind, .length = e->length, .a = e->index, .b = e->term, .body = e->body};
    if (e->kind >= BT_ENTRY_KINDS) {
        return refuse(s, "an entry of unknown kind");
    }
    if (e->index != s->log.last + 1) {
        return refuse(s, "an entry that does not follow the last one");
    }
    if (!gather(s, &r) || !bt_log_append(&s->log, e->index)) {
        return false;
    }
    s->gathered_top = e->index > s->gathered_top ? e->index : s->gathered_top;
    return true;
}

static bool take_entries(struct bt_store *s, const struct bt_entry *e, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!take_entry(s, &e[i])) {
            return false;
        }
    }
    return true;
}

static bool take_truncate(struct bt_store *s, uint64_t from)
{
    struct bt_log after = s->log;
    if (!bt_log_truncate(&after, from)) {
        return refuse(s, "a truncation behind the end of the log");
    }
    if (!gather(s, &(struct bt_record){.type = BT_RECORD_TRUNCATE, .a = from})) {
        return false;
    }
    s->log = after;
    return true;
}

static bool take_hard_state(struct bt_store *s, struct bt_hard_state h)
{
    struct bt_log after = s->log;
    if (!bt_log_hard_state(&after, h)) {
        return refuse(s, "a term that falls, or a second vote in a term");
    }
    if (!gather(s, &(struct bt_record){.type = BT_RECORD_HARD_STATE, .a = h.term, .b = h.vote})) {
        return false;
    }
    s->log = after;
    return true;
}

// The file first, durable with its name; then the head of a new segment names it, and then the older one may go.
static bool take_snapshot(struct bt_store *s, const struct bt_snapshot *snapshot)
{
    struct bt_snapshot_mark mark = {.last_index = snapshot->last_index,
                                    .last_term = snapshot->last_term,
                                    .length = snapshot->length,
                                    .config = snapshot->config};
    struct bt_log after = s->log;
    if (!bt_log_snapshot(&after, snapshot->last_index) || snapshot->length > s->config.snapshot_max ||
        snapshot->config.count > BT_GROUP_MEMBERS_MAX) {
        return refuse(s, "a snapshot older than the last one, or too long");
    }
    if (!bt_write_gathered(s) || !bt_write_snapshot(s, snapshot, &mark.number)) {
        return false;
    }
    s->mark = mark;
    s->log = s->committed = after;
    s->roll = true;
    return true;
}

static bool take_compact(struct bt_store *s, uint64_t to)
{
    struct bt_log after = s->log;
    if (!bt_log_compact(&after, to)) {
        return refuse(s, "a compaction of entries that no snapshot holds");
    }
    if (after.base == s->log.base) {
        return true; // forgotten already
    }
    if (!bt_write_gathered(s)) {
        return false;
    }
    s->log = s->committed = after;
    s->roll = true;
    return true;
}

bool bt_store_take(struct bt_store *s, const struct bt_store_op *op)
{
    bool ok = false;
    if (s->failed) {
        return false;
    }
    if (op->generation != s->taken + 1) {
        return refuse(s, "a generation that does not follow the last one");
    }
    switch (op->kind) {
    case BT_STORE_APPEND:
        ok = take_entries(s, op->append.entry, op->append.count);
        break;
    case BT_STORE_TRUNCATE:
        ok = take_truncate(s, op->from);
        break;
    case BT_STORE_HARD_STATE:
        ok = take_hard_state(s, op->hard_state);
        break;
    case BT_STORE_SNAPSHOT:
        ok = take_snapshot(s, &op->snapshot);
        break;
    case BT_STORE_COMPACT:
        ok = take_compact(s, op->to);
        break;
    default:
        return refuse(s, "an operation of unknown kind");
    }
    s->failed = !ok;
    s->taken += ok;
    return ok;
}

enum bt_store_result bt_store_commit(struct bt_store *s, uint64_t *generation)
{
    if (bt_write_gathered(s)) {
        s->durable = s->taken;
    }
    *generation = s->durable;
    return s->failed ? BT_STORE_FAILED : BT_STORE_DURABLE;
}
