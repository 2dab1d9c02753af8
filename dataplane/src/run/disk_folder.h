// SPDX-License-Identifier: Apache-2.0
// The folder of a member's disk, or of a copy of one: its files by name, and whose it is.
#ifndef BT_RUN_DISK_FOLDER_H
#define BT_RUN_DISK_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUN_DISK_PATH = 512 };

// For scandir: the files of a disk, oldest first.
int run_disk_wanted(const struct dirent *d);
int run_disk_by_name(const struct dirent **a, const struct dirent **b);

// Removes the files of a disk, and the folder when nothing else is in it. False: it is still there.
bool run_disk_remove(const char *folder);

// The cluster whose disk it is, which the store compares with every block it believes. False with a message in err.
bool run_disk_cluster(const char *folder, uint8_t cluster[16], char *err, size_t errlen);

// The message of a failure; false.
bool run_disk_say(char *err, size_t errlen, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
