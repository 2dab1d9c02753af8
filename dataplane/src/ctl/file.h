// SPDX-License-Identifier: Apache-2.0
// Configuration texts from the file system: --config, the cache of the last good one, and memfds.
#ifndef BT_CTL_FILE_H
#define BT_CTL_FILE_H

#include "ctl/error.h"

#include <stddef.h>

// Reads a whole file of at most 1 MiB into malloc'd memory. NULL with *e filled in (and errno
// ENOENT when it does not exist).
char *bt_file_read(const char *path, size_t *len, struct bt_ctl_error *e);

// Replaces path by the text so that a reader, or a crash, sees the old text or the new one.
bool bt_file_replace(const char *path, const char *text, size_t len, struct bt_ctl_error *e);

// Copies `size` bytes out of a memfd that must be sealed against write, shrink and grow: else its
// sender could change the text after it was checked.
char *bt_memfd_read(int fd, size_t size, struct bt_ctl_error *e);

#endif
