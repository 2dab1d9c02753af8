// SPDX-License-Identifier: Apache-2.0
// See append.h.
#include "replica/append.h"

#include "replica/apart.h"
#include "replica/issue.h"
#include "replica/members.h"
#include "replica/send.h"
#include "replica/share.h"
#include "replica/snapshot.h"

// Where the leader may try next: before the whole of a term that contradicts it.
static uint64_t try_after(const struct bt_replica *r, uint64_t refused)
{
    if (refused > r->log.last) {
        return r->log.last;
    }
    uint64_t term = replica_log_term(&r->log, refused), i = refused;
    while (i > r->log.base && i > r->commit && replica_log_term(&r->log, i) == term) {
        i--;
    }
    return i;
}

static bool follows_log(const struct bt_replica *r, const struct bt_group_append *a)
{
    return a->prev_index < r->log.base ||
           (a->prev_index <= r->log.last && replica_log_term(&r->log, a->prev_index) == a->prev_term);
}

// Entries of the message that the log has already, from the first on.
static uint32_t known(const struct bt_replica *r, const struct bt_group_append *a)
{
    uint32_t n = 0;
    while (n < a->count) {
        const struct bt_entry *e = &a->entry[n];
        bool have =
            e->index <= r->log.base || (e->index <= r->log.last && replica_log_term(&r->log, e->index) == e->term);
        if (!have) {
            break;
        }
        n++;
    }
    return n;
}

// Entries from `from` on that fit; whether a configuration was among them goes to *config.
static uint32_t take(struct bt_replica *r, const struct bt_group_append *a, uint32_t from, bool *config)
{
    struct bt_entry *entry = r->in.append.entry; // a's own; bodies that came apart are put to them
    uint32_t n = from;
    bool here = true;
    replica_make_room(r);
    while (n < a->count && (here = replica_apart_resolve(r, &entry[n])) &&
           replica_log_append(&r->log, &entry[n], replica_next_generation(r))) {
        entry[n] = replica_log_entry(&r->log, r->log.last);
        *config = *config || entry[n].kind == BT_ENTRY_CONFIG;
        n++;
    }
    if (n > from) {
        replica_store_append(r, entry + from, n - from);
    }
    if (!here) {
        replica_lack(r, a, n); // the beginning is acknowledged
    } else if (n < a->count) {
        replica_count(r, BT_REPLICA_NO_ROOM_TOTAL);
    }
    return n;
}

// The message's entries into the log; how many of them it then has.
static uint32_t merge(struct bt_replica *r, const struct bt_group_append *a)
{
    uint32_t have = known(r, a);
    bool config = false;
    if (have == a->count) {
        return have;
    }
    if (replica_store_busy(r)) {
        replica_count(r, BT_REPLICA_STORE_BUSY_TOTAL);
        return have;
    }
    if (r->spare == REPLICA_SPARE_INSTALLED) {
        replica_count(r, BT_REPLICA_SNAPSHOT_BUSY_TOTAL); // the log is about to follow the snapshot
        return have;
    }
    if (a->entry[have].index <= r->log.last) {
        replica_store_truncate(r, a->entry[have].index);
        config = true; // one that was in force may be gone
    }
    uint32_t n = take(r, a, have, &config);
    if (config) {
        replica_config_adopt(r);
    }
    return n;
}

static bool contradicts_commit(const struct bt_replica *r, const struct bt_group_append *a)
{
    uint32_t have = known(r, a);
    return have < a->count && a->entry[have].index <= r->commit;
}

static void acknowledge(struct bt_replica *r, const struct bt_group_message *m)
{
    if (m->header.type == BT_GROUP_SHARED) {
        replica_share_ack(r);
    } else {
        replica_send_ack(r);
    }
}

void replica_append(struct bt_replica *r, const struct bt_group_message *m)
{
    const struct bt_group_append *a = &m->append;
    if (!follows_log(r, a)) {
        replica_count(r, BT_REPLICA_MISMATCH_TOTAL);
        if (r->lacks > 0 && a->prev_index > r->log.last) {
            acknowledge(r, m); // it follows what is being asked for
            return;
        }
        replica_send_refusal(r, m->header.from, a->prev_index, try_after(r, a->prev_index));
        return;
    }
    if (contradicts_commit(r, a)) {
        replica_count(r, BT_REPLICA_CONFLICT_TOTAL);
        return;
    }
    uint32_t has = merge(r, a);
    if (r->lacks > 0 && r->lack[0].of.index <= r->log.last) {
        replica_lack_nothing(r);
    }
    uint64_t end = a->prev_index + has;
    if (end > r->verified) {
        r->verified = end;
    }
    uint64_t commit = a->commit < r->verified ? a->commit : r->verified;
    if (commit > r->commit) {
        r->commit = commit;
    }
    if (m->header.type == BT_GROUP_SHARED) {
        replica_share_taken(r, a, has);
        return;
    }
    // With entries under way to the disk, word follows when they are durable; a sign of life is answered at once.
    // What there was no room for is left unanswered: the leader asks again with its next sign of life, not at once.
    if (a->count == 0 || (has == a->count && r->log.durable >= r->verified)) {
        replica_send_ack(r);
    } else {
        r->ack_due = r->log.durable < r->verified || !replica_settled(r);
    }
}
