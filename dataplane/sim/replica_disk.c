// SPDX-License-Identifier: Apache-2.0
// See replica_disk.h.
#include "replica_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An operation with memory of its own. */
struct queued {
    struct bt_store_op op;
    struct bt_entry *entry;
    uint8_t *bytes;
};

struct replica_disk {
    struct bt_hard_state hard_state;
    struct bt_snapshot snapshot;
    uint8_t *snapshot_bytes;
    struct bt_entry *entry; /* bodies are theirs */
    uint64_t entries, entries_room;
    struct queued *queue; /* oldest first */
    uint32_t queued, queue_room;
    uint32_t syncing; /* of the queue */
    uint64_t end;     /* last index once all of the queue is done */
    struct bt_recovery recovery;
    struct replica_wal *wal;
    uint64_t wal_generation; /* of the sync under way */
    enum bt_store_result wal_result;
    const char *why;
};

static void *need(void *p)
{
    if (p == NULL) {
        fputs("bobtail-sim: out of memory\n", stderr);
        abort();
    }
    return p;
}

static uint8_t *copy_of(const uint8_t *bytes, uint64_t n)
{
    uint8_t *p = need(malloc(n + 1));
    if (n > 0) {
        memcpy(p, bytes, n);
    }
    return p;
}

struct replica_disk *replica_disk_new(const struct bt_group_config *first, struct replica_wal *wal)
{
    struct replica_disk *d = need(calloc(1, sizeof *d));
    d->snapshot.config = *first;
    d->wal = wal;
    return d;
}

/* --- the durable image --- */

static void drop_entries(struct replica_disk *d, uint64_t from, uint64_t to)
{
    if (from >= to) {
        return;
    }
    for (uint64_t i = from; i < to; i++) {
        free((void *)(uintptr_t)d->entry[i].body);
    }
    memmove(d->entry + from, d->entry + to, (d->entries - to) * sizeof *d->entry);
    d->entries -= to - from;
}

/* Entries whose index is below. */
static uint64_t below(const struct replica_disk *d, uint64_t index)
{
    if (d->entries == 0 || index <= d->entry[0].index) {
        return 0;
    }
    uint64_t n = index - d->entry[0].index;
    return n < d->entries ? n : d->entries;
}

static void put_entries(struct replica_disk *d, struct queued *q, uint32_t count)
{
    if (d->entries + count > d->entries_room) {
        d->entries_room = 2 * (d->entries + count);
        d->entry = need(realloc(d->entry, d->entries_room * sizeof *d->entry));
    }
    for (uint32_t i = 0; i < count; i++) {
        d->entry[d->entries] = q->entry[i];
        d->entry[d->entries].body = copy_of(q->entry[i].body, q->entry[i].length);
        d->entries++;
    }
}

static void put_snapshot(struct replica_disk *d, struct queued *q)
{
    free(d->snapshot_bytes);
    d->snapshot_bytes = q->bytes;
    q->bytes = NULL;
    d->snapshot = q->op.snapshot;
    d->snapshot.bytes = d->snapshot_bytes;
}

static void apply(struct replica_disk *d, struct queued *q)
{
    switch (q->op.kind) {
    case BT_STORE_APPEND:
        put_entries(d, q, q->op.append.count);
        break;
    case BT_STORE_TRUNCATE:
        drop_entries(d, below(d, q->op.from), d->entries);
        break;
    case BT_STORE_HARD_STATE:
        d->hard_state = q->op.hard_state;
        break;
    case BT_STORE_SNAPSHOT:
        put_snapshot(d, q);
        break;
    case BT_STORE_COMPACT:
        drop_entries(d, 0, below(d, q->op.to + 1));
        break;
    }
}

/* --- the queue --- */

static void release(struct queued *q)
{
    for (uint32_t i = 0; q->entry != NULL && i < q->op.append.count; i++) {
        free((void *)(uintptr_t)q->entry[i].body);
    }
    free(q->entry);
    free(q->bytes);
}

