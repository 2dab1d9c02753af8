// SPDX-License-Identifier: Apache-2.0
// A disk in memory whose bytes a test may look at and change.
#ifndef BT_TESTS_STORE_RAM_H
#define BT_TESTS_STORE_RAM_H

#include "store/disk.h"

#include <stdbool.h>

enum { RAM_FILES = 64 };

struct ram_file {
    struct bt_disk_file id;
    uint8_t *bytes;
    uint64_t size, room;
};

struct ram {
    struct bt_disk disk; // first, so that &r->disk is the device
    struct ram_file file[RAM_FILES];
    uint32_t files;
    int write_code, sync_code; // what the next of them returns; 0: it works
    uint64_t writes, syncs;
};

void ram_init(struct ram *r);
void ram_free(struct ram *r);
// A second disk with the same bytes.
void ram_copy(struct ram *to, const struct ram *from);
// The file of a kind with the highest number; NULL: there is none.
struct ram_file *ram_newest(struct ram *r, uint8_t kind);
// A file with these bytes, in place of one of that name. False when there is no room.
bool ram_put(struct ram *r, struct bt_disk_file id, const uint8_t *bytes, uint64_t n);

#endif
