// SPDX-License-Identifier: Apache-2.0
// What a store asks of a disk. Behind it stand files of an operating system (run/files.c) and a disk in virtual time
// that loses, tears and rots what it was given (sim/disk.c).
//
// A write may be read back at once. It survives a loss of power only when a sync of its file, begun afterwards, has
// returned 0; so does a name when sync_names has. After a sync that failed nothing may be believed that was written
// since the one before it: an operating system may have thrown it away and show it all the same.
#ifndef BT_STORE_DISK_H
#define BT_STORE_DISK_H

#include <stdint.h>

enum bt_disk_kind { BT_DISK_SEGMENT = 1, BT_DISK_SNAPSHOT = 2 };

// A file is a kind and a number; both kinds share the numbers, and none is given twice.
struct bt_disk_file {
    uint64_t number;
    uint8_t kind; // enum bt_disk_kind
};

struct bt_disk;

// Each returns 0 or an errno.
struct bt_disk_ops {
    int (*create)(struct bt_disk *d, struct bt_disk_file f); // EEXIST when it is there
    int (*write)(struct bt_disk *d, struct bt_disk_file f, uint64_t offset, const uint8_t *p, uint32_t n);
    int (*sync)(struct bt_disk *d, struct bt_disk_file f);
    int (*sync_names)(struct bt_disk *d); // files created and removed
    int (*remove)(struct bt_disk *d, struct bt_disk_file f);
    // *got < n only at the end of the file.
    int (*read)(struct bt_disk *d, struct bt_disk_file f, uint64_t offset, uint8_t *p, uint32_t n, uint32_t *got);
    int (*size)(struct bt_disk *d, struct bt_disk_file f, uint64_t *bytes);
    // All files there are, in any order; E2BIG when there are more than max.
    int (*list)(struct bt_disk *d, struct bt_disk_file *files, uint32_t max, uint32_t *count);
};

struct bt_disk {
    const struct bt_disk_ops *ops;
};

#endif
