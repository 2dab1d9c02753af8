// SPDX-License-Identifier: Apache-2.0
// Opening a store: find the newest whole segment, follow its chain, replay it, and go on in a new segment.
#include <string.h>

#include "store/replay.h"
#include "store/write.h"

enum tip { TIP_FOUND, TIP_NONE, TIP_BAD };

static bool list_files(struct bt_store *s)
{
    struct bt_disk *d = s->config.disk;
    int code = d->ops->list(d, s->files, s->config.files_max, &s->files_n);
    if (code != 0) {
        return bt_store_disk_failed(s, (struct bt_disk_file){.kind = 0}, code, "cannot list the files");
    }
    for (uint32_t i = 0; i < s->files_n; i++) {
        uint64_t number = s->files[i].number;
        if (number >= UINT64_MAX / 2) {
            return bt_store_trouble(&s->why, &(struct bt_store_error){.trouble = BT_STORE_DAMAGED,
                                                                      .file = s->files[i],
                                                                      .what = "a number that no file has"});
        }
        s->next_number = number >= s->next_number ? number + 1 : s->next_number;
    }
    return true;
}

bool bt_store_room(struct bt_store *s, struct bt_image *image)
{
    struct bt_disk *d = s->config.disk;
    memset(image, 0, sizeof *image);
    if (!list_files(s)) {
        return false;
    }
    for (uint32_t i = 0; i < s->files_n; i++) {
        uint64_t bytes = 0;
        int code = d->ops->size(d, s->files[i], &bytes);
        if (code != 0) {
            return bt_store_disk_failed(s, s->files[i], code, "cannot ask for the size");
        }
        image->bytes_max += bytes;
    }
    image->entries_max = image->bytes_max / BT_RECORD_BYTES;
    return true;
}

static bool listed(const struct bt_store *s, uint64_t number)
{
    for (uint32_t i = 0; i < s->files_n; i++) {
        if (s->files[i].kind == BT_DISK_SEGMENT && s->files[i].number == number) {
            return true;
        }
    }
    return false;
}

// The highest number of a segment below another number; 0: none.
static uint64_t below(const struct bt_store *s, uint64_t number)
{
    uint64_t best = 0;
    for (uint32_t i = 0; i < s->files_n; i++) {
        uint64_t n = s->files[i].number;
        best = s->files[i].kind == BT_DISK_SEGMENT && n < number && n > best ? n : best;
    }
    return best;
}

static enum bt_scan_state read_head(struct bt_store *s, struct bt_scan *scan, uint64_t number,
                                    struct bt_segment_head *h)
{
    struct bt_batch b = {.payload = s->payload, .room = BT_SEGMENT_HEAD_MAX + s->config.batch_bytes};
    struct bt_record r;
    bt_scan_open(scan, (struct bt_disk_file){.number = number, .kind = BT_DISK_SEGMENT});
    enum bt_scan_state state = bt_scan_batch(scan, 0, &b);
    if (state != BT_SCAN_BATCH) {
        return state;
    }
    bool ok = bt_record_get(b.payload, (uint32_t)b.bytes, &r) != 0 && bt_segment_head_get(&r, h) &&
              h->number == number && bt_store_owner(&h->ids) == scan->owner;
    if (!ok) {
        bt_scan_damaged(scan, 0, "the segment's head is wrong");
        return BT_SCAN_BAD;
    }
    return BT_SCAN_BATCH;
}

// The newest segment whose first batch is whole. One whose first batch is torn never was acknowledged.
static enum tip find_tip(struct bt_store *s, struct bt_scan *scan, struct bt_segment_head *tip)
{
    for (uint64_t n = below(s, UINT64_MAX); n != 0; n = below(s, n)) {
        enum bt_scan_state state = read_head(s, scan, n, tip);
        if (state == BT_SCAN_BATCH) {
            return TIP_FOUND;
        }
        if (state == BT_SCAN_BAD) {
            return TIP_BAD;
        }
        s->counter[BT_STORE_TORN_CUT]++;
    }
    return TIP_NONE;
}

static bool refuse(struct bt_store *s, enum bt_store_trouble trouble)
{
    return bt_store_trouble(&s->why, &(struct bt_store_error){.trouble = trouble});
}

static bool all_zero(const uint8_t *p)
{
    static const uint8_t zeros[16];
    return memcmp(p, zeros, sizeof zeros) == 0;
}

