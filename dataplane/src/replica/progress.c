// SPDX-License-Identifier: Apache-2.0
// See progress.h.
#include "replica/progress.h"

#include <string.h>

#include "replica/apart.h"
#include "replica/send.h"
#include "replica/share.h"

enum {
    CHUNK_ROOM = BT_GROUP_HEADER + 36 + BT_GROUP_CONFIG_MAX,
    APPEND_ROOM = BT_GROUP_HEADER + 28,
    EPOCH_ROOM = 8, // of a message by way of the aggregator
    PATIENCE = 8    // elections without a chunk taken: a member is no reason to wait
};

uint32_t replica_body_most(const struct bt_replica *r)
{
    return r->conf.message_bytes - APPEND_ROOM - BT_GROUP_ENTRY;
}

uint32_t bt_replica_request_most(uint32_t message_bytes)
{
    return message_bytes - APPEND_ROOM - BT_GROUP_ENTRY - BT_GROUP_META;
}

static void forget_under_way(struct replica_peer *p)
{
    p->under_way_n = 0;
    p->waiting = false;
}

static void take_from_under_way(struct replica_peer *p, uint64_t match)
{
    uint8_t done = 0;
    while (done < p->under_way_n && p->under_way[done] <= match) {
        done++;
    }
    memmove(p->under_way, p->under_way + done, (size_t)(p->under_way_n - done) * sizeof p->under_way[0]);
    p->under_way_n = (uint8_t)(p->under_way_n - done);
}

void replica_progress_begin(struct bt_replica *r)
{
    for (int i = 0; i < r->config.count; i++) {
        bool own = r->config.member[i].id == r->conf.id;
        r->peer[i] = (struct replica_peer){
            .next = r->log.last + 1, .match = own ? r->log.durable : 0, .heard_ns = r->now, .feed = REPLICA_PROBE};
    }
}

static void send_chunk(struct bt_replica *r, int i)
{
    struct replica_peer *p = &r->peer[i];
    const struct bt_snapshot *s = replica_current(r);
    if (p->chunk_index != s->last_index || p->chunk_offset > s->length) {
        p->chunk_index = s->last_index;
        p->chunk_offset = 0;
    }
    uint64_t left = s->length - p->chunk_offset, most = r->conf.message_bytes - CHUNK_ROOM;
    replica_message(r, BT_GROUP_SNAPSHOT)->snapshot =
        (struct bt_group_snapshot){.last_index = s->last_index,
                                   .last_term = s->last_term,
                                   .total = s->length,
                                   .offset = p->chunk_offset,
                                   .config = s->config,
                                   .length = (uint32_t)(left < most ? left : most),
                                   .bytes = s->bytes + p->chunk_offset};
    p->waiting = true;
    replica_send(r, r->config.member[i].id);
}

uint32_t replica_fill(struct bt_replica *r, struct bt_group_append *a, uint64_t next, uint64_t last)
{
    uint32_t room = r->conf.message_bytes - APPEND_ROOM, n = 0;
    room -= r->out.header.type == BT_GROUP_SHARED ? EPOCH_ROOM : 0;
    for (uint64_t i = next; i <= last && n < BT_GROUP_ENTRIES_MAX; i++) {
        struct bt_entry e = replica_apart_shown(r, replica_log_entry(&r->log, i));
        if (room < BT_GROUP_ENTRY + e.length) {
            break;
        }
        room -= BT_GROUP_ENTRY + e.length;
        a->entry[n++] = e;
    }
    return n;
}

static void send_append(struct bt_replica *r, int i, bool with_entries)
{
    struct replica_peer *p = &r->peer[i];
    struct bt_group_append *a = &replica_message(r, BT_GROUP_APPEND)->append;
    a->prev_index = p->next - 1;
    a->prev_term = replica_log_term(&r->log, a->prev_index);
    a->commit = r->commit;
    a->count = with_entries ? replica_fill(r, a, p->next, r->log.last) : 0;
    if (a->count > 0 && p->feed == REPLICA_STREAM) {
        p->next += a->count;
        p->under_way[p->under_way_n++] = p->next - 1;
    }
    p->waiting = p->waiting || (a->count > 0 && p->feed == REPLICA_PROBE);
    replica_send(r, r->config.member[i].id);
}

