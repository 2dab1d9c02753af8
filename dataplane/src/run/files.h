// SPDX-License-Identifier: Apache-2.0
// A disk of store/disk.h: one folder of the operating system's files, segment-<number> and snapshot-<number>. Whoever
// opens it holds it alone.
#ifndef BT_RUN_FILES_H
#define BT_RUN_FILES_H

#include "store/disk.h"

#include <stdbool.h>
#include <stddef.h>

enum { BT_FILES_OPEN = 4 };

struct bt_files {
    struct bt_disk disk; // first, so that &f->disk is the device
    int folder;
    struct {
        struct bt_disk_file file; // kind 0: free
        int fd;
    } open[BT_FILES_OPEN]; // those used last
    unsigned next;
};

// Makes the folder where it is not there; its parent must be. False with a message in err, and errno.
bool bt_files_open(struct bt_files *f, const char *path, char *err, size_t errlen);
void bt_files_close(struct bt_files *f);

#endif