static bool ours(struct bt_store *s, const struct bt_segment_head *h)
{
    if (memcmp(h->ids.cluster, s->config.ids.cluster, 16) != 0) {
        return refuse(s, BT_STORE_CLUSTER);
    }
    return all_zero(s->config.member_expected) || memcmp(h->ids.member, s->config.member_expected, 16) == 0 ||
           refuse(s, BT_STORE_MEMBER);
}

// The chain below the tip, newest first, then turned round.
static bool follow_chain(struct bt_store *s, struct bt_scan *scan, const struct bt_segment_head *tip)
{
    struct bt_segment_head h = *tip;
    s->chain_n = 0;
    s->chain[s->chain_n++] = (struct bt_segment){.number = tip->number};
    while (h.number != tip->first) {
        struct bt_disk_file f = {.number = h.previous, .kind = BT_DISK_SEGMENT};
        struct bt_segment next = {.number = h.previous, .end = h.previous_end};
        if (h.previous < tip->first || !listed(s, next.number) || s->chain_n == s->config.files_max) {
            return bt_store_trouble(
                &s->why,
                &(struct bt_store_error){.trouble = BT_STORE_DAMAGED, .file = f, .what = "the segment is missing"});
        }
        enum bt_scan_state state = read_head(s, scan, next.number, &h);
        if (state != BT_SCAN_BATCH) {
            return state != BT_SCAN_BAD && bt_scan_damaged(scan, 0, "blocks are missing that were durable");
        }
        if (memcmp(&h.ids, &tip->ids, sizeof h.ids) != 0) {
            return refuse(s, BT_STORE_MEMBER);
        }
        s->chain[s->chain_n++] = next;
    }
    for (uint32_t i = 0; i < s->chain_n / 2; i++) {
        struct bt_segment other = s->chain[i];
        s->chain[i] = s->chain[s->chain_n - 1 - i];
        s->chain[s->chain_n - 1 - i] = other;
    }
    return true;
}

// Where the last whole batch of the tip begins: it alone may not be durable, whatever a sync said later.
static bool last_batch(struct bt_store *s, struct bt_scan *scan, struct bt_segment *tip)
{
    struct bt_batch b = {.payload = NULL};
    uint32_t at = 0;
    bt_scan_open(scan, (struct bt_disk_file){.number = tip->number, .kind = BT_DISK_SEGMENT});
    for (;; at += b.count) {
        enum bt_scan_state state = bt_scan_batch(scan, at, &b);
        if (state == BT_SCAN_BAD) {
            return false;
        }
        if (state != BT_SCAN_BATCH) {
            s->counter[BT_STORE_TORN_CUT] += state == BT_SCAN_TORN;
            return true;
        }
        tip->end = at;
    }
}

static bool replay_segment(struct bt_store *s, struct bt_scan *scan, struct bt_replay *r, struct bt_segment *segment)
{
    struct bt_batch b = {.payload = s->payload, .room = BT_SEGMENT_HEAD_MAX + s->config.batch_bytes};
    uint64_t records;
    bt_scan_open(scan, (struct bt_disk_file){.number = segment->number, .kind = BT_DISK_SEGMENT});
    r->top = 0;
    for (uint32_t at = 0; at < segment->end; at += b.count) {
        enum bt_scan_state state = bt_scan_batch(scan, at, &b);
        if (state == BT_SCAN_BAD || (state == BT_SCAN_BATCH && !bt_replay_batch(r, scan, at, &b, &records))) {
            return false;
        }
        if (state != BT_SCAN_BATCH || b.count > segment->end - at) {
            return bt_scan_damaged(scan, at, "blocks are missing that were durable");
        }
    }
    segment->top = r->top;
    return true;
}

// The tip's last batch: its records are gathered again, to be written into the new segment.
static bool gather_last(struct bt_store *s, struct bt_scan *scan, struct bt_replay *r)
{
    struct bt_segment *tip = &s->chain[s->chain_n - 1];
    struct bt_batch b = {.payload = s->payload, .room = BT_SEGMENT_HEAD_MAX + s->config.batch_bytes};
    uint64_t records;
    r->top = 0;
    bt_scan_open(scan, (struct bt_disk_file){.number = tip->number, .kind = BT_DISK_SEGMENT});
    if (bt_scan_batch(scan, tip->end, &b) != BT_SCAN_BATCH) {
        return bt_scan_damaged(scan, tip->end, "a batch that was just there is gone");
    }
    s->committed = r->log;
    if (!bt_replay_batch(r, scan, tip->end, &b, &records)) {
        return false;
    }
    if (b.bytes - records > s->config.batch_bytes) {
        return refuse(s, BT_STORE_ROOM);
    }
    s->gathered = (uint32_t)(b.bytes - records);
    s->gathered_top = r->top;
    memmove(s->payload + BT_SEGMENT_HEAD_MAX, s->payload + records, s->gathered);
    s->counter[BT_STORE_COPIED] += s->gathered;
    return true;
}

