// SPDX-License-Identifier: Apache-2.0
// Who may hold a worker's credit with a request that is not whole yet: a stranger who never sends the rest
// must not hold what others wait for. What was held in vain is a debt, of its source and, where that is not proven, of
// all strangers together; who is in debt gives the credit back at once. Nobody's request is refused by it.
#ifndef BT_RPC_PATIENCE_H
#define BT_RPC_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#define BT_PATIENCE_SOURCES 256u // a power of two, remembered by hash: one that was forgotten is a stranger again
#define BT_PATIENCE_PROVEN  8u   // whole requests in a row
#define BT_PATIENCE_SOURCE  100u // a source holds in vain for 1/100 of the time of one credit at most,
#define BT_PATIENCE_ALL     20u  // and all strangers together for 1/20

struct bt_patience {
    uint64_t all_until_ns; // strangers are in debt
    struct bt_patience_source {
        uint64_t until_ns; // in debt
        uint32_t hash;     // of its address
        uint32_t whole;    // requests in a row, at most PROVEN
    } source[BT_PATIENCE_SOURCES];
};

bool bt_patience_allows(const struct bt_patience *p, uint32_t hash, uint64_t now_ns);
// A request of it became whole.
void bt_patience_whole(struct bt_patience *p, uint32_t hash);
// It held a credit for so long, and the request is not whole.
void bt_patience_in_vain(struct bt_patience *p, uint32_t hash, uint64_t now_ns, uint64_t held_ns);

#endif
