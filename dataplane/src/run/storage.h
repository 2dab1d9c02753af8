// SPDX-License-Identifier: Apache-2.0
// The storage thread of a member: operations in, completions out, nobody waits for a disk. What was handed over while a
// sync ran goes to the disk together and is synced once (group commit).
//
// Two threads: the owner, which calls everything here, and the storage thread, which runs between start and stop. The
// queue between them is bounded; when it is full give says so and the owner tries again later.
#ifndef BT_RUN_STORAGE_H
#define BT_RUN_STORAGE_H

#include "run/files.h"
#include "store/store.h"

#include <stdbool.h>

struct bt_storage;

struct bt_storage_config {
    const char *folder;
    struct bt_disk *disk; // instead of a folder; NULL: the folder
    uint8_t cluster[16];
    uint8_t member_expected[16]; // all zero: whoever the disk is
    uint16_t id;                 // of the member in its group, kept in a new disk's member id; 0: none
    struct bt_group_config first;
    enum bt_store_policy policy;
    uint32_t segment_bytes, batch_bytes, files_max; // 0: 64 MiB, 1 MiB, 4096
    uint32_t queue_bytes;                           // of operations that wait; 0: 4 MiB; at least four of the longest
    uint64_t snapshot_max;                          // 0: 1 GiB
    void (*wake)(void *arg);                        // a completion is there; called by the storage thread
    void *wake_arg;
    struct bt_store_error *error; // NULL, or where to say why the disk cannot be opened
};

struct bt_storage_completion {
    uint64_t generation;
    enum bt_store_result result;
};

enum bt_storage_counter {
    BT_STORAGE_OPERATIONS,
    BT_STORAGE_COMMITS,
    BT_STORAGE_QUEUE_FULL, // operations that had to come again
    BT_STORAGE_COUNTERS,
};

// Opens the disk and recovers, which takes as long as it takes. NULL with a message in err: then the member must not
// start. What was found is in *found until the first call of start.
struct bt_storage *bt_storage_open(const struct bt_storage_config *c, struct bt_recovery *found, char *err,
                                   size_t errlen);
const struct bt_store_ids *bt_storage_ids(const struct bt_storage *s);

bool bt_storage_start(struct bt_storage *s);

// Hands one operation over; its memory is the caller's again, but for a snapshot's bytes, which must stay until its
// completion. False when the queue is full, or can never hold it: try again, or hand over less.
bool bt_storage_give(struct bt_storage *s, const struct bt_store_op *op);

// The newest completion; false when there is none since the last call. A failure is final.
bool bt_storage_completed(struct bt_storage *s, struct bt_storage_completion *c);

// After a failure: why, for people.
const char *bt_storage_why(const struct bt_storage *s);
// The errno of a disk that failed; 0: it was something else, or nothing.
int bt_storage_code(const struct bt_storage *s);
uint64_t bt_storage_count(const struct bt_storage *s, enum bt_storage_counter c);

// Makes everything durable that was given, ends the thread and closes the disk.
void bt_storage_close(struct bt_storage *s);

#endif
