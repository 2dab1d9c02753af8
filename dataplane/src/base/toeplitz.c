// SPDX-License-Identifier: Apache-2.0
// See toeplitz.h.
#include "base/toeplitz.h"

static const uint8_t key[40] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
                                0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
                                0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

uint32_t bt_toeplitz(const struct bt_addr *src, const struct bt_addr *dst)
{
    uint8_t in[36];
    uint32_t n = bt_addr_is_v4(src) ? 4 : 16, from = 16 - n, hash = 0;
    memcpy(in, src->ip + from, n);
    memcpy(in + n, dst->ip + from, n);
    bt_put16(in + 2 * n, src->port);
    bt_put16(in + 2 * n + 2, dst->port);
    for (uint32_t i = 0; i < 2 * n + 4; i++) {
        uint64_t window = (uint64_t)bt_get32(key + i) << 8 | key[i + 4]; // what the eight bits of this byte see
        for (uint32_t bit = 0; bit < 8; bit++) {
            hash ^= (in[i] >> (7 - bit) & 1) != 0 ? (uint32_t)(window >> (8 - bit)) : 0;
        }
    }
    return hash;
}
