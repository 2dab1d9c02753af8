// SPDX-License-Identifier: Apache-2.0
// Why a store cannot be opened, or failed: what, in which file, at which byte.
#ifndef BT_STORE_ERROR_H
#define BT_STORE_ERROR_H

#include "store/disk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bt_store_trouble {
    BT_STORE_FINE,
    BT_STORE_DAMAGED, // what was durable is not there any more, or is not what was written: the member is fenced
    BT_STORE_CLUSTER, // the disk is another cluster's
    BT_STORE_MEMBER,  // the disk is another member's
    BT_STORE_POLICY,  // Volatile is asked for where a durable log stands
    BT_STORE_VERSION, // written by a release with another format
    BT_STORE_ROOM,    // more on the disk than this store was given memory for
    BT_STORE_DISK,    // an operation of the disk failed; code says how
    BT_STORE_REFUSED, // an operation that contradicts the log: a mistake of who gave it
    BT_STORE_TROUBLES,
};

struct bt_store_error {
    enum bt_store_trouble trouble;
    struct bt_disk_file file; // kind 0: none in particular
    uint64_t byte;
    int code;         // errno of BT_STORE_DISK
    const char *what; // a constant text
};

// Notes the first trouble; later ones are its consequences. Always false.
static inline bool bt_store_trouble(struct bt_store_error *e, const struct bt_store_error *found)
{
    if (e->trouble == BT_STORE_FINE) {
        *e = *found;
    }
    return false;
}

// "damaged at segment 3, byte 4096: a block's checksum is wrong" and what to do; always ends in a zero. Returns its
// length.
size_t bt_store_error_text(const struct bt_store_error *e, char *out, size_t room);

#endif
