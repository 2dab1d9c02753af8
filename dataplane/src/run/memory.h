// SPDX-License-Identifier: Apache-2.0
// Memory of a server. Packets' bytes can be seen a second time where nobody can write them (Z-07): handlers get that
// view. A server's table of requests is on huge pages.
#ifndef BT_RUN_MEMORY_H
#define BT_RUN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pkt.h"

struct bt_run_memory {
    struct bt_pool_fixed pool;
    uint8_t *at;
    size_t bytes;
    ptrdiff_t read_only; // from a byte of a packet to where it can only be read
};

// False when there is not so much memory.
bool bt_run_memory_open(struct bt_run_memory *m, uint32_t packets);
void bt_run_memory_close(struct bt_run_memory *m);

// Zeroed memory that is looked into here and there for each packet: on huge pages where the kernel has them
// (transparent_hugepage not `never`), so that a look is no miss of the TLB. NULL when there is none.
void *bt_run_table_open(size_t bytes);
void bt_run_table_close(void *table, size_t bytes);

#endif
