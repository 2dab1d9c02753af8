// SPDX-License-Identifier: Apache-2.0
// Applies the records of batches, in order, to a log and the image of what is in it.
#ifndef BT_STORE_REPLAY_H
#define BT_STORE_REPLAY_H

#include "store/store.h"

struct bt_replay {
    struct bt_log log;
    struct bt_image *image;
    uint64_t base; // entries at or below it are not wanted: the newest head says so
    uint64_t top;  // the highest index of an entry since it was last set to 0
    bool begun;    // a head was applied
};

// Puts the newest snapshot into the image, which is empty.
bool bt_replay_snapshot(struct bt_scan *scan, const struct bt_store *s, struct bt_image *image);

// A batch of scan's file. False with scan->why. *records: where the records begin that are not a head.
bool bt_replay_batch(struct bt_replay *r, struct bt_scan *scan, uint32_t block, const struct bt_batch *b,
                     uint64_t *records);

// Is the image the whole log? A log that contradicts the snapshot is dropped: its entries never were committed.
bool bt_replay_end(struct bt_replay *r, struct bt_scan *scan, const struct bt_snapshot_mark *mark);

#endif
