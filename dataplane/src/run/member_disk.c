// SPDX-License-Identifier: Apache-2.0
// A member and its disk: whose it is, what becomes durable, and the state of the service in snapshots.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "run/member_internal.h"
#include "run/state.h"

enum { MAGIC = BT_STATE_MAGIC, VERSION = BT_STATE_VERSION, HEAD = BT_STATE_HEAD };

/* --- opening --- */

// The voters that a group begins with, as far as this document says.
static struct bt_group_config founders(const struct bt_group_document *d)
{
    struct bt_group_config c = {.count = 0};
    for (size_t i = 0; i < d->n_founders; i++) {
        uint16_t id = (uint16_t)bt_group_document_find(d, d->founder[i])->id;
        uint16_t at = c.count++;
        while (at > 0 && c.member[at - 1].id > id) {
            c.member[at] = c.member[at - 1];
            at--;
        }
        c.member[at] = (struct bt_group_member){.id = id, .role = BT_GROUP_VOTER};
    }
    return c;
}

static void say_why(struct bt_member *m, const struct bt_store_error *e, const char *text)
{
    const char *state = "Failed", *reason = "DiskFailed";
    switch (e->trouble) {
    case BT_STORE_DAMAGED:
        state = "Damaged";
        reason = "DiskDamaged";
        break;
    case BT_STORE_CLUSTER:
    case BT_STORE_MEMBER:
    case BT_STORE_POLICY:
    case BT_STORE_VERSION:
        state = "Foreign";
        reason = "DiskForeign";
        break;
    default:
        reason = e->code == ENOSPC ? "DiskFull" : e->code == EWOULDBLOCK ? "DiskBusy" : reason;
    }
    m->disk_state = state;
    member_stop(m, BT_MEMBER_FAILED, reason, "%s", text);
}

bool member_disk_open(struct bt_member *m, struct bt_recovery *found)
{
    char why[300];
    struct bt_store_error error = {.trouble = BT_STORE_FINE};
    const struct bt_group_document *d = &m->document;
    struct bt_storage_config c = {.folder = m->folder,
                                  .disk = m->conf.disk,
                                  .id = m->id,
                                  .policy = d->storage == BT_GROUP_VOLATILE ? BT_STORE_VOLATILE : BT_STORE_ALWAYS,
                                  .snapshot_max = (uint64_t)d->snapshot_bytes,
                                  .wake = m->conf.wake,
                                  .wake_arg = m->conf.arg,
                                  .error = &error};
    memcpy(c.cluster, d->cluster, sizeof c.cluster);
    if (bt_group_document_founds(d, m->name)) {
        c.first = founders(d);
    }
    m->storage = bt_storage_open(&c, found, why, sizeof why);
    if (m->storage == NULL) {
        say_why(m, &error, why);
        return false;
    }
    const struct bt_store_ids *ids = bt_storage_ids(m->storage);
    memcpy(m->disk_id, ids->member, sizeof m->disk_id);
    m->disk = bt_store_owner(ids);
    m->disk_state = "Healthy";
    uint16_t written = bt_get16(ids->member + sizeof ids->member - sizeof written);
    if (written != m->id) {
        m->disk_state = "Foreign";
        member_stop(m, BT_MEMBER_FAILED, "DiskForeign",
                    "storage: the disk is that of member %u, and this is member %u; give each member its own disk",
                    written, m->id);
        return false;
    }
    return true;
}

/* --- what becomes durable --- */

void member_store(void *ctx, const struct bt_store_op *op)
{
    struct bt_member *m = ctx;
    if (!m->store_full && !bt_storage_give(m->storage, op)) {
        m->store_full = true; // nothing behind it may be given: the log on the disk would have a hole
    }
    if (op->kind == BT_STORE_SNAPSHOT) {
        m->snapshot_bytes = op->snapshot.length;
    }
}

void member_disk_turn(struct bt_member *m)
{
    struct bt_storage_completion c;
    if (bt_storage_completed(m->storage, &c) && !m->disk_failed) {
        if (c.result == BT_STORE_FAILED) {
            m->disk_failed = true;
            m->disk_state = "Failed";
        }
        bt_replica_stored(m->core, m->now, c.generation, c.result);
        if (m->disk_failed) { // whoever follows was told by now
            int code = bt_storage_code(m->storage);
            member_stop(m, BT_MEMBER_FAILED, code == ENOSPC ? "DiskFull" : "DiskFailed",
                        "%s%s%s; this member acknowledges nothing any more", bt_storage_why(m->storage),
                        code != 0 ? ": " : "", code != 0 ? strerror(code) : "");
        }
    }
    if (m->store_full && !m->disk_failed) {
        m->disk_failed = true;
        m->disk_state = "Failed";
        bt_replica_stored(m->core, m->now, 0, BT_STORE_FAILED);
        member_stop(m, BT_MEMBER_FAILED, "DiskFailed", "the disk is too slow: what waits for it has no room any more");
    }
}

/* --- the state --- */