static bool read_disk(struct bt_store *s, struct bt_scan *scan, const struct bt_segment_head *tip,
                      struct bt_image *image)
{
    struct bt_replay r = {.image = image, .base = tip->log.base};
    struct bt_segment *last = &s->chain[s->chain_n - 1];
    if (!bt_replay_snapshot(scan, s, image) || !last_batch(s, scan, last)) {
        return false;
    }
    for (uint32_t i = 0; i < s->chain_n; i++) {
        if (!replay_segment(s, scan, &r, &s->chain[i])) {
            return false;
        }
    }
    if (!gather_last(s, scan, &r)) {
        return false;
    }
    if (last->end == 0) { // the whole tip is written once more: the new segment takes its place in the chain
        s->committed = tip->log;
        s->chain_n--;
    }
    struct bt_log before = r.log;
    if (!bt_replay_end(&r, scan, &s->mark)) {
        return false;
    }
    if (r.log.base != before.base) { // a log that the snapshot contradicts
        s->committed = r.log;
        s->gathered = 0;
        s->gathered_top = 0;
    }
    s->log = r.log;
    return true;
}

// Under Volatile nothing is read again. Only a log that was durable, or another cluster's, is not thrown away.
static bool may_empty(struct bt_store *s, struct bt_scan *scan)
{
    struct bt_segment_head h;
    for (uint64_t n = below(s, UINT64_MAX); n != 0; n = below(s, n)) {
        struct bt_store_error ignored = {.trouble = BT_STORE_FINE};
        scan->why = &ignored;
        bool whole = read_head(s, scan, n, &h) == BT_SCAN_BATCH;
        scan->why = &s->why;
        if (whole && !ours(s, &h)) {
            return false;
        }
        if (scan->owner != 0 && scan->policy != BT_STORE_VOLATILE) {
            return refuse(s, BT_STORE_POLICY);
        }
    }
    return true;
}

static void begin_empty(struct bt_store *s, struct bt_image *image)
{
    s->chain_n = 0;
    s->ids = s->config.ids;
    s->mark = (struct bt_snapshot_mark){.config = s->config.first};
    memset(&s->committed, 0, sizeof s->committed);
    s->log = s->committed;
    image->snapshot = (struct bt_snapshot){.config = s->config.first};
}

static bool read_or_begin(struct bt_store *s, struct bt_image *image)
{
    struct bt_scan scan;
    struct bt_segment_head tip;
    bt_scan_init(&scan, s->config.disk, s->blocks, s->blocks_n, &s->why);
    if (s->config.policy == BT_STORE_VOLATILE) {
        begin_empty(s, image);
        return may_empty(s, &scan);
    }
    enum tip found = find_tip(s, &scan, &tip);
    if (found == TIP_BAD) {
        return false;
    }
    if (found == TIP_NONE || scan.policy == BT_STORE_VOLATILE) {
        begin_empty(s, image);
        return found == TIP_NONE || ours(s, &tip);
    }
    s->ids = tip.ids;
    s->mark = tip.snapshot;
    s->named = tip.snapshot.number;
    if (!ours(s, &tip) || !follow_chain(s, &scan, &tip)) {
        return false;
    }
    bt_keep_chain(s);
    return read_disk(s, &scan, &tip, image);
}

bool bt_store_open(struct bt_store *s, struct bt_image *image)
{
    image->count = image->used = 0;
    if (s->failed || !list_files(s) || !read_or_begin(s, image)) {
        s->failed = true;
        return false;
    }
    s->owner = bt_store_owner(&s->ids);
    s->roll = true;
    s->opened = bt_write_gathered(s);
    return s->opened;
}

void bt_store_recovered(const struct bt_store *s, const struct bt_image *image, struct bt_recovery *r)
{
    *r = (struct bt_recovery){
        .hard_state = s->log.hard, .snapshot = image->snapshot, .entry = image->entry, .count = image->count};
}
