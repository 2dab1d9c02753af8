// SPDX-License-Identifier: Apache-2.0
// See snapshot.h.
#include "replica/snapshot.h"

#include <string.h>

#include "replica/apart.h"
#include "replica/issue.h"
#include "replica/members.h"
#include "replica/progress.h"
#include "replica/send.h"
#include "replica/states.h"

static void answer(struct bt_replica *r, uint16_t to, uint64_t last_index, uint32_t flags)
{
    replica_message(r, BT_GROUP_SNAPSHOT_REPLY)->snapshot_reply = (struct bt_group_snapshot_reply){
        .flags = flags, .last_index = last_index, .offset = flags != 0 ? 0 : r->received};
    replica_send(r, to);
}

static void store_spare(struct bt_replica *r, enum replica_spare why)
{
    struct replica_held *h = replica_spare(r);
    h->of.bytes = h->room;
    r->spare = why;
    replica_store_snapshot(r, &h->of);
}

/* --- taken here --- */

static enum bt_replica_result may_take(struct bt_replica *r, uint64_t index, uint64_t n)
{
    bool stalled = r->spare == REPLICA_SPARE_RECEIVING && r->now - r->received_ns > 4 * r->conf.election_ns;
    if (r->failed) {
        return BT_REPLICA_FAILED;
    }
    if (r->fenced.index != 0) {
        return BT_REPLICA_DIVERGED;
    }
    if (n > r->conf.snapshot_bytes) {
        return BT_REPLICA_TOO_LONG;
    }
    if ((r->spare != REPLICA_SPARE_IDLE && !stalled) || replica_progress_giving(r)) {
        return BT_REPLICA_PENDING;
    }
    if (replica_store_busy(r)) {
        return BT_REPLICA_FULL;
    }
    if (index <= replica_current(r)->last_index || index < r->log.base) {
        return BT_REPLICA_ALREADY;
    }
    return index <= r->applied ? BT_REPLICA_OK : BT_REPLICA_NOT_YET;
}

enum bt_replica_result bt_replica_snapshot(struct bt_replica *r, uint64_t now, uint64_t index, const uint8_t *bytes,
                                           uint64_t n)
{
    r->now = now;
    enum bt_replica_result may = may_take(r, index, n);
    if (may != BT_REPLICA_OK) {
        return may;
    }
    struct replica_held *h = replica_spare(r);
    uint64_t at;
    h->of = (struct bt_snapshot){.last_index = index, .last_term = replica_log_term(&r->log, index), .length = n};
    replica_config_at(r, index, &h->of.config, &at);
    if (h->of.config.count == 0) {
        return BT_REPLICA_NOT_YET; // a new member that has not come to the entry which names the members
    }
    memcpy(h->room, bytes, n);
    store_spare(r, REPLICA_SPARE_TAKEN);
    return BT_REPLICA_OK;
}

static void compact_behind(struct bt_replica *r)
{
    uint64_t last = replica_current(r)->last_index, keep = replica_log_pressed(&r->log) ? 0 : r->conf.keep_entries;
    if (last > r->log.base + keep) {
        replica_log_compact(&r->log, last - keep);
        replica_store_compact(r, last - keep);
    }
}

void replica_make_room(struct bt_replica *r)
{
    if (replica_log_pressed(&r->log)) {
        compact_behind(r);
    }
}

/* --- received --- */

static bool same_snapshot(const struct bt_replica *r, const struct bt_group_message *m)
{
    const struct bt_snapshot *s = &r->held[!r->current].of;
    return r->spare == REPLICA_SPARE_RECEIVING && r->received_term == m->header.term &&
           s->last_index == m->snapshot.last_index && s->length == m->snapshot.total;
}

