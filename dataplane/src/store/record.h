// SPDX-License-Identifier: Apache-2.0
// What the payload of a batch consists of: records, each of them 24 bytes and a body, padded with zeros to a multiple
// of 8. Big endian.
//
//   type u8, kind u8, zero u16, body's length u32, a u64, b u64
//
//   HEAD        a = number of its segment; the body is a segment head (below). First of a segment, and nowhere else.
//   ENTRY       a = index, b = term, kind = the entry's kind; the body is the entry's
//   TRUNCATE    a = the first index that is gone
//   HARD_STATE  a = term, b = vote
//   SNAPSHOT    a = last index, b = last term; the body names the snapshot's owner and configuration; the application's
//               bytes follow the record. First and only record of a snapshot's file.
#ifndef BT_STORE_RECORD_H
#define BT_STORE_RECORD_H

#include "replica/entry.h"
#include "store/block.h"
#include "store/log.h"

#include <stdbool.h>

enum bt_record_type {
    BT_RECORD_HEAD = 1,
    BT_RECORD_ENTRY,
    BT_RECORD_TRUNCATE,
    BT_RECORD_HARD_STATE,
    BT_RECORD_SNAPSHOT,
};

#define BT_RECORD_BYTES      24u
#define BT_STORE_CONFIG_MAX  (8u + 4u * BT_GROUP_MEMBERS_MAX)
#define BT_SEGMENT_HEAD_MAX  (BT_RECORD_BYTES + 128u + BT_STORE_CONFIG_MAX)
#define BT_SNAPSHOT_HEAD_MAX (BT_RECORD_BYTES + 40u + BT_STORE_CONFIG_MAX)

struct bt_record {
    uint8_t type, kind;
    uint32_t length;
    uint64_t a, b;
    const uint8_t *body;
};

// Bytes of a record with a body of that length.
static inline uint32_t bt_record_bytes(uint32_t length)
{
    return BT_RECORD_BYTES + ((length + 7u) & ~7u);
}

// Returns the bytes written, bt_record_bytes(r->length).
uint32_t bt_record_put(uint8_t *p, const struct bt_record *r);

// Reads the record at p[0..n); the body points into it. Returns its bytes, 0 where no record is.
uint32_t bt_record_get(const uint8_t *p, uint32_t n, struct bt_record *r);

// The snapshot that a segment's head names; number 0: none, then config is that of the first start.
struct bt_snapshot_mark {
    uint64_t number; // of its file
    uint64_t last_index, last_term, length;
    struct bt_group_config config;
};

// What holds before the first record behind it: the manifest of the store. The newest whole one counts. Its segment is
// the last of a chain: each names the one before it and how far that one is to be read.
struct bt_segment_head {
    struct bt_store_ids ids;
    uint64_t number, previous, first; // this segment; the one before, 0: none; the oldest one that is needed
    uint32_t previous_end;            // blocks of it that count
    struct bt_log log;
    struct bt_snapshot_mark snapshot;
};

uint32_t bt_segment_head_put(uint8_t *p, const struct bt_segment_head *h);
// False when it is not one, or contradicts itself.
bool bt_segment_head_get(const struct bt_record *r, struct bt_segment_head *h);

uint32_t bt_snapshot_head_put(uint8_t *p, const struct bt_store_ids *ids, const struct bt_snapshot *s);
// *s without its bytes.
bool bt_snapshot_head_get(const struct bt_record *r, struct bt_store_ids *ids, struct bt_snapshot *s);

#endif
