// SPDX-License-Identifier: Apache-2.0
// What a balancer hashes: addresses by their value, so that every balancer of a VIP comes to the same number, whatever
// the byte order of its machine (C-41).
#ifndef BT_TCP_CRAB_HASH_H
#define BT_TCP_CRAB_HASH_H

#include <stdint.h>

#include "base/addr.h"
#include "tcp/maglev.h"

// Names an address: an IPv4 one by itself, an IPv6 one by a hash.
static inline uint64_t bt_crab_hash_addr(const struct bt_addr *a)
{
    return bt_addr_is_v4(a) ? bt_get32(a->ip + 12) : bt_maglev_mix(bt_get64(a->ip), bt_get64(a->ip + 8));
}

// Of a connection; both addresses are of one family.
static inline uint64_t bt_crab_hash_flow(const struct bt_addr *src, const struct bt_addr *dst)
{
    uint64_t from = bt_crab_hash_addr(src), to = bt_crab_hash_addr(dst);
    uint64_t both = bt_addr_is_v4(src) ? from << 32 | to : bt_maglev_mix(from, to);
    return bt_maglev_mix(both, (uint64_t)src->port << 16 | dst->port);
}

#endif
