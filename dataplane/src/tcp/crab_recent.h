// SPDX-License-Identifier: Apache-2.0
// Which server a SYN was sent to not long ago, so that its retransmission goes there too (C-25): a second server would
// be left with half a connection. Best effort, of fixed size: four places per hash, the oldest gives way. A place is
// less than a cache line, with addresses of either family.
#ifndef BT_TCP_CRAB_RECENT_H
#define BT_TCP_CRAB_RECENT_H

#include <stddef.h>
#include <stdint.h>

#include "tcp/crab_segment.h"

#define BT_CRAB_RECENT_NS UINT64_C(3000000000)

struct bt_crab_recent_entry {
    struct bt_addr client; // with its port
    uint32_t seq;          // ISN
    uint64_t at_ns;        // 0: free
    struct bt_addr dip;
    uint16_t vip; // index: address and port
};

struct bt_crab_recent {
    struct bt_crab_recent_entry *entries;
    uint32_t mask; // sets of four, less 1
};

// sets: a power of two.
size_t bt_crab_recent_bytes(uint32_t sets);
void bt_crab_recent_init(struct bt_crab_recent *r, void *mem, uint32_t sets);

// hash: of the connection; vip: the index of the one it goes to (both the same at both calls). find: the server, NULL
// if it is not known any more; good until the next call.
const struct bt_addr *bt_crab_recent_find(const struct bt_crab_recent *r, const struct bt_crab_segment *s, uint16_t vip,
                                          uint64_t hash, uint64_t now_ns);
void bt_crab_recent_keep(struct bt_crab_recent *r, const struct bt_crab_segment *s, uint16_t vip, uint64_t hash,
                         const struct bt_addr *dip, uint64_t now_ns);

#endif
