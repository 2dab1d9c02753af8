// SPDX-License-Identifier: Apache-2.0
// See scan.h.
#include "store/scan.h"

#include <string.h>

void bt_scan_init(struct bt_scan *s, struct bt_disk *disk, uint8_t *window, uint32_t window_blocks,
                  struct bt_store_error *why)
{
    *s = (struct bt_scan){.disk = disk, .window = window, .window_blocks = window_blocks, .why = why};
}

void bt_scan_open(struct bt_scan *s, struct bt_disk_file file)
{
    s->file = file;
    s->from = s->have = 0;
    s->owner = 0;
}

static bool trouble(struct bt_scan *s, enum bt_store_trouble kind, uint32_t block, const char *what)
{
    return bt_store_trouble(
        s->why, &(struct bt_store_error){
                    .trouble = kind, .file = s->file, .byte = (uint64_t)block * BT_BLOCK_BYTES, .what = what});
}

bool bt_scan_damaged(struct bt_scan *s, uint32_t block, const char *what)
{
    return trouble(s, BT_STORE_DAMAGED, block, what);
}

// *p: the block, NULL at the end of the file. A block that the end cuts off was not written whole.
static bool block_at(struct bt_scan *s, uint32_t block, const uint8_t **p)
{
    if (block < s->from || block - s->from >= s->have) {
        uint32_t got = 0;
        int code = s->disk->ops->read(s->disk, s->file, (uint64_t)block * BT_BLOCK_BYTES, s->window,
                                      s->window_blocks * BT_BLOCK_BYTES, &got);
        if (code != 0) {
            return bt_store_trouble(s->why, &(struct bt_store_error){.trouble = BT_STORE_DISK,
                                                                     .file = s->file,
                                                                     .byte = (uint64_t)block * BT_BLOCK_BYTES,
                                                                     .code = code,
                                                                     .what = "cannot read"});
        }
        s->from = block;
        s->have = got / BT_BLOCK_BYTES;
    }
    *p = block - s->from < s->have ? s->window + (size_t)(block - s->from) * BT_BLOCK_BYTES : NULL;
    return true;
}

// A block that is whole must be where and whose it says.
static bool belongs(struct bt_scan *s, uint32_t block, const struct bt_block_head *h)
{
    if (h->file.kind != s->file.kind || h->file.number != s->file.number || h->at != block) {
        return bt_scan_damaged(s, block, "a block of another place lies there");
    }
    if (s->owner == 0) {
        s->owner = h->owner;
        s->policy = h->policy;
    }
    return (h->owner == s->owner && h->policy == s->policy) ||
           trouble(s, BT_STORE_MEMBER, block, "blocks of two members in one file");
}

// The state of a block; false with a reason where it is neither empty nor right.
static bool judge(struct bt_scan *s, uint32_t block, const uint8_t *p, struct bt_block_head *h, bool *missing)
{
    enum bt_block_state state = bt_block_open(p, h);
    *missing = state == BT_BLOCK_EMPTY;
    if (state == BT_BLOCK_DAMAGED) {
        return bt_scan_damaged(s, block, "a block's checksum is wrong");
    }
    if (state == BT_BLOCK_OTHER_VERSION) {
        return trouble(s, BT_STORE_VERSION, block, NULL);
    }
    return *missing || belongs(s, block, h);
}

// Is it a block of the batch at `at`? Of a later one only when that was durable, and then nothing of it may be missing.
static bool of_batch(struct bt_scan *s, const struct bt_block_head *h, uint32_t at, struct bt_batch *b)
{
    if (h->start != at) {
        return bt_scan_damaged(s, at, "blocks are missing that were durable");
    }
    if (b->count == 0) {
        b->count = h->count;
    }
    return b->count == h->count || bt_scan_damaged(s, h->at, "two blocks do not agree how long their batch is");
}

static bool keep(struct bt_scan *s, const struct bt_block_head *h, const uint8_t *p, struct bt_batch *b)
{
    if (b->payload != NULL) {
        if (b->bytes + h->used > b->room) {
            return trouble(s, BT_STORE_ROOM, h->at, "a batch longer than the buffer");
        }
        memcpy(b->payload + b->bytes, p + BT_BLOCK_HEAD, h->used);
    }
    b->bytes += h->used;
    return true;
}

enum bt_scan_state bt_scan_batch(struct bt_scan *s, uint32_t at, struct bt_batch *b)
{
    bool torn = false;
    b->count = 0;
    b->bytes = 0;
    for (uint32_t block = at; block != UINT32_MAX; block++) {
        const uint8_t *p;
        struct bt_block_head h;
        bool missing;
        if (!torn && b->count != 0 && block - at == b->count) {
            return BT_SCAN_BATCH;
        }
        if (!block_at(s, block, &p)) {
            return BT_SCAN_BAD;
        }
        if (p == NULL) {
            return block == at ? BT_SCAN_END : BT_SCAN_TORN;
        }
        if (!judge(s, block, p, &h, &missing) || (!missing && !of_batch(s, &h, at, b))) {
            return BT_SCAN_BAD;
        }
        torn = torn || missing;
        if (!torn && !keep(s, &h, p, b)) {
            return BT_SCAN_BAD;
        }
    }
    bt_scan_damaged(s, UINT32_MAX, "a file longer than can be");
    return BT_SCAN_BAD;
}
