// SPDX-License-Identifier: Apache-2.0
// Packets whose bytes can be seen a second time where nobody can write them (Z-07): handlers get that view.
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

#endif
