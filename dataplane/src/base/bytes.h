// SPDX-License-Identifier: Apache-2.0
// Big-endian loads and stores at any alignment: no struct ever reaches the wire. Written as one copy and one
// swap, because compilers turn the byte-by-byte form into one instruction for loads but not for rows of stores.
#ifndef BT_BASE_BYTES_H
#define BT_BASE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t bt_get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return be16toh(v);
}

static inline uint32_t bt_get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static inline uint64_t bt_get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return be64toh(v);
}

static inline void bt_put16(uint8_t *p, uint16_t v)
{
    v = htobe16(v);
    memcpy(p, &v, sizeof v);
}

static inline void bt_put32(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof v);
}

static inline void bt_put64(uint8_t *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof v);
}

#endif
