// SPDX-License-Identifier: Apache-2.0
// See log.h.
#include "store/log.h"

// A log that ends before the snapshot, and so does one that ends before its base, which is never above it, has nothing
// that is not in it; the next entry follows the snapshot.
static void close_gap(struct bt_log *l)
{
    if (l->last < l->snapshot) {
        l->base = l->last = l->snapshot;
    }
}

bool bt_log_append(struct bt_log *l, uint64_t index)
{
    if (l->last == UINT64_MAX || index != l->last + 1) {
        return false;
    }
    l->last = index;
    return true;
}

bool bt_log_truncate(struct bt_log *l, uint64_t from)
{
    if (from == 0 || from > l->last + 1) {
        return false;
    }
    l->last = from - 1;
    close_gap(l);
    return true;
}

bool bt_log_hard_state(struct bt_log *l, struct bt_hard_state h)
{
    bool other_vote = h.term == l->hard.term && l->hard.vote != 0 && h.vote != l->hard.vote;
    if (h.term < l->hard.term || other_vote) {
        return false;
    }
    l->hard = h;
    return true;
}

bool bt_log_snapshot(struct bt_log *l, uint64_t last_index)
{
    if (last_index < l->snapshot) {
        return false;
    }
    l->snapshot = last_index;
    close_gap(l);
    return true;
}

bool bt_log_compact(struct bt_log *l, uint64_t to)
{
    if (to > l->snapshot) {
        return false;
    }
    l->base = to > l->base ? to : l->base;
    return true;
}
