// SPDX-License-Identifier: Apache-2.0
// See disk_folder.h.
#include "run/disk_folder.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEAD_CLUSTER = 72, // where a segment's first block says whose it is: see docs/reference/storage.md
    BLOCK = 512,
};

bool run_disk_say(char *err, size_t errlen, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err, errlen, format, args);
    va_end(args);
    return false;
}

static bool is_file_of_a_disk(const char *name)
{
    return strncmp(name, "segment-", 8) == 0 || strncmp(name, "snapshot-", 9) == 0;
}

int run_disk_by_name(const struct dirent **a, const struct dirent **b)
{
    const char *x = strrchr((*a)->d_name, '-'), *y = strrchr((*b)->d_name, '-');
    return strcmp(x, y); // numbers have 20 digits
}

int run_disk_wanted(const struct dirent *d)
{
    return is_file_of_a_disk(d->d_name);
}

bool run_disk_remove(const char *folder)
{
    char path[RUN_DISK_PATH];
    struct dirent **list;
    int n = scandir(folder, &list, run_disk_wanted, run_disk_by_name);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        unlink(path);
        free(list[i]);
    }
    if (n >= 0) {
        free(list);
    }
    return n >= 0 && rmdir(folder) == 0;
}

bool run_disk_cluster(const char *folder, uint8_t cluster[16], char *err, size_t errlen)
{
    char path[RUN_DISK_PATH];
    uint8_t block[BLOCK];
    struct dirent **list;
    int n = scandir(folder, &list, run_disk_wanted, run_disk_by_name);
    bool found = false;
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        int fd = !found && strncmp(list[i]->d_name, "segment-", 8) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0) {
            found = pread(fd, block, BLOCK, 0) == BLOCK && memcmp(block + 8, "BtLg", 4) == 0;
            close(fd);
        }
        free(list[i]);
    }
    if (n >= 0) {
        free(list);
    }
    if (found) {
        memcpy(cluster, block + HEAD_CLUSTER, 16);
    }
    return found || run_disk_say(err, errlen, "%s: no segment of a member's log", folder);
}
