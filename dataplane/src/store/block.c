// SPDX-License-Identifier: Apache-2.0
// See block.h.
#include "store/block.h"

#include <sodium/crypto_generichash.h>
#include <sodium/crypto_shorthash.h>
#include <string.h>

#include "base/bytes.h"

enum { MAGIC = 0x42744c67, SUM = 8, POLICIES = 2 };

_Static_assert(crypto_shorthash_BYTES == SUM, "a sum is 8 bytes");

// A constant: the sum finds damage, it keeps no secret.
static const uint8_t key[crypto_shorthash_KEYBYTES] = "bobtail's blocks";

uint64_t bt_store_owner(const struct bt_store_ids *ids)
{
    uint8_t both[32], hash[crypto_generichash_BYTES_MIN];
    memcpy(both, ids->cluster, 16);
    memcpy(both + 16, ids->member, 16);
    crypto_generichash(hash, sizeof hash, both, sizeof both, NULL, 0);
    return bt_get64(hash);
}

void bt_block_seal(uint8_t *block, const struct bt_block_head *h, const uint8_t *payload)
{
    memset(block, 0, BT_BLOCK_BYTES);
    bt_put32(block + 8, MAGIC);
    block[12] = BT_STORE_VERSION_NUMBER;
    block[13] = h->file.kind;
    bt_put16(block + 14, h->used);
    bt_put64(block + 16, h->owner);
    bt_put64(block + 24, h->file.number);
    bt_put32(block + 32, h->at);
    bt_put32(block + 36, h->start);
    bt_put32(block + 40, h->count);
    block[44] = h->policy;
    memcpy(block + BT_BLOCK_HEAD, payload, h->used);
    crypto_shorthash(block, block + SUM, BT_BLOCK_BYTES - SUM, key);
}

static bool empty(const uint8_t *block)
{
    return block[0] == 0 && memcmp(block, block + 1, BT_BLOCK_BYTES - 1) == 0;
}

// A valid sum over nonsense is a writer's mistake or a forgery; it must not be believed either.
static bool sensible(const uint8_t *block, const struct bt_block_head *h)
{
    bool kind = h->file.kind == BT_DISK_SEGMENT || h->file.kind == BT_DISK_SNAPSHOT;
    bool zeros = block[45] == 0 && block[46] == 0 && block[47] == 0;
    bool inside = h->count > 0 && h->at >= h->start && h->at - h->start < h->count;
    if (!kind || !zeros || !inside || h->policy >= POLICIES || h->used == 0 || h->used > BT_BLOCK_ROOM) {
        return false;
    }
    return h->at - h->start == h->count - 1 || h->used == BT_BLOCK_ROOM; // all but a batch's last block are full
}

enum bt_block_state bt_block_open(const uint8_t *block, struct bt_block_head *h)
{
    uint8_t sum[SUM];
    crypto_shorthash(sum, block + SUM, BT_BLOCK_BYTES - SUM, key);
    if (memcmp(sum, block, SUM) != 0) {
        return empty(block) ? BT_BLOCK_EMPTY : BT_BLOCK_DAMAGED;
    }
    if (bt_get32(block + 8) != MAGIC) {
        return BT_BLOCK_DAMAGED;
    }
    if (block[12] != BT_STORE_VERSION_NUMBER) {
        return BT_BLOCK_OTHER_VERSION;
    }
    *h = (struct bt_block_head){.file = {.number = bt_get64(block + 24), .kind = block[13]},
                                .owner = bt_get64(block + 16),
                                .at = bt_get32(block + 32),
                                .start = bt_get32(block + 36),
                                .count = bt_get32(block + 40),
                                .used = bt_get16(block + 14),
                                .policy = block[44]};
    return sensible(block, h) ? BT_BLOCK_VALID : BT_BLOCK_DAMAGED;
}

uint32_t bt_blocks_seal(uint8_t *blocks, struct bt_block_head h, const uint8_t *payload, uint32_t n)
{
    uint32_t sealed = 0;
    for (; n > 0; sealed++, h.at++) {
        h.used = (uint16_t)(n < BT_BLOCK_ROOM ? n : BT_BLOCK_ROOM);
        bt_block_seal(blocks + (size_t)sealed * BT_BLOCK_BYTES, &h, payload);
        payload += h.used;
        n -= h.used;
    }
    return sealed;
}
