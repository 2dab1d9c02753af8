// SPDX-License-Identifier: Apache-2.0
// What each operation does to the log, in numbers: the same for who writes it and for who reads it again.
#ifndef BT_STORE_LOG_H
#define BT_STORE_LOG_H

#include "replica/entry.h"

#include <stdbool.h>

struct bt_log {
    struct bt_hard_state hard;
    uint64_t base, last; // entries base + 1 … last are there
    uint64_t snapshot;   // last index of the newest snapshot
};

// Each returns false when the operation contradicts the log, which is then unchanged.
bool bt_log_append(struct bt_log *l, uint64_t index);
// What stands at or below base is in the snapshot, and stays.
bool bt_log_truncate(struct bt_log *l, uint64_t from);
// A term never falls, and a vote that was given in a term is never another.
bool bt_log_hard_state(struct bt_log *l, struct bt_hard_state h);
bool bt_log_snapshot(struct bt_log *l, uint64_t last_index);
bool bt_log_compact(struct bt_log *l, uint64_t to);

#endif
