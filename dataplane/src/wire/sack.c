// SPDX-License-Identifier: Apache-2.0
// SACK payload codec.
#include "wire/sack.h"

#include <string.h>

#include "base/bytes.h"

enum bt_mcase bt_sack_decode(const uint8_t *p, size_t n, struct bt_sack *out)
{
    if (n < BT_SACK_HEADER) {
        return BT_M20;
    }
    out->what = p[0];
    out->base = bt_get16(p + 2);
    out->nbits = bt_get16(p + 4);
    out->bits = p + BT_SACK_HEADER;
    if (out->what > BT_SACK_REPLY || out->nbits == 0 || out->nbits > BT_SACK_BITS_MAX) {
        return BT_M20;
    }
    if ((uint32_t)out->base + out->nbits > 65536u) {
        return BT_M20;
    }
    size_t want = BT_SACK_HEADER + ((size_t)out->nbits + 7) / 8;
    if (n < want) {
        return BT_M20;
    }
    return n > want ? BT_M25 : BT_M_OK;
}

size_t bt_sack_encode(uint8_t *p, size_t room, const struct bt_sack *s)
{
    size_t bytes = ((size_t)s->nbits + 7) / 8;
    if (room < BT_SACK_HEADER + bytes) {
        return 0;
    }
    p[0] = s->what;
    p[1] = 0;
    bt_put16(p + 2, s->base);
    bt_put16(p + 4, s->nbits);
    memcpy(p + BT_SACK_HEADER, s->bits, bytes);
    return BT_SACK_HEADER + bytes;
}