/* Does the operation follow those before it? Keeps `end` up to date. */
static bool possible(struct replica_disk *d, const struct bt_store_op *op)
{
    switch (op->kind) {
    case BT_STORE_APPEND:
        for (uint32_t i = 0; i < op->append.count; i++) {
            if (op->append.entry[i].index != ++d->end) {
                return false;
            }
        }
        return op->append.count > 0;
    case BT_STORE_TRUNCATE:
        if (op->from == 0 || op->from > d->end) {
            return false;
        }
        d->end = op->from - 1;
        return true;
    case BT_STORE_SNAPSHOT:
        d->end = op->snapshot.last_index > d->end ? op->snapshot.last_index : d->end;
        return true;
    case BT_STORE_COMPACT:
        return op->to <= d->end;
    default:
        return true;
    }
}

bool replica_disk_store(struct replica_disk *d, const struct bt_store_op *op)
{
    if (!possible(d, op)) {
        return false;
    }
    if (d->queued == d->queue_room) {
        d->queue_room = d->queue_room * 2 + 16;
        d->queue = need(realloc(d->queue, d->queue_room * sizeof *d->queue));
    }
    struct queued *q = &d->queue[d->queued++];
    *q = (struct queued){.op = *op};
    if (op->kind == BT_STORE_APPEND) {
        q->entry = need(calloc(op->append.count, sizeof *q->entry));
        for (uint32_t i = 0; i < op->append.count; i++) {
            q->entry[i] = op->append.entry[i];
            q->entry[i].body = copy_of(op->append.entry[i].body, op->append.entry[i].length);
        }
    } else if (op->kind == BT_STORE_SNAPSHOT) {
        q->bytes = copy_of(op->snapshot.bytes, op->snapshot.length);
    }
    return true;
}

static uint64_t sync_wal(struct replica_disk *d, uint64_t now)
{
    uint64_t done = now + 1;
    bool taken = true;
    for (uint32_t i = 0; taken && i < d->syncing; i++) {
        struct queued *q = &d->queue[i];
        struct bt_store_op op = q->op;
        if (op.kind == BT_STORE_APPEND) {
            op.append.entry = q->entry;
        } else if (op.kind == BT_STORE_SNAPSHOT) {
            op.snapshot.bytes = q->bytes;
        }
        taken = replica_wal_take(d->wal, now, &op);
    }
    d->wal_result = replica_wal_commit(d->wal, &d->wal_generation, &done);
    return done > now ? done : now + 1;
}

uint64_t replica_disk_sync(struct replica_disk *d, uint64_t now, uint64_t takes)
{
    if (d->syncing > 0 || d->queued == 0) {
        return 0;
    }
    d->syncing = d->queued;
    return d->wal != NULL ? sync_wal(d, now) : now + takes;
}

static void finish(struct replica_disk *d, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        apply(d, &d->queue[i]);
        release(&d->queue[i]);
    }
    memmove(d->queue, d->queue + n, (d->queued - n) * sizeof *d->queue);
    d->queued -= n;
    d->syncing = 0;
}

/* The next thing that a log may have written whole: an operation, or one entry of an append. A log writes a batch that
 * is full, amid an append too. */
static void finish_next(struct replica_disk *d)
{
    struct queued *q = &d->queue[0];
    if (q->op.kind != BT_STORE_APPEND || q->op.append.count == 1) {
        finish(d, 1);
        return;
    }
    put_entries(d, q, 1);
    free((void *)(uintptr_t)q->entry[0].body);
    q->op.append.count--;
    memmove(q->entry, q->entry + 1, q->op.append.count * sizeof *q->entry);
}

enum bt_store_result replica_disk_synced(struct replica_disk *d, uint64_t *generation)
{
    *generation = d->queue[d->syncing - 1].op.generation;
    if (d->wal != NULL && d->wal_result != BT_STORE_DURABLE) {
        return BT_STORE_FAILED; /* what is queued may be there or not */
    }
    finish(d, d->syncing);
    return BT_STORE_DURABLE;
}

static void forget_queue(struct replica_disk *d)
{
    for (uint32_t i = 0; i < d->queued; i++) {
        release(&d->queue[i]);
    }
    d->queued = d->syncing = 0;
}

void replica_disk_crash(struct replica_disk *d, uint64_t now, struct bt_rng *rng)
{
    d->syncing = 0;
    if (d->wal != NULL) {
        replica_wal_crash(d->wal, now, bt_rng_below(rng, 10) < 7);
        return; /* what of the queue is there is seen when it is opened */
    }
    if (d->queued > 0) {
        finish(d, bt_rng_below(rng, d->queued + 1));
    }
    forget_queue(d);
}

/* --- what is found --- */