void member_restore(void *ctx, uint64_t last_index, const uint8_t *p, uint64_t n)
{
    struct bt_member *m = ctx;
    const struct r2p2_replica_service *s = m->conf.service;
    bool ok = n >= HEAD && bt_get32(p) == MAGIC && bt_get32(p + 4) == VERSION && bt_get64(p + 24) == last_index;
    if (ok && memcmp(p + 8, m->document.cluster, 16) != 0) {
        member_stop(m, BT_MEMBER_FAILED, "DiskForeign", "a snapshot of another cluster");
        return;
    }
    m->saving.stage = SAVING_NONE; // whatever was being written is older
    uint64_t roster = ok ? bt_get32(p + 32) : 0, sessions = ok ? bt_get32(p + 36) : 0;
    ok = ok && roster + sessions <= n - HEAD && bt_roster_read(&m->roster, p + HEAD, roster) == roster &&
         bt_sessions_read(&m->sessions, p + HEAD + roster, sessions) == sessions;
    uint64_t own = HEAD + roster + sessions;
    if (!ok || s->restore(s->arg, p + own, n - own) != 0) {
        member_stop(m, BT_MEMBER_FAILED, "State", "the snapshot at %llu cannot be taken up",
                    (unsigned long long)last_index);
        return;
    }
    m->applied = last_index;
    m->applied_bytes = 0;
    m->snapshot_bytes = n;
}

// What stands before the service's part, in the scratch room; where that begins, 0: no room.
static uint64_t write_head(struct bt_member *m)
{
    uint8_t *p = m->snapshot_room;
    size_t room = (size_t)m->document.snapshot_bytes - HEAD;
    size_t roster = bt_roster_write(&m->roster, p + HEAD, room);
    size_t sessions = roster != 0 ? bt_sessions_write(&m->sessions, p + HEAD + roster, room - roster) : 0;
    if (sessions == 0) {
        return 0;
    }
    bt_put32(p, MAGIC);
    bt_put32(p + 4, VERSION);
    memcpy(p + 8, m->document.cluster, 16);
    bt_put64(p + 24, m->applied);
    bt_put32(p + 32, (uint32_t)roster);
    bt_put32(p + 36, (uint32_t)sessions);
    return HEAD + roster + sessions;
}

static enum bt_replica_result hand_over(struct bt_member *m, uint64_t index, uint64_t n)
{
    enum bt_replica_result r = bt_replica_snapshot(m->core, m->now, index, m->snapshot_room, n);
    if (r == BT_REPLICA_OK) {
        member_count(m, BT_MEMBER_SNAPSHOTS);
        m->applied_bytes = 0;
    }
    return r;
}

static enum bt_replica_result too_large(struct bt_member *m)
{
    member_count(m, BT_MEMBER_SNAPSHOT_TOO_LARGE);
    return BT_REPLICA_TOO_LONG;
}

enum bt_replica_result member_take_snapshot(struct bt_member *m)
{
    const struct r2p2_replica_service *s = m->conf.service;
    if (m->saving.stage != SAVING_NONE) {
        return BT_REPLICA_PENDING;
    }
    m->snapshot_tried = m->applied;
    m->snapshot_tried_ns = m->now;
    uint64_t own = write_head(m), room = (uint64_t)m->document.snapshot_bytes - own;
    if (own == 0) {
        return too_large(m);
    }
    if (s->snapshot_begin != NULL) {
        if (s->snapshot_begin(s->arg) != 0) {
            return BT_REPLICA_PENDING;
        }
        m->saving = (struct member_saving){SAVING_BEGUN, m->applied, own, 0};
        return BT_REPLICA_OK;
    }
    size_t n = s->snapshot(s->arg, m->snapshot_room + own, room);
    return n > room ? too_large(m) : hand_over(m, m->applied, own + n);
}

// One in the background goes on. Written, it waits until the core takes it.
static void saving_turn(struct bt_member *m)
{
    const struct r2p2_replica_service *s = m->conf.service;
    struct member_saving *v = &m->saving;
    if (v->stage == SAVING_BEGUN) {
        size_t room = (size_t)((uint64_t)m->document.snapshot_bytes - v->own);
        size_t n = s->snapshot_end(s->arg, m->snapshot_room + v->own, room);
        if (n == R2P2_REPLICA_NOT_YET) {
            return;
        }
        v->stage = n > room ? SAVING_NONE : SAVING_WRITTEN;
        v->length = v->own + n;
        if (n > room) {
            too_large(m);
        }
    }
    if (v->stage == SAVING_WRITTEN) {
        enum bt_replica_result r = hand_over(m, v->index, v->length);
        v->stage =
            r == BT_REPLICA_PENDING || r == BT_REPLICA_FULL || r == BT_REPLICA_NOT_YET ? SAVING_WRITTEN : SAVING_NONE;
    }
}

// One that was not possible is tried again a little later; where the log is nearly full that is a time, since nothing
// may be applied any more before there is room.
static bool may_try(const struct bt_member *m, uint64_t every, bool wanted)
{
    return m->applied >= m->snapshot_tried + every / 8 + 1 ||
           (wanted && m->now >= m->snapshot_tried_ns + MEMBER_AGAIN_NS);
}

void member_snapshot_turn(struct bt_member *m)
{
    struct bt_replica_config c;
    struct bt_replica_status s = bt_replica_status(m->core);
    uint64_t every = (uint64_t)m->document.snapshot_entries;
    if (m->phase != BT_MEMBER_RUNNING || s.fenced.index != 0) {
        return;
    }
    saving_turn(m);
    if (m->saving.stage != SAVING_NONE || !may_try(m, every, s.snapshot_wanted || s.mending)) {
        return;
    }
    member_core_config(m, &c);
    if (s.mending || m->applied - s.snapshot >= every || m->applied_bytes > c.body_bytes / 4) {
        member_take_snapshot(m);
    }
}
