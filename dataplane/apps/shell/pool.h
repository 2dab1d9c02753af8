// SPDX-License-Identifier: Apache-2.0
// Packet buffers in address space that is reserved at once and touched only when used: a router
// may be told to hold a million requests, but most never will, and a container pays for the pages
// it touched. Freed buffers are used again first (LIFO).
#ifndef BT_APPS_POOL_H
#define BT_APPS_POOL_H

#include "base/pkt.h"

struct bt_pool_mapped {
    struct bt_pool pool; // first
    struct bt_pkt *meta;
    uint8_t *buffers;
    struct bt_pkt *free;
    uint32_t count; // buffers reserved
    uint32_t fresh; // never used from here on
    uint32_t in_use;
    size_t bytes;
};

// False when the address space cannot be had.
bool bt_pool_mapped_open(struct bt_pool_mapped *m, uint32_t count);
void bt_pool_mapped_close(struct bt_pool_mapped *m);

// Zeroed, page-aligned memory that is touched only when used; NULL when there is none.
void *bt_map(size_t bytes);

#endif
