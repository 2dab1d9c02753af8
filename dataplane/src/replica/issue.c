// SPDX-License-Identifier: Apache-2.0
// See issue.h.
#include "replica/issue.h"

#include "replica/apart.h"

static void issue(struct bt_replica *r, struct bt_store_op *op)
{
    op->generation = ++r->issued;
    r->ops.store(r->ctx, op);
}

void replica_store_append(struct bt_replica *r, const struct bt_entry *entry, uint32_t count)
{
    replica_apart_ordered(r, entry, count);
    issue(r, &(struct bt_store_op){.kind = BT_STORE_APPEND, .append = {entry, count}});
}

void replica_store_truncate(struct bt_replica *r, uint64_t from)
{
    if (r->log.last >= from) {
        r->counter[BT_REPLICA_TRUNCATED_TOTAL] += r->log.last - from + 1;
        replica_apart_taken_back(r, from);
    }
    replica_log_truncate(&r->log, from);
    issue(r, &(struct bt_store_op){.kind = BT_STORE_TRUNCATE, .from = from});
}

void replica_store_hard_state(struct bt_replica *r)
{
    issue(r, &(struct bt_store_op){.kind = BT_STORE_HARD_STATE, .hard_state = {r->term, r->vote}});
    r->hard_generation = r->issued;
}

void replica_store_snapshot(struct bt_replica *r, const struct bt_snapshot *s)
{
    issue(r, &(struct bt_store_op){.kind = BT_STORE_SNAPSHOT, .snapshot = *s});
    r->spare_generation = r->issued;
}

void replica_store_compact(struct bt_replica *r, uint64_t to)
{
    issue(r, &(struct bt_store_op){.kind = BT_STORE_COMPACT, .to = to});
}

bool replica_store_own(struct bt_replica *r, uint8_t kind, const uint8_t *body, uint32_t n)
{
    struct bt_entry e = {.index = r->log.last + 1, .term = r->term, .body = body, .length = n, .kind = kind};
    if (!replica_log_fits(&r->log, kind, n) || !replica_log_append(&r->log, &e, replica_next_generation(r))) {
        replica_count(r, BT_REPLICA_NO_ROOM_TOTAL);
        return false;
    }
    replica_store_append(r, &e, 1);
    return true;
}
