// SPDX-License-Identifier: Apache-2.0
// SACK payload: which packets of a message are missing.
#ifndef BT_WIRE_SACK_H
#define BT_WIRE_SACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/mcase.h"

#define BT_SACK_HEADER   6u
#define BT_SACK_BITS_MAX 1024u
#define BT_SACK_SIZE_MAX (BT_SACK_HEADER + BT_SACK_BITS_MAX / 8)

enum bt_sack_what { BT_SACK_REQUEST = 0, BT_SACK_REPLY = 1 };

struct bt_sack {
    uint8_t what;  // enum bt_sack_what
    uint16_t base; // packet index of the first bit
    uint16_t nbits;
    const uint8_t *bits; // MSB first, set = missing; into the packet on decode
};

// M-20: truncated, what above 1, nbits 0 or above 1024, base+nbits above 65,536.
// M-25: trailing bytes.
enum bt_mcase bt_sack_decode(const uint8_t *p, size_t n, struct bt_sack *out);

static inline bool bt_sack_missing(const struct bt_sack *s, unsigned bit)
{
    return (s->bits[bit >> 3] >> (7 - (bit & 7))) & 1;
}

// Writes header and ceil(nbits/8) bytes; returns the size, 0 when room is too small.
size_t bt_sack_encode(uint8_t *p, size_t room, const struct bt_sack *s);

#endif