static bool may_send(const struct bt_replica *r, const struct replica_peer *p)
{
    bool more = p->next <= r->log.last;
    return more && (p->feed == REPLICA_STREAM ? p->under_way_n < r->conf.pipeline : !p->waiting);
}

// A sign of life to a member that is being given a snapshot: it contradicts no log, and acknowledges nothing.
static void send_sign(struct bt_replica *r, int i)
{
    struct bt_group_append *a = &replica_message(r, BT_GROUP_APPEND)->append;
    a->prev_index = a->prev_term = 0;
    a->commit = r->commit;
    a->count = 0;
    replica_send(r, r->config.member[i].id);
}

static void feed_chunks(struct bt_replica *r, int i, bool even_empty)
{
    if (!r->peer[i].waiting || even_empty) {
        send_chunk(r, i);
    }
    if (even_empty) {
        send_sign(r, i);
    }
}

static void begin_chunks(struct bt_replica *r, struct replica_peer *p)
{
    p->feed = REPLICA_CHUNKS;
    p->chunk_index = 0;
    p->chunk_ns = r->now;
    forget_under_way(p);
}

void replica_feed(struct bt_replica *r, int i, bool even_empty)
{
    struct replica_peer *p = &r->peer[i];
    if (r->config.member[i].id == r->conf.id || replica_shares(r, i)) {
        return;
    }
    if (p->next <= r->log.base && p->feed != REPLICA_CHUNKS) {
        begin_chunks(r, p);
    }
    if (p->feed == REPLICA_CHUNKS) {
        feed_chunks(r, i, even_empty);
        return;
    }
    bool sent = false;
    while (may_send(r, p)) {
        send_append(r, i, true);
        sent = true;
    }
    if (even_empty && !sent) {
        send_append(r, i, p->feed == REPLICA_PROBE);
    }
}

void replica_feed_all(struct bt_replica *r, bool even_empty)
{
    for (int i = 0; i < r->config.count; i++) {
        replica_feed(r, i, even_empty);
    }
    replica_share_feed(r);
}

void replica_progress_match(struct bt_replica *r, int i, uint64_t match)
{
    struct replica_peer *p = &r->peer[i];
    if (match > p->match) {
        p->match = match;
    }
    take_from_under_way(p, match);
    if (p->feed == REPLICA_CHUNKS && (p->match < r->log.base || p->fenced || replica_bodyless(p))) {
        return; // what it has is not yet what it needs
    }
    if (p->feed == REPLICA_CHUNKS || p->next <= p->match) {
        p->next = p->match + 1;
    }
    if (p->feed != REPLICA_STREAM) {
        p->feed = REPLICA_STREAM;
        forget_under_way(p);
    }
}

void replica_progress_refused(struct bt_replica *r, int i, uint64_t refused, uint64_t last)
{
    struct replica_peer *p = &r->peer[i];
    if (refused <= p->match || p->feed == REPLICA_CHUNKS || refused >= p->next) {
        return; // an old answer
    }
    p->next = (last < refused ? last : refused - 1) + 1;
    if (p->next <= p->match) {
        p->next = p->match + 1;
    }
    p->feed = REPLICA_PROBE;
    p->shared = false; // whoever lacks something is served by itself
    forget_under_way(p);
}

void replica_progress_replace(struct bt_replica *r, int i)
{
    struct replica_peer *p = &r->peer[i];
    if (p->feed == REPLICA_CHUNKS) {
        return;
    }
    begin_chunks(r, p);
    p->shared = false;
    replica_feed(r, i, false);
}

void replica_progress_chunk(struct bt_replica *r, int i, uint64_t offset)
{
    struct replica_peer *p = &r->peer[i];
    p->chunk_ns = offset != p->chunk_offset ? r->now : p->chunk_ns;
    p->chunk_offset = offset;
    p->waiting = false;
}

// A member that speaks but takes nothing, as over a path that loses what is long, would hold up the leader's own
// snapshot, and by its log all writes, for ever.
bool replica_progress_giving(const struct bt_replica *r)
{
    for (int i = 0; r->role == BT_REPLICA_LEADER && i < r->config.count; i++) {
        const struct replica_peer *p = &r->peer[i];
        if (p->feed == REPLICA_CHUNKS && r->now - p->chunk_ns < PATIENCE * r->conf.election_ns) {
            return true;
        }
    }
    return false;
}
