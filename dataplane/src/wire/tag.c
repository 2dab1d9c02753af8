// SPDX-License-Identifier: Apache-2.0
// Signing and checking key tags with libsodium's SipHash-2-4.
#include "wire/tag.h"

#include <sodium/crypto_shorthash.h>
#include <sodium/utils.h>
#include <string.h>

#include "base/bytes.h"

#define TAG_BYTES   8u
#define ENDPOINTS   36u   // two of ip16, port
#define CONTROL_MAX 2048u // longest control payload that is signed

_Static_assert(crypto_shorthash_BYTES == TAG_BYTES, "tag is 8 bytes");
_Static_assert(crypto_shorthash_KEYBYTES == sizeof((struct bt_key *)0)->bytes, "key is 128 bit");

const struct bt_key *bt_keyring_signer(const struct bt_keyring *k)
{
    for (size_t i = 0; i < BT_KEYS_LIVE; i++) {
        if (k->key[i].id) {
            return &k->key[i];
        }
    }
    return NULL;
}

static uint8_t *put_addr(uint8_t *p, const struct bt_addr *a)
{
    memcpy(p, a->ip, 16);
    bt_put16(p + 16, a->port);
    return p + 18;
}

// What a tag is of: a packet, and where it goes.
struct tagged {
    const uint8_t *p;
    size_t n;
    const struct bt_r2p2_hdr *h;
    const struct bt_addr *src, *dst;
};

static inline bool compute(const struct tagged *of, const uint8_t key[16], uint8_t out[TAG_BYTES])
{
    const struct bt_r2p2_hdr *h = of->h;
    uint8_t buf[BT_R2P2_HEADER_MAX + CONTROL_MAX + ENDPOINTS];
    size_t head = h->hdr_size, body = h->type == BT_REQUEST || h->type == BT_REPLY ? 0 : of->n - head;
    if (head > BT_R2P2_HEADER_MAX || head > of->n || body > CONTROL_MAX || h->opt.tag_offset + TAG_BYTES > head) {
        return false;
    }
    memcpy(buf, of->p, head + body);
    memset(buf + h->opt.tag_offset, 0, TAG_BYTES);
    uint8_t *end = put_addr(put_addr(buf + head + body, of->src), of->dst);
    crypto_shorthash(out, buf, (unsigned long long)(end - buf), key);
    return true;
}

bool bt_tag_sign(uint8_t *p, size_t n, const struct bt_r2p2_hdr *h, const struct bt_key *key, const struct bt_addr *src,
                 const struct bt_addr *dst)
{
    uint8_t tag[TAG_BYTES];
    if (!(h->opt.present & BT_HAS_TAG) || !compute(&(struct tagged){p, n, h, src, dst}, key->bytes, tag)) {
        return false;
    }
    memcpy(p + h->opt.tag_offset, tag, TAG_BYTES);
    return true;
}

enum bt_tag_result bt_tag_verify(const uint8_t *p, size_t n, const struct bt_r2p2_hdr *h, const struct bt_keyring *keys,
                                 const struct bt_addr *src, const struct bt_addr *dst)
{
    if (!(h->opt.present & BT_HAS_TAG)) {
        return BT_TAG_ABSENT;
    }
    for (size_t i = 0; i < BT_KEYS_LIVE; i++) {
        uint8_t want[TAG_BYTES];
        if (keys->key[i].id == 0 || keys->key[i].id != h->opt.key_id) {
            continue;
        }
        if (!compute(&(struct tagged){p, n, h, src, dst}, keys->key[i].bytes, want)) {
            return BT_TAG_WRONG;
        }
        return sodium_memcmp(want, p + h->opt.tag_offset, TAG_BYTES) == 0 ? BT_TAG_VALID : BT_TAG_WRONG;
    }
    return BT_TAG_UNKNOWN_KEY;
}
