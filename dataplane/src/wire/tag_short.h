// SPDX-License-Identifier: Apache-2.0
// Key tags (R-57, see tag.h) of packets whose form is known before they are read: n bytes under the tag, which stands
// at a constant place. For the router, which else would spend twice as long on finding the tag as on computing it.
#ifndef BT_WIRE_TAG_SHORT_H
#define BT_WIRE_TAG_SHORT_H

#include <sodium/crypto_shorthash.h>

#include "base/bytes.h"
#include "wire/tag.h"

#define BT_TAG_OPTION    12u // bytes of the option; the tag is the last 8
#define BT_TAG_SHORT_MAX 64u // of n
#define BT_TAG_ENDPOINT  18u // ip16, port

static inline void bt_tag_put_endpoint(uint8_t *p, const struct bt_addr *a)
{
    memcpy(p, a->ip, sizeof a->ip);
    bt_put16(p + sizeof a->ip, a->port);
}

// The tag of p[0..n) as it stands in the packet; what is at p + tag_at now does not matter. n and tag_at: constants.
static inline __attribute__((always_inline)) uint64_t bt_tag_short(const uint8_t *p, size_t n, size_t tag_at,
                                                                   const struct bt_key *key, const struct bt_addr *src,
                                                                   const struct bt_addr *dst)
{
    uint8_t under[BT_TAG_SHORT_MAX + 2 * BT_TAG_ENDPOINT];
    uint64_t tag = 0;
    memcpy(under, p, n);
    memcpy(under + tag_at, &tag, sizeof tag);
    bt_tag_put_endpoint(under + n, src);
    bt_tag_put_endpoint(under + n + BT_TAG_ENDPOINT, dst);
    crypto_shorthash((unsigned char *)&tag, under, n + 2 * BT_TAG_ENDPOINT, key->bytes);
    return tag;
}

// Key with this id, which no valid one has 0 for, or NULL.
static inline const struct bt_key *bt_keyring_find(const struct bt_keyring *k, uint8_t id)
{
    for (size_t i = 0; i < BT_KEYS_LIVE; i++) {
        if (k->key[i].id == id) {
            return id != 0 ? &k->key[i] : NULL;
        }
    }
    return NULL;
}

#endif
