// SPDX-License-Identifier: Apache-2.0
// The hash by which network cards share flows among their queues (RSS): of addresses and ports, with the key that its
// specification is verified by. A flow keeps its place on a card that uses the same key (Z-09).
#ifndef BT_BASE_TOEPLITZ_H
#define BT_BASE_TOEPLITZ_H

#include <stdint.h>

#include "base/addr.h"

#define BT_TOEPLITZ_ENTRIES 128u // of a card's redirection table

// Of a segment from src to dst, with ports.
uint32_t bt_toeplitz(const struct bt_addr *src, const struct bt_addr *dst);

// Which of n queues it comes to, by a table that names them in turn. n: 1…BT_TOEPLITZ_ENTRIES.
static inline uint32_t bt_toeplitz_queue(uint32_t hash, uint32_t n)
{
    return hash % BT_TOEPLITZ_ENTRIES % n;
}

#endif
