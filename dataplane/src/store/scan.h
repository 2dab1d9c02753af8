// SPDX-License-Identifier: Apache-2.0
// Reads a file batch by batch and judges what it finds. A batch is what was written between two syncs. It begins only
// when the one before is durable; so what is missing below a block of a later batch was durable once, and is damage,
// while a batch with missing blocks that nothing follows was cut off by a crash before it was acknowledged.
#ifndef BT_STORE_SCAN_H
#define BT_STORE_SCAN_H

#include "store/block.h"
#include "store/error.h"

#include <stdbool.h>

struct bt_scan {
    struct bt_disk *disk;
    struct bt_disk_file file;
    uint8_t *window; // read buffer
    uint32_t window_blocks, from, have;
    uint64_t owner; // of the file's first valid block; 0: none was read yet
    uint8_t policy;
    struct bt_store_error *why;
};

enum bt_scan_state {
    BT_SCAN_BATCH, // a whole one
    BT_SCAN_END,   // the file ends here
    BT_SCAN_TORN,  // a batch that was never acknowledged, or none; the file holds nothing durable from here on
    BT_SCAN_BAD,   // why says where and how
};

struct bt_batch {
    uint8_t *payload; // where to put what it holds; NULL: only look
    uint64_t room;
    uint64_t bytes; // of payload
    uint32_t count; // blocks
};

void bt_scan_init(struct bt_scan *s, struct bt_disk *disk, uint8_t *window, uint32_t window_blocks,
                  struct bt_store_error *why);
void bt_scan_open(struct bt_scan *s, struct bt_disk_file file);

// The batch that begins at block `at`.
enum bt_scan_state bt_scan_batch(struct bt_scan *s, uint32_t at, struct bt_batch *b);

// Notes damage at a block of the file. Always false.
bool bt_scan_damaged(struct bt_scan *s, uint32_t block, const char *what);

#endif
