// SPDX-License-Identifier: Apache-2.0
// See write.h.
#include "store/write.h"

#include <errno.h>
#include <string.h>

bool bt_store_disk_failed(struct bt_store *s, struct bt_disk_file f, int code, const char *what)
{
    s->failed = true;
    return bt_store_trouble(&s->why,
                            &(struct bt_store_error){.trouble = BT_STORE_DISK, .file = f, .code = code, .what = what});
}

static struct bt_disk_file segment(uint64_t number)
{
    return (struct bt_disk_file){.number = number, .kind = BT_DISK_SEGMENT};
}

static bool sync_file(struct bt_store *s, struct bt_disk_file f)
{
    struct bt_disk *d = s->config.disk;
    if (s->config.policy == BT_STORE_VOLATILE) {
        return true;
    }
    s->counter[BT_STORE_SYNCS]++;
    int code = d->ops->sync(d, f);
    return code == 0 || bt_store_disk_failed(s, f, code, "cannot sync");
}

static bool sync_names(struct bt_store *s, struct bt_disk_file f)
{
    struct bt_disk *d = s->config.disk;
    if (s->config.policy == BT_STORE_VOLATILE) {
        return true;
    }
    int code = d->ops->sync_names(d);
    return code == 0 || bt_store_disk_failed(s, f, code, "cannot sync the folder of");
}

static bool create(struct bt_store *s, struct bt_disk_file f)
{
    struct bt_disk *d = s->config.disk;
    uint32_t most = s->config.files_max - (s->opened ? s->config.files_max / 4 : 0); // the rest is for later starts
    if (s->files_n >= most) {
        return bt_store_disk_failed(s, f, ENFILE, "too many files for a new one; is no snapshot taken?");
    }
    int code = d->ops->create(d, f);
    if (code != 0) {
        return bt_store_disk_failed(s, f, code, "cannot create");
    }
    s->files[s->files_n++] = f;
    return true;
}

static bool write_blocks(struct bt_store *s, const struct bt_block_head *h, const uint8_t *payload, uint32_t n)
{
    struct bt_disk *d = s->config.disk;
    uint32_t bytes = bt_blocks_seal(s->blocks, *h, payload, n) * BT_BLOCK_BYTES;
    int code = d->ops->write(d, h->file, (uint64_t)h->at * BT_BLOCK_BYTES, s->blocks, bytes);
    s->counter[BT_STORE_BYTES_WRITTEN] += bytes;
    return code == 0 || bt_store_disk_failed(s, h->file, code, "cannot write");
}

static struct bt_block_head head_of(const struct bt_store *s, struct bt_disk_file f, uint32_t start, uint32_t count)
{
    return (struct bt_block_head){
        .file = f, .owner = s->owner, .at = start, .start = start, .count = count, .policy = (uint8_t)s->config.policy};
}

// One batch of a segment that is the newest one.
static bool write_batch(struct bt_store *s, const uint8_t *payload, uint32_t n)
{
    struct bt_segment *to = &s->chain[s->chain_n - 1];
    struct bt_block_head h = head_of(s, segment(to->number), to->end, bt_blocks_of(n));
    if (!write_blocks(s, &h, payload, n) || !sync_file(s, h.file)) {
        return false;
    }
    to->end += h.count;
    to->top = s->gathered_top > to->top ? s->gathered_top : to->top;
    s->counter[BT_STORE_BATCHES]++;
    return true;
}

void bt_keep_chain(struct bt_store *s)
{
    for (s->kept_n = 0; s->kept_n < s->chain_n; s->kept_n++) {
        s->kept[s->kept_n] = s->chain[s->kept_n].number;
    }
    s->kept_snapshot = s->named;
}

// Segments at the front whose entries are all in the snapshot are not read any more.
static void forget_front(struct bt_store *s)
{
    uint32_t n = 0;
    while (n < s->chain_n && s->chain[n].top <= s->committed.base) {
        n++;
    }
    s->chain_n -= n;
    memmove(s->chain, s->chain + n, s->chain_n * sizeof *s->chain);
}

