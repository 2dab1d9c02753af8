// SPDX-License-Identifier: Apache-2.0
// Between the Raft core and whoever keeps its log: what is to be made durable, and what was found after a restart.
//
// The core hands over operations one after the other; each has a generation, one above the last, from 1 in every
// incarnation. They take effect in that order: when one is durable, all before it are. A completion names a generation
// and says that everything up to it is durable. Memory that an operation points to is valid during the call only.
//
// Every record on a disk carries the cluster id, which the store learns when it is opened. One of another cluster is
// never given to the core.
#ifndef BT_REPLICA_ENTRY_H
#define BT_REPLICA_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include "wire/group.h"

enum bt_store_kind {
    // Entries whose indices rise by one; the first follows the last one of the log. After a snapshot of a log that
    // ended before it, it follows the snapshot.
    BT_STORE_APPEND,
    // Entry `from` and all after it are gone. Torn by a crash, either all of it happened or a shorter end is gone:
    // never one from the middle.
    BT_STORE_TRUNCATE,
    // Term and vote replace the last ones, together.
    BT_STORE_HARD_STATE,
    // Replaces the last snapshot, whole or not at all. The log stays as it is until COMPACT; one that ends before the
    // snapshot continues behind it. Of a snapshot that the leader sent, nothing else follows until it is durable.
    BT_STORE_SNAPSHOT,
    // Entries up to `to`, a snapshot's last index, may be forgotten. When none is left the next one is `to` + 1.
    BT_STORE_COMPACT,
};

struct bt_hard_state {
    uint64_t term;
    uint16_t vote; // member id; 0: none in this term
};

struct bt_snapshot {
    uint64_t last_index, last_term;
    struct bt_group_config config; // in force at last_index
    const uint8_t *bytes;          // the application's
    uint64_t length;
};

struct bt_store_op {
    uint64_t generation;
    enum bt_store_kind kind;
    union {
        struct {
            const struct bt_entry *entry;
            uint32_t count;
        } append;
        uint64_t from;
        struct bt_hard_state hard_state;
        struct bt_snapshot snapshot;
        uint64_t to;
    };
};

enum bt_store_result {
    BT_STORE_DURABLE,
    BT_STORE_FAILED, // nothing after the last completion may be believed; the member stops acknowledging for good
};

// What a store found when it was opened. A fresh disk: term 0, a snapshot with last_index 0 that carries the first
// configuration (of no members where the disk is to join a group), no entries.
struct bt_recovery {
    struct bt_hard_state hard_state;
    struct bt_snapshot snapshot;  // bytes are the store's until the core has started
    const struct bt_entry *entry; // in order, indices rising by one; may begin before the snapshot's last index
    uint64_t count;
    const char
        *fenced; // NULL, or where the disk is damaged: "damaged at segment 3, byte 4096"; the member must not start
};

#endif
