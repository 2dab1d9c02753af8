// SPDX-License-Identifier: Apache-2.0
// A member comes up from what its store found, or not at all.
#include <string.h>

#include "replica/apart.h"
#include "replica/issue.h"
#include "replica/members.h"
#include "replica/state.h"

enum { SLOTS_LEAST = 128, MESSAGE_LEAST = 512 };

static bool apart_in_bounds(const struct bt_replica_apart *a)
{
    return a->kept_requests == 0 || (a->recent_pairs > 0 && a->bound > 0 && a->keep_ns > 0 && a->recover_ns > 0);
}

static bool in_bounds(const struct bt_replica_config *c)
{
    bool log = c->log_slots >= SLOTS_LEAST && (c->log_slots & (c->log_slots - 1)) == 0 &&
               c->keep_entries < c->log_slots / 2 && c->body_bytes >= 2 * c->message_bytes;
    bool time = c->heartbeat_ns > 0 && c->election_ns > 2 * c->heartbeat_ns;
    return log && time && apart_in_bounds(&c->apart) && c->id != 0 && c->pipeline > 0 &&
           c->pipeline <= BT_REPLICA_PIPELINE_MAX && c->message_bytes >= MESSAGE_LEAST &&
           c->message_bytes <= BT_GROUP_MESSAGE_MAX;
}

static size_t rounded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

size_t bt_replica_bytes(const struct bt_replica_config *c)
{
    if (!in_bounds(c)) {
        return 0;
    }
    return rounded(sizeof(struct bt_replica)) + rounded(c->log_slots * sizeof(struct replica_slot)) +
           rounded(c->body_bytes) + rounded(c->message_bytes) + 2 * rounded(c->snapshot_bytes) + replica_apart_bytes(c);
}

static void *carve(uint8_t **mem, size_t n)
{
    uint8_t *p = *mem;
    *mem += rounded(n);
    return p;
}

static struct bt_replica *lay(void *mem, const struct bt_replica_config *c, const struct bt_replica_ops *ops, void *ctx)
{
    uint8_t *m = mem;
    struct bt_replica *r = carve(&m, sizeof *r);
    *r = (struct bt_replica){.conf = *c, .ops = *ops, .ctx = ctx, .role = BT_REPLICA_FOLLOWER};
    struct replica_slot *slots = carve(&m, c->log_slots * sizeof *slots);
    replica_log_init(&r->log, slots, c->log_slots, carve(&m, c->body_bytes), c->body_bytes);
    r->log.spare = c->message_bytes;
    r->message = carve(&m, c->message_bytes);
    for (int i = 0; i < 2; i++) {
        r->held[i].room = carve(&m, c->snapshot_bytes);
    }
    replica_apart_init(r, m);
    bt_rng_seed(&r->rng, c->seed);
    return r;
}

static bool take_snapshot(struct bt_replica *r, const struct bt_snapshot *s)
{
    if (s->length > r->conf.snapshot_bytes || s->config.count > BT_GROUP_MEMBERS_MAX) {
        return false;
    }
    struct replica_held *h = &r->held[0];
    h->of = *s;
    h->of.bytes = h->room;
    if (s->length > 0) {
        memcpy(h->room, s->bytes, s->length);
    }
    replica_log_reset(&r->log, s->last_index, s->last_term);
    r->commit = r->applied = s->last_index;
    return true;
}

// The entry at the snapshot's last index, where the log has one, is the snapshot's. Else what follows it is not.
static bool log_contradicts(const struct bt_recovery *f)
{
    for (uint64_t i = 0; i < f->count; i++) {
        if (f->entry[i].index == f->snapshot.last_index) {
            return f->entry[i].term != f->snapshot.last_term;
        }
    }
    return false;
}

// Entries after the snapshot, one after the other.
static bool take_entries(struct bt_replica *r, const struct bt_recovery *f)
{
    for (uint64_t i = 0; i < f->count; i++) {
        const struct bt_entry *e = &f->entry[i];
        if (e->index <= r->log.base) {
            continue;
        }
        bool follows = e->index == r->log.last + 1 && e->term >= replica_log_term(&r->log, r->log.last);
        if (!follows || e->term > r->term || !replica_log_append(&r->log, e, 0)) {
            return false;
        }
        replica_apart_ordered(r, e, 1);
    }
    replica_log_settle(&r->log, 0);
    return true;
}

// What a crash left behind between a snapshot and the operations that follow it.
static void tidy_store(struct bt_replica *r, const struct bt_recovery *f, bool contradicts)
{
    if (contradicts && f->entry[f->count - 1].index > r->log.base) {
        replica_store_truncate(r, r->log.base + 1);
    }
    if (f->count > 0 && f->entry[0].index <= r->log.base) {
        replica_store_compact(r, r->log.base);
    }
}

enum bt_replica_result bt_replica_start(void *mem, const struct bt_replica_config *c, const struct bt_replica_ops *ops,
                                        void *ctx, const struct bt_recovery *found, struct bt_replica **out)
{
    if (found->fenced != NULL) {
        return BT_REPLICA_FENCED;
    }
    if (!in_bounds(c)) {
        return BT_REPLICA_FOREIGN;
    }
    struct bt_replica *r = lay(mem, c, ops, ctx);
    r->term = found->hard_state.term > 0 ? found->hard_state.term : 1;
    r->vote = found->hard_state.vote;
    bool contradicts = log_contradicts(found);
    if (!take_snapshot(r, &found->snapshot) || (!contradicts && !take_entries(r, found))) {
        return BT_REPLICA_FOREIGN;
    }
    tidy_store(r, found, contradicts);
    replica_config_adopt(r);
    if (r->applied > 0) {
        r->ops.restore(r->ctx, r->applied, r->held[0].room, r->held[0].of.length);
    }
    *out = r;
    return BT_REPLICA_OK;
}
