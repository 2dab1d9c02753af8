// SPDX-License-Identifier: Apache-2.0
// How batches, segments and snapshots come to the disk.
#ifndef BT_STORE_WRITE_H
#define BT_STORE_WRITE_H

#include "store/store.h"

// Notes an operation of the disk that failed, and that the store has. Always false.
bool bt_store_disk_failed(struct bt_store *s, struct bt_disk_file f, int code, const char *what);

// What was gathered, as a batch of the newest segment or of a new one. False when the store has failed.
bool bt_write_gathered(struct bt_store *s);

// A whole snapshot file, durable with its name. *number: of its file.
bool bt_write_snapshot(struct bt_store *s, const struct bt_snapshot *snapshot, uint64_t *number);

// What the newest head on the disk needs stays until the next one is proven.
void bt_keep_chain(struct bt_store *s);

// Removes what neither the newest head needs nor, while it is kept, the one before.
void bt_remove_unneeded(struct bt_store *s);

#endif
