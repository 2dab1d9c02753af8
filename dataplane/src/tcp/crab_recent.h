// SPDX-License-Identifier: Apache-2.0
// Which server a SYN was sent to not long ago, so that its retransmission goes there too (C-25): a second server would
// be left with half a connection. Best effort, of fixed size: four places per hash, the oldest gives way.
#ifndef BT_TCP_CRAB_RECENT_H
#define BT_TCP_CRAB_RECENT_H

#include <stddef.h>
#include <stdint.h>

#include "tcp/crab_segment.h"

#define BT_CRAB_RECENT_NS UINT64_C(3000000000)

struct bt_crab_recent_entry {
    uint64_t ports_seq; // source port, destination port, ISN
    uint64_t addresses; // client, VIP
    uint64_t at_ns;     // 0: free
    uint32_t dip;
};

struct bt_crab_recent {
    struct bt_crab_recent_entry *entries;
    uint32_t mask; // sets of four, less 1
};

// sets: a power of two.
size_t bt_crab_recent_bytes(uint32_t sets);
void bt_crab_recent_init(struct bt_crab_recent *r, void *mem, uint32_t sets);

// hash: of the connection (the same at both calls). find: the server, 0 if it is not known any more.
uint32_t bt_crab_recent_find(struct bt_crab_recent *r, const struct bt_crab_segment *s, uint64_t hash, uint64_t now_ns);
void bt_crab_recent_keep(struct bt_crab_recent *r, const struct bt_crab_segment *s, uint64_t hash, uint32_t dip,
                         uint64_t now_ns);

#endif
