// SPDX-License-Identifier: Apache-2.0
// Key tags: SipHash-2-4 under a 128-bit key over the header with its
// options (tag bytes zeroed), the control payload (all of it, but none for
// REQUEST and REPLY), then source ip16, port, destination ip16, port.
#ifndef BT_WIRE_TAG_H
#define BT_WIRE_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "wire/r2p2.h"

#define BT_KEYS_LIVE 2 // during rotation

struct bt_key {
    uint8_t id; // 1…255; 0: unused
    uint8_t bytes[16];
};

struct bt_keyring {
    struct bt_key key[BT_KEYS_LIVE]; // key[0] signs; all verify
};

enum bt_tag_result { BT_TAG_VALID, BT_TAG_ABSENT, BT_TAG_UNKNOWN_KEY, BT_TAG_WRONG };

static inline bool bt_keyring_empty(const struct bt_keyring *k)
{
    return k->key[0].id == 0 && k->key[1].id == 0;
}

// Key that signs, or NULL.
const struct bt_key *bt_keyring_signer(const struct bt_keyring *k);

// Replaces the 8 tag bytes of an encoded packet p[0..n) whose header is h
// (h->opt.tag_offset as set by encode or decode). False when h has no tag.
bool bt_tag_sign(uint8_t *p, size_t n, const struct bt_r2p2_hdr *h, const struct bt_key *key, const struct bt_addr *src,
                 const struct bt_addr *dst);

// Checks p[0..n), decoded as h, against the key its tag names; constant time.
enum bt_tag_result bt_tag_verify(const uint8_t *p, size_t n, const struct bt_r2p2_hdr *h, const struct bt_keyring *keys,
                                 const struct bt_addr *src, const struct bt_addr *dst);

#endif