/* The log's entry at the snapshot's last index is another one: what follows it is nothing. A log that was asked to keep
 * it may have dropped it all the same. */
static bool contradicted(const struct replica_disk *d)
{
    uint64_t at = below(d, d->snapshot.last_index);
    return at < d->entries && d->entry[at].index == d->snapshot.last_index &&
           d->entry[at].term != d->snapshot.last_term;
}

/* Entries that a snapshot covers do not count. */
static bool same_entries(const struct replica_disk *d, const struct bt_recovery *f)
{
    uint64_t mine = below(d, d->snapshot.last_index + 1), theirs = 0;
    if (contradicted(d) && f->count == 0) {
        return true;
    }
    while (theirs < f->count && f->entry[theirs].index <= f->snapshot.last_index) {
        theirs++;
    }
    if (d->entries - mine != f->count - theirs) {
        return false;
    }
    for (; mine < d->entries; mine++, theirs++) {
        const struct bt_entry *a = &d->entry[mine], *b = &f->entry[theirs];
        bool same = a->index == b->index && a->term == b->term && a->kind == b->kind && a->length == b->length;
        if (!same || memcmp(a->body, b->body, a->length) != 0) {
            return false;
        }
    }
    return true;
}

static bool same(const struct replica_disk *d, const struct bt_recovery *f)
{
    return d->hard_state.term == f->hard_state.term && d->hard_state.vote == f->hard_state.vote &&
           d->snapshot.last_index == f->snapshot.last_index && d->snapshot.last_term == f->snapshot.last_term &&
           d->snapshot.length == f->snapshot.length && same_entries(d, f);
}

static bool open_wal(struct replica_disk *d, uint64_t now)
{
    if (!replica_wal_open(d->wal, now, &d->recovery)) {
        d->why = replica_wal_why(d->wal);
        return false;
    }
    if (d->recovery.fenced != NULL) {
        d->why = d->recovery.fenced;
        return false;
    }
    while (!same(d, &d->recovery) && d->queued > 0) {
        finish_next(d);
    }
    if (!same(d, &d->recovery)) {
        d->why = "the log found neither what was durable nor that and some of what followed";
        return false;
    }
    /* What a snapshot covers may be gone without having been asked for. */
    const struct bt_recovery *f = &d->recovery;
    drop_entries(d, 0, f->count > 0 ? below(d, f->entry[0].index) : d->entries);
    return true;
}

const struct bt_recovery *replica_disk_recover(struct replica_disk *d, uint64_t now)
{
    if (d->wal != NULL && !open_wal(d, now)) {
        return NULL;
    }
    forget_queue(d);
    uint64_t last = d->entries > 0 ? d->entry[d->entries - 1].index : 0;
    d->end = last > d->snapshot.last_index ? last : d->snapshot.last_index;
    if (d->wal == NULL) {
        d->recovery = (struct bt_recovery){
            .hard_state = d->hard_state, .snapshot = d->snapshot, .entry = d->entry, .count = d->entries};
    }
    return &d->recovery;
}

bool replica_disk_may_try_again(const struct replica_disk *d)
{
    return d->wal != NULL && replica_wal_may_try_again(d->wal);
}

void replica_disk_mend(struct replica_disk *d)
{
    if (d->wal != NULL) {
        replica_wal_mend(d->wal);
    }
}

const char *replica_disk_why(const struct replica_disk *d)
{
    return d->why;
}

bool replica_disk_holds(const struct replica_disk *d, uint64_t index, uint64_t term)
{
    if (index <= d->snapshot.last_index) {
        return true;
    }
    uint64_t at = below(d, index);
    return at < d->entries && d->entry[at].index == index && d->entry[at].term == term;
}

bool replica_disk_reaches(const struct replica_disk *d, uint64_t index)
{
    return index <= d->snapshot.last_index || (d->entries > 0 && d->entry[d->entries - 1].index >= index);
}

struct bt_hard_state replica_disk_hard_state(const struct replica_disk *d)
{
    return d->hard_state;
}

void replica_disk_free(struct replica_disk *d)
{
    if (d == NULL) {
        return;
    }
    forget_queue(d);
    replica_wal_free(d->wal);
    drop_entries(d, 0, d->entries);
    free(d->entry);
    free(d->queue);
    free(d->snapshot_bytes);
    free(d);
}
