// SPDX-License-Identifier: Apache-2.0
// The write-ahead log of a member of a replication group. Operations are taken in order and
// gathered; a commit writes what was gathered as one batch and syncs it once. Opening reads the disk, tells a torn tail
// from damage, and writes what may not have been durable once more, into a new segment, before anything is believed.
//
// One thread. No memory but what the caller gave; no clock; the disk is behind disk.h.
#ifndef BT_STORE_STORE_H
#define BT_STORE_STORE_H

#include "base/mem.h"
#include "replica/entry.h"
#include "store/record.h"
#include "store/scan.h"

#include <stdbool.h>

#define BT_STORE_BATCH_LEAST 2048u

struct bt_store_config {
    struct bt_disk *disk;
    struct bt_store_ids ids;      // the cluster, and who this member becomes where the disk is empty
    uint8_t member_expected[16];  // all zero: whoever the disk is
    struct bt_group_config first; // the configuration of that first start
    enum bt_store_policy policy;
    uint32_t segment_bytes; // a batch that would make a segment longer begins a new one
    uint32_t batch_bytes;   // of records between two syncs; an entry must fit
    uint32_t files_max;     // segments and snapshots at once; a quarter of them is kept for starts
    uint64_t snapshot_max;  // bytes of the application's snapshot
};

struct bt_segment {
    uint64_t number, top; // top: the highest index of an entry in it
    uint32_t end;         // blocks of it that count
};

enum bt_store_counter {
    BT_STORE_BATCHES,
    BT_STORE_SYNCS,
    BT_STORE_BYTES_WRITTEN,
    BT_STORE_RECORDS,
    BT_STORE_TORN_CUT, // tails that were cut when the store was opened
    BT_STORE_COPIED,   // bytes of records written once more then
    BT_STORE_NOT_REMOVED,
    BT_STORE_COUNTERS,
};

struct bt_store {
    struct bt_store_config config;
    struct bt_store_ids ids; // of this disk
    uint64_t owner;
    struct bt_log log;       // with what is gathered
    struct bt_log committed; // what the next head says: without it
    struct bt_snapshot_mark mark;
    struct bt_segment *chain; // oldest first; the last one is written to
    uint32_t chain_n;
    uint64_t *kept; // segments of the head before the newest one, until a batch behind that proves it
    uint32_t kept_n;
    uint64_t named, kept_snapshot; // the snapshot that the newest head names, and the one before
    struct bt_disk_file *files;    // all there are
    uint32_t files_n;
    uint64_t next_number;
    uint8_t *payload; // room for a head, then what is gathered
    uint32_t gathered;
    uint64_t gathered_top;
    uint8_t *blocks;
    uint32_t blocks_n;
    bool roll; // the next batch begins a segment
    bool opened, failed;
    uint64_t taken, durable; // generations
    struct bt_store_error why;
    uint64_t counter[BT_STORE_COUNTERS];
};

// What was found on the disk. The arrays are the caller's, as long as bt_store_room says.
struct bt_image {
    struct bt_entry *entry;
    uint64_t entries_max, count;
    uint8_t *bytes; // bodies, and the snapshot's bytes before them
    uint64_t bytes_max, used;
    struct bt_snapshot snapshot;
};

// Memory that a store takes of `mem`; a measuring run when that has no bytes. False when the configuration cannot be.
bool bt_store_init(struct bt_store *s, const struct bt_store_config *config, struct bt_mem *mem);

// How long the image's arrays must be for what is on the disk. False with s->why.
bool bt_store_room(struct bt_store *s, struct bt_image *image);

// Reads the disk, or makes a new member of an empty one. False with s->why; then the member must not start. The member
// id is s->ids.member; a disk that was Volatile is emptied, and is a new member's.
bool bt_store_open(struct bt_store *s, struct bt_image *image);

// What the Raft core starts from.
void bt_store_recovered(const struct bt_store *s, const struct bt_image *image, struct bt_recovery *r);

// Takes one operation; its memory is not needed any more when this returns. A snapshot is written at once. False when
// the store has failed, with s->why.
bool bt_store_take(struct bt_store *s, const struct bt_store_op *op);

// Makes all durable that was taken. *generation: everything up to it is.
enum bt_store_result bt_store_commit(struct bt_store *s, uint64_t *generation);

#endif