// The head is the manifest: snapshot, compaction and the chain take effect with its first batch, all at once.
static bool begin_segment(struct bt_store *s)
{
    struct bt_segment before = s->chain_n > 0 ? s->chain[s->chain_n - 1] : (struct bt_segment){.number = 0};
    struct bt_segment fresh = {.number = s->next_number++};
    if (s->opened) {
        bt_keep_chain(s);
    }
    forget_front(s);
    struct bt_segment_head head = {.ids = s->ids,
                                   .number = fresh.number,
                                   .previous = before.number,
                                   .previous_end = before.end,
                                   .first = s->chain_n > 0 ? s->chain[0].number : fresh.number,
                                   .log = s->committed,
                                   .snapshot = s->mark};
    uint8_t bytes[BT_SEGMENT_HEAD_MAX];
    uint32_t n = bt_segment_head_put(bytes, &head);
    uint8_t *payload = s->payload + BT_SEGMENT_HEAD_MAX - n;
    memcpy(payload, bytes, n);
    if (!create(s, segment(fresh.number))) {
        return false;
    }
    s->chain[s->chain_n++] = fresh;
    if (!write_batch(s, payload, n + s->gathered) || !sync_names(s, segment(fresh.number))) {
        return false;
    }
    s->roll = false;
    s->named = s->mark.number;
    bt_remove_unneeded(s);
    return true;
}

// The first batch behind a head proves that the head is durable: nobody will have to go back to the one before.
static bool go_on(struct bt_store *s)
{
    if (!write_batch(s, s->payload + BT_SEGMENT_HEAD_MAX, s->gathered)) {
        return false;
    }
    if (s->kept_n > 0) {
        s->kept_n = 0;
        s->kept_snapshot = s->named;
        bt_remove_unneeded(s);
    }
    return true;
}

bool bt_write_gathered(struct bt_store *s)
{
    if (s->failed) {
        return false;
    }
    if (s->gathered == 0 && !s->roll) {
        return true;
    }
    uint64_t end = s->chain_n > 0 ? s->chain[s->chain_n - 1].end : 0;
    bool fits = (end + bt_blocks_of(s->gathered)) * BT_BLOCK_BYTES <= s->config.segment_bytes;
    bool ok = s->roll || !fits ? begin_segment(s) : go_on(s);
    s->failed = !ok;
    if (ok) {
        s->committed = s->log;
        s->gathered = 0;
        s->gathered_top = 0;
    }
    return ok;
}

// Bytes [from, from + n) of a head and what follows it.
static void piece(uint8_t *out, const uint8_t *head, uint32_t head_n, const struct bt_snapshot *body, uint64_t from,
                  uint32_t n)
{
    for (uint32_t done = 0, part; done < n; done += part, from += part) {
        if (from < head_n) {
            part = head_n - (uint32_t)from < n - done ? head_n - (uint32_t)from : n - done;
            memcpy(out + done, head + from, part);
        } else {
            part = n - done;
            memcpy(out + done, body->bytes + (from - head_n), part);
        }
    }
}

bool bt_write_snapshot(struct bt_store *s, const struct bt_snapshot *snapshot, uint64_t *number)
{
    struct bt_disk_file f = {.number = s->next_number++, .kind = BT_DISK_SNAPSHOT};
    uint8_t head[BT_SNAPSHOT_HEAD_MAX];
    uint32_t head_n = bt_snapshot_head_put(head, &s->ids, snapshot), most = s->config.batch_bytes / BT_BLOCK_ROOM;
    uint64_t whole = head_n + snapshot->length, count = (whole + BT_BLOCK_ROOM - 1) / BT_BLOCK_ROOM;
    if (!create(s, f)) {
        return false;
    }
    struct bt_block_head h = head_of(s, f, 0, (uint32_t)count);
    for (uint64_t at = 0; at < whole; h.at += most) {
        uint64_t left = whole - at, room = (uint64_t)most * BT_BLOCK_ROOM;
        uint32_t n = (uint32_t)(left < room ? left : room);
        piece(s->payload, head, head_n, snapshot, at, n);
        if (!write_blocks(s, &h, s->payload, n)) {
            return false;
        }
        at += n;
    }
    *number = f.number;
    return sync_file(s, f) && sync_names(s, f); // before any head names it
}

static bool needed(const struct bt_store *s, struct bt_disk_file f)
{
    if (f.kind == BT_DISK_SNAPSHOT) {
        return f.number == s->mark.number || f.number == s->kept_snapshot;
    }
    for (uint32_t i = 0; i < s->chain_n; i++) {
        if (s->chain[i].number == f.number) {
            return true;
        }
    }
    for (uint32_t i = 0; i < s->kept_n; i++) {
        if (s->kept[i] == f.number) {
            return true;
        }
    }
    return false;
}

void bt_remove_unneeded(struct bt_store *s)
{
    struct bt_disk *d = s->config.disk;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->files_n; i++) {
        bool keep = needed(s, s->files[i]);
        if (!keep && d->ops->remove(d, s->files[i]) != 0) {
            s->counter[BT_STORE_NOT_REMOVED]++; // the next start tries again
            keep = true;
        }
        if (keep) {
            s->files[kept++] = s->files[i];
        }
    }
    s->files_n = kept;
}
