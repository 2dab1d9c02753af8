// SPDX-License-Identifier: Apache-2.0
// A multi-packet message being sent: its packets are kept until the other side
// cannot need them any more, and leave in bursts. What is still to
// be sent is a bitmap: at first everything, later what a SACK asks for.
#ifndef BT_RPC_TRAIN_H
#define BT_RPC_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/pkt.h"
#include "rpc/msg.h"
#include "rpc/port.h"
#include "wire/r2p2.h"
#include "wire/sack.h"

struct bt_train {
    struct bt_pkt *store;  // payload only, in order; mark 1 once sent
    struct bt_pkt *cursor; // where the next burst starts looking
    uint32_t count;        // packets of the message
    uint32_t todo;         // bits set
    uint32_t sacks;        // accepted so far
    uint64_t *bits;        // to be sent, by index
    struct bt_train *next_free;
};

struct bt_train_pool {
    struct bt_train *free;
    uint32_t words;
    uint32_t left;
};

void bt_train_pool_init(struct bt_train_pool *tp, struct bt_mem *mem, uint32_t n, uint32_t max_packets);

// Copies packets from_index…count-1 of a message out of the iovec list, all of
// them to be sent. NULL, nothing taken: no train or no packet left.
struct bt_train *bt_train_get(struct bt_train_pool *tp, struct bt_pool *pool, struct bt_iov_cursor *iov, uint32_t len,
                              const struct bt_split *split, uint32_t from_index);
void bt_train_put(struct bt_train_pool *tp, struct bt_train *t, struct bt_pool *pool);

struct bt_burst {
    uint32_t sent, resent; // packets, and how many of them not for the first time
    bool starved;          // stopped because the pool was empty
};

// Sends up to max packets. head: type, policy, ext, req_id, and the options of
// packet 0.
struct bt_burst bt_train_burst(struct bt_train *t, const struct bt_port *port, const struct bt_addr *dst,
                               const struct bt_r2p2_hdr *head, uint32_t max, struct bt_txq *txq);

// Marks what a SACK names. BT_M20: an index below lowest or at least count, or
// more SACKs than 8 for each 1,024 packets.
enum bt_mcase bt_train_sack(struct bt_train *t, const struct bt_sack *s, uint32_t lowest);

#endif
