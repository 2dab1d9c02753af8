// SPDX-License-Identifier: Apache-2.0
// The Internet checksum (RFC 1071), eight bytes at a time. A sum is kept unfolded in 64 bits and in memory order,
// so that pieces of a packet add up in any order and the byte order of the machine never matters; only the last
// piece may have an odd length.
#ifndef BT_WIRE_CHECKSUM_H
#define BT_WIRE_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

// One's complement addition: the carry comes back in at the bottom.
static inline uint64_t bt_csum_add(uint64_t sum, uint64_t v)
{
    sum += v;
    return sum + (sum < v);
}

// Adds n bytes.
static inline uint64_t bt_csum_bytes(uint64_t sum, const uint8_t *p, size_t n)
{
    uint64_t w;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&w, p, 8);
        sum = bt_csum_add(sum, w);
    }
    if ((n & 4) != 0) { // pieces of fixed size: a copy of n bytes would be a call
        uint32_t v;
        memcpy(&v, p, 4);
        sum = bt_csum_add(sum, v);
        p += 4;
    }
    if ((n & 2) != 0) {
        uint16_t v;
        memcpy(&v, p, 2);
        sum = bt_csum_add(sum, v);
        p += 2;
    }
    if ((n & 1) != 0) {
        const uint8_t last[2] = {*p, 0};
        uint16_t v;
        memcpy(&v, last, 2);
        sum = bt_csum_add(sum, v);
    }
    return sum;
}

// Adds a 16-bit field given in host order.
static inline uint64_t bt_csum_field(uint64_t sum, uint16_t v)
{
    uint8_t b[2];
    uint16_t w;
    bt_put16(b, v);
    memcpy(&w, b, 2);
    return bt_csum_add(sum, w);
}

// 16 bits, in memory order.
static inline uint16_t bt_csum_fold(uint64_t sum)
{
    sum = (sum & 0xffffffffu) + (sum >> 32);
    sum = (sum & 0xffffffffu) + (sum >> 32);
    sum = (sum & 0xffffu) + (sum >> 16);
    sum = (sum & 0xffffu) + (sum >> 16);
    return (uint16_t)sum;
}

// True for the sum over something that contains its own right checksum.
static inline bool bt_csum_ok(uint64_t sum)
{
    return bt_csum_fold(sum) == 0xffff;
}

// Writes the checksum of what was summed.
static inline void bt_csum_store(uint8_t at[2], uint64_t sum)
{
    uint16_t v = (uint16_t)~bt_csum_fold(sum);
    memcpy(at, &v, 2);
}

// The same for UDP, where 0 would mean "not computed" (RFC 768).
static inline void bt_csum_store_udp(uint8_t at[2], uint64_t sum)
{
    uint16_t v = (uint16_t)~bt_csum_fold(sum);
    v = v != 0 ? v : 0xffff;
    memcpy(at, &v, 2);
}

// Writes the folded sum itself: what a device that completes checksums wants of the pseudo-header.
static inline void bt_csum_store_partial(uint8_t at[2], uint64_t sum)
{
    uint16_t v = bt_csum_fold(sum);
    memcpy(at, &v, 2);
}

// True for a field that holds such a sum: somebody left the rest to a device.
static inline bool bt_csum_is_partial(const uint8_t at[2], uint64_t sum)
{
    uint16_t v;
    memcpy(&v, at, 2);
    return v == bt_csum_fold(sum);
}

#endif
