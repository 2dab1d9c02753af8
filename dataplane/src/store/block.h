// SPDX-License-Identifier: Apache-2.0
// A block is a sector of 512 bytes that says where it belongs and whether it is whole. A disk writes a sector or does
// not; so a sector that is neither empty nor valid was damaged after it was written, while one that is empty may never
// have been written. That is what tells a torn tail from rot.
//
//   sum u64, magic u32, version u8, file kind u8, used u16, owner u64, file number u64, block u32, batch's first block
//   u32, batch's blocks u32, policy u8, 3 zeros; `used` bytes, zeros
//
// The sum (SipHash-2-4) covers all bytes after it, so also the place: a block that lies elsewhere is not believed.
#ifndef BT_STORE_BLOCK_H
#define BT_STORE_BLOCK_H

#include "store/disk.h"

#include <stdbool.h>
#include <stddef.h>

#define BT_BLOCK_BYTES          512u
#define BT_BLOCK_HEAD           48u
#define BT_BLOCK_ROOM           (BT_BLOCK_BYTES - BT_BLOCK_HEAD)
#define BT_STORE_VERSION_NUMBER 1u

enum bt_store_policy { BT_STORE_ALWAYS, BT_STORE_VOLATILE };

// Both are random numbers of 128 bits: the cluster's is given to its members, a member's is drawn for an empty disk.
struct bt_store_ids {
    uint8_t cluster[16], member[16];
};

struct bt_block_head {
    struct bt_disk_file file;
    uint64_t owner;            // bt_store_owner of cluster and member
    uint32_t at, start, count; // the block, its batch's first block, the batch's blocks
    uint16_t used;
    uint8_t policy; // enum bt_store_policy
};

enum bt_block_state { BT_BLOCK_VALID, BT_BLOCK_EMPTY, BT_BLOCK_DAMAGED, BT_BLOCK_OTHER_VERSION };

// A number that two members do not share.
uint64_t bt_store_owner(const struct bt_store_ids *ids);

// Writes one block with h->used bytes of payload.
void bt_block_seal(uint8_t *block, const struct bt_block_head *h, const uint8_t *payload);

// Whether a block is whole; then *h says where it belongs, and the payload begins at BT_BLOCK_HEAD.
enum bt_block_state bt_block_open(const uint8_t *block, struct bt_block_head *h);

// Blocks that n bytes of payload take.
static inline uint32_t bt_blocks_of(uint32_t n)
{
    return n / BT_BLOCK_ROOM + (n % BT_BLOCK_ROOM != 0);
}

// Seals n bytes of a batch into as many blocks as they take, h->at being the first of them; returns how many.
uint32_t bt_blocks_seal(uint8_t *blocks, struct bt_block_head h, const uint8_t *payload, uint32_t n);

#endif