static bool may_receive(struct bt_replica *r, const struct bt_group_message *m)
{
    if (m->snapshot.total > r->conf.snapshot_bytes) {
        replica_count(r, BT_REPLICA_SNAPSHOT_LARGE_TOTAL);
        return false;
    }
    if (r->spare == REPLICA_SPARE_TAKEN || r->spare == REPLICA_SPARE_INSTALLED || replica_store_busy(r)) {
        replica_count(r, BT_REPLICA_SNAPSHOT_BUSY_TOTAL);
        return false;
    }
    return true;
}

static void begin_receiving(struct bt_replica *r, const struct bt_group_message *m)
{
    replica_spare(r)->of = (struct bt_snapshot){.last_index = m->snapshot.last_index,
                                                .last_term = m->snapshot.last_term,
                                                .config = m->snapshot.config,
                                                .length = m->snapshot.total};
    r->spare = REPLICA_SPARE_RECEIVING;
    r->received = 0;
    r->received_term = m->header.term;
}

void replica_snapshot_chunk(struct bt_replica *r, const struct bt_group_message *m)
{
    const struct bt_group_snapshot *s = &m->snapshot;
    if (r->failed) {
        replica_count(r, BT_REPLICA_STORE_FAILED_TOTAL);
        return;
    }
    bool mends = r->fenced.index != 0 && s->last_index > r->applied; // the log is here already, and the state is not
    if (s->last_index <= r->log.durable && s->last_index <= r->commit && !mends) {
        if (replica_settled(r)) {
            answer(r, m->header.from, s->last_index, BT_GROUP_YES); // it is here already
        }
        return;
    }
    if (!may_receive(r, m)) {
        return;
    }
    if (!same_snapshot(r, m)) {
        begin_receiving(r, m);
    }
    r->received_ns = r->now;
    if (s->offset == r->received) {
        memcpy(replica_spare(r)->room + s->offset, s->bytes, s->length);
        r->received += s->length;
        if (r->received == s->total) {
            store_spare(r, REPLICA_SPARE_INSTALLED);
            return;
        }
    } else {
        replica_count(r, BT_REPLICA_SNAPSHOT_ORDER_TOTAL);
    }
    answer(r, m->header.from, s->last_index, 0);
}

// The log after an installed snapshot: what follows its last entry stays, if that entry is the log's.
static void fit_log(struct bt_replica *r, const struct bt_snapshot *s)
{
    if (replica_log_term(&r->log, s->last_index) == s->last_term) {
        replica_log_compact(&r->log, s->last_index);
    } else {
        if (r->log.last > s->last_index) {
            replica_store_truncate(r, s->last_index + 1);
        }
        replica_log_reset(&r->log, s->last_index, s->last_term);
    }
    replica_store_compact(r, s->last_index);
    replica_config_adopt(r);
}

static void install(struct bt_replica *r)
{
    const struct bt_snapshot *s = replica_current(r);
    replica_count(r, BT_REPLICA_SNAPSHOTS_INSTALLED_TOTAL);
    fit_log(r, s);
    if (r->commit < s->last_index) {
        r->commit = s->last_index;
    }
    if (r->verified < s->last_index) {
        r->verified = s->last_index;
    }
    if (r->applied < s->last_index) {
        r->applied = s->last_index;
        replica_apart_begin(r);
        replica_states_replaced(r);
        r->ops.restore(r->ctx, s->last_index, s->bytes, s->length);
    }
    if (r->leader != 0 && r->leader != r->conf.id && replica_settled(r)) {
        answer(r, r->leader, s->last_index, BT_GROUP_YES);
    }
}

void replica_snapshot_settled(struct bt_replica *r)
{
    enum replica_spare was = r->spare;
    if ((was != REPLICA_SPARE_TAKEN && was != REPLICA_SPARE_INSTALLED) || r->done < r->spare_generation) {
        return;
    }
    r->spare = REPLICA_SPARE_IDLE;
    r->current = !r->current;
    if (was == REPLICA_SPARE_INSTALLED) {
        install(r);
    } else {
        compact_behind(r);
    }
}
