// SPDX-License-Identifier: Apache-2.0
// See replay.h.
#include "store/replay.h"

#include <string.h>

static bool room(struct bt_scan *scan, const char *what)
{
    return bt_store_trouble(scan->why,
                            &(struct bt_store_error){.trouble = BT_STORE_ROOM, .file = scan->file, .what = what});
}

static bool listed(const struct bt_store *s, struct bt_disk_file f)
{
    for (uint32_t i = 0; i < s->files_n; i++) {
        if (s->files[i].kind == f.kind && s->files[i].number == f.number) {
            return true;
        }
    }
    return false;
}

bool bt_replay_snapshot(struct bt_scan *scan, const struct bt_store *s, struct bt_image *image)
{
    image->snapshot = (struct bt_snapshot){.config = s->mark.config};
    if (s->mark.number == 0) {
        return true;
    }
    struct bt_batch b = {.payload = image->bytes, .room = image->bytes_max};
    struct bt_record r;
    struct bt_store_ids ids;
    struct bt_snapshot found;
    bt_scan_open(scan, (struct bt_disk_file){.number = s->mark.number, .kind = BT_DISK_SNAPSHOT});
    enum bt_scan_state state = listed(s, scan->file) ? bt_scan_batch(scan, 0, &b) : BT_SCAN_END;
    if (state != BT_SCAN_BATCH) {
        return state != BT_SCAN_BAD && bt_scan_damaged(scan, 0, "the snapshot is missing or not whole");
    }
    uint32_t n =
        bt_record_get(b.payload, b.bytes < BT_SNAPSHOT_HEAD_MAX ? (uint32_t)b.bytes : BT_SNAPSHOT_HEAD_MAX, &r);
    bool ok = n != 0 && bt_snapshot_head_get(&r, &ids, &found) && memcmp(&ids, &s->ids, sizeof ids) == 0 &&
              found.last_index == s->mark.last_index && found.last_term == s->mark.last_term &&
              found.length == s->mark.length && b.bytes - n == found.length;
    if (!ok) {
        return bt_scan_damaged(scan, 0, "the snapshot is not the one that the newest segment names");
    }
    image->snapshot = found;
    image->snapshot.bytes = b.payload + n;
    image->used = b.bytes;
    return true;
}

static void cut(struct bt_replay *r)
{
    struct bt_image *im = r->image;
    while (im->count > 0 && im->entry[im->count - 1].index > r->log.last) {
        im->count--;
        im->used = (uint64_t)(im->entry[im->count].body - im->bytes);
    }
    if (im->count > 0 && im->entry[im->count - 1].index <= r->log.base) {
        im->used = (uint64_t)(im->entry[0].body - im->bytes);
        im->count = 0;
    }
}

static bool put_entry(struct bt_replay *r, struct bt_scan *scan, const struct bt_record *e)
{
    struct bt_image *im = r->image;
    r->top = e->a > r->top ? e->a : r->top;
    if (e->a <= r->base) {
        return true;
    }
    if (im->count == im->entries_max || e->length > im->bytes_max - im->used) {
        return room(scan, "a longer log than the image holds");
    }
    uint8_t *body = im->bytes + im->used;
    if (e->length > 0) {
        memcpy(body, e->body, e->length);
    }
    im->used += e->length;
    im->entry[im->count++] =
        (struct bt_entry){.index = e->a, .term = e->b, .body = body, .length = e->length, .kind = e->kind};
    return true;
}

// A record that is not a head. False: it contradicts what is before it, or there is no room.
static bool apply(struct bt_replay *r, struct bt_scan *scan, uint32_t block, const struct bt_record *e)
{
    bool ok = false;
    if (e->type == BT_RECORD_ENTRY && e->kind < BT_ENTRY_KINDS) {
        ok = bt_log_append(&r->log, e->a);
        if (ok && !put_entry(r, scan, e)) {
            return false;
        }
    } else if (e->type == BT_RECORD_TRUNCATE) {
        ok = bt_log_truncate(&r->log, e->a);
        cut(r);
    } else if (e->type == BT_RECORD_HARD_STATE && e->b <= UINT16_MAX) {
        ok = bt_log_hard_state(&r->log, (struct bt_hard_state){.term = e->a, .vote = (uint16_t)e->b});
    }
    return ok || bt_scan_damaged(scan, block, "a record contradicts those before it");
}

// The log that a head tells of must be the one that its predecessors left.
static bool apply_head(struct bt_replay *r, struct bt_scan *scan, const struct bt_record *e)
{
    struct bt_segment_head h;
    if (!bt_segment_head_get(e, &h)) {
        return bt_scan_damaged(scan, 0, "the segment's head is wrong");
    }
    bool emptied = h.log.last == h.log.base;
    bool follows = r->begun ? h.log.last == r->log.last : h.log.last <= r->base;
    if (!emptied && !follows) {
        return bt_scan_damaged(scan, 0, "the segment does not follow the one before it");
    }
    r->begun = true;
    r->log = h.log;
    cut(r);
    return true;
}

bool bt_replay_batch(struct bt_replay *r, struct bt_scan *scan, uint32_t block, const struct bt_batch *b,
                     uint64_t *records)
{
    *records = 0;
    for (uint64_t at = 0; at < b->bytes;) {
        struct bt_record e;
        uint32_t n = bt_record_get(b->payload + at, (uint32_t)(b->bytes - at), &e);
        bool head = at == 0 && block == 0;
        if (n == 0) {
            return bt_scan_damaged(scan, block, "a batch holds what is no record");
        }
        if (!(head ? apply_head(r, scan, &e) : apply(r, scan, block, &e))) {
            return false;
        }
        at += n;
        *records = head ? at : *records;
    }
    return true;
}

bool bt_replay_end(struct bt_replay *r, struct bt_scan *scan, const struct bt_snapshot_mark *mark)
{
    struct bt_image *im = r->image;
    if (im->count != r->log.last - r->log.base || (im->count > 0 && im->entry[0].index != r->log.base + 1)) {
        return bt_scan_damaged(scan, 0, "entries are missing");
    }
    if (mark->last_index > r->log.base && im->entry[mark->last_index - r->log.base - 1].term != mark->last_term) {
        r->log.base = r->log.last = mark->last_index;
        cut(r);
    }
    return true;
}
