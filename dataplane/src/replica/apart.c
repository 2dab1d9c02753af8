// SPDX-License-Identifier: Apache-2.0
// See apart.h.
#include "replica/apart.h"

#include <string.h>

#include "replica/issue.h"
#include "replica/members.h"
#include "replica/progress.h"

static uint32_t cell(const struct bt_replica_config *c)
{
    return c->message_bytes;
}

size_t replica_apart_bytes(const struct bt_replica_config *c)
{
    const struct bt_replica_apart *a = &c->apart;
    return a->kept_requests == 0 ? 0
                                 : replica_kept_bytes(a->kept_requests, cell(c)) +
                                       replica_recent_bytes(a->recent_pairs) + c->message_bytes;
}

void replica_apart_init(struct bt_replica *r, void *mem)
{
    const struct bt_replica_apart *a = &r->conf.apart;
    uint8_t *m = mem;
    if (a->kept_requests == 0) {
        return;
    }
    replica_kept_init(&r->kept, m, a->kept_requests, cell(&r->conf), r->conf.seed);
    m += replica_kept_bytes(a->kept_requests, cell(&r->conf));
    replica_recent_init(&r->recent, m, a->recent_pairs, r->conf.seed);
    r->whole = m + replica_recent_bytes(a->recent_pairs);
}

void bt_replica_body_key(struct bt_replica *r, const uint8_t key[16])
{
    memcpy(r->conf.apart.key, key, sizeof r->conf.apart.key);
}

bool replica_body_right(const struct bt_replica *r, const uint8_t *body, const struct bt_group_meta *m)
{
    static const uint8_t unknown[sizeof r->conf.apart.key];
    return memcmp(r->conf.apart.key, unknown, sizeof unknown) == 0 ||
           bt_group_body_hash(r->conf.apart.key, body, m->length) == m->hash;
}

void replica_apart_begin(struct bt_replica *r)
{
    r->born_ns = r->born_ns != 0 ? r->born_ns : r->now;
    if (replica_current(r)->last_index > 0) {
        r->vouched_ns = r->now + r->conf.apart.quarantine_ns;
    }
}

// ordered already, as far as this member knows.
static bool ordered_lately(const struct bt_replica *r, const struct bt_group_meta *m)
{
    uint64_t at;
    if (!replica_recent_find(&r->recent, m, &at)) {
        return false;
    }
    at = at < r->born_ns ? r->born_ns : at;
    return r->now - at < r->conf.apart.quarantine_ns;
}

void replica_apart_ordered(struct bt_replica *r, const struct bt_entry *entry, uint32_t count)
{
    for (uint32_t i = 0; replica_apart(r) && i < count; i++) {
        if (!bt_group_is_request(&entry[i])) {
            continue;
        }
        struct bt_group_meta m = bt_group_meta_get(entry[i].body);
        uint32_t at = replica_kept_find(&r->kept, &m);
        if (at != REPLICA_NOBODY) {
            replica_kept_remove(&r->kept, at);
        }
        replica_recent_add(&r->recent, &m, r->now);
    }
}

void replica_apart_taken_back(struct bt_replica *r, uint64_t from)
{
    for (uint64_t i = from; replica_apart(r) && i <= r->log.last; i++) {
        struct bt_entry e = replica_log_entry(&r->log, i);
        if (!bt_group_is_request(&e)) {
            continue;
        }
        struct bt_group_meta m = bt_group_meta_get(e.body);
        replica_recent_forget(&r->recent, &m);
        if (!replica_body_right(r, e.body + BT_GROUP_META, &m)) {
            replica_count(r, BT_REPLICA_WRONG_BODY_TOTAL); // nobody could hold it, nor can anybody later
            continue;
        }
        m.replier = 0;
        replica_kept_put(&r->kept, &(struct replica_request){.meta = m, .arrived_ns = r->now, .kind = e.kind},
                         e.body + BT_GROUP_META);
    }
}

bool replica_apart_resolve(struct bt_replica *r, struct bt_entry *e)
{
    if (!bt_group_is_request(e)) {
        return true;
    }
    struct bt_group_meta m = bt_group_meta_get(e->body);
    if (e->length == BT_GROUP_META + m.length) {
        bool right = !replica_apart(r) || m.length == 0 || replica_body_right(r, e->body + BT_GROUP_META, &m);
        r->lack_in_vain = right ? 0 : r->lack_in_vain;
        return right;
    }
    uint32_t at = replica_apart(r) ? replica_kept_find(&r->kept, &m) : REPLICA_NOBODY;
    if (at == REPLICA_NOBODY) {
        return false;
    }
    r->lack_in_vain = 0;
    memcpy(r->whole, e->body, BT_GROUP_META);
    memcpy(r->whole + BT_GROUP_META, replica_kept_body(&r->kept, at), m.length);
    e->body = r->whole;
    e->length = BT_GROUP_META + m.length;
    return true;
}

struct bt_entry replica_apart_shown(const struct bt_replica *r, struct bt_entry e)
{
    if (bt_group_is_request(&e) && e.index > r->commit) {
        e.length = BT_GROUP_META;
    }
    return e;
}

/* --- requests --- */

static bool may_order(const struct bt_replica *r)
{
    return replica_apart(r) && r->role == BT_REPLICA_LEADER && !r->failed && r->transfer_to == 0;
}

// The oldest request that this leader may order.
static uint32_t next_to_order(struct bt_replica *r)
{
    uint32_t at = r->kept.oldest;
    while (at != REPLICA_NOBODY) {
        const struct replica_request *q = &r->kept.request[at];
        uint32_t newer = q->newer;
        if (ordered_lately(r, &q->meta)) {
            replica_kept_remove(&r->kept, at);
        } else if (q->arrived_ns >= r->vouched_ns) {
            return at;
        }
        at = newer;
    }
    return REPLICA_NOBODY;
}

static bool order(struct bt_replica *r, uint32_t at)
{
    const struct replica_request *q = &r->kept.request[at];
    uint32_t n = BT_GROUP_META + q->meta.length;
    if (replica_store_busy(r) || !replica_log_fits(&r->log, q->kind, n)) {
        return false;
    }
    struct bt_group_meta m = q->meta;
    m.replier = replica_replier(r);
    if (m.replier == 0) {
        replica_count(r, BT_REPLICA_NO_REPLIER_TOTAL);
        return false;
    }
    bt_group_meta_put(r->whole, &m);
    memcpy(r->whole + BT_GROUP_META, replica_kept_body(&r->kept, at), m.length);
    return replica_store_own(r, q->kind, r->whole, n);
}

static void expire(struct bt_replica *r)
{
    uint64_t age = r->conf.apart.keep_ns;
    if (r->now > age) {
        r->counter[BT_REPLICA_REQUESTS_EXPIRED_TOTAL] += replica_kept_expire(&r->kept, r->now - age);
    }
}

void replica_announce(struct bt_replica *r)
{
    bool ordered = false;
    if (may_order(r)) {
        expire(r); // what is too old for a set is too old for a log
    }
    while (may_order(r)) {
        uint32_t at = next_to_order(r);
        if (at == REPLICA_NOBODY || !order(r, at)) {
            break;
        }
        ordered = true;
    }
    if (ordered) {
        replica_feed_all(r, false);
    }
}

enum bt_replica_result bt_replica_request(struct bt_replica *r, uint64_t now, const struct bt_replica_request *q)
{
    r->now = now;
    if (!replica_apart(r)) {
        return BT_REPLICA_FOREIGN;
    }
    if (q->length > replica_body_most(r) - BT_GROUP_META) {
        return BT_REPLICA_TOO_LONG;
    }
    expire(r);
    struct replica_request kept = {.arrived_ns = now, .kind = q->read_only ? BT_ENTRY_READ : BT_ENTRY_WRITE};
    kept.meta = (struct bt_group_meta){.client = q->client,
                                       .req_id = q->req_id,
                                       .length = q->length,
                                       .hash = bt_group_body_hash(r->conf.apart.key, q->body, q->length)};
    if (ordered_lately(r, &kept.meta) || replica_kept_find(&r->kept, &kept.meta) != REPLICA_NOBODY) {
        replica_count(r, BT_REPLICA_REQUESTS_AGAIN_TOTAL);
        return BT_REPLICA_ALREADY;
    }
    if (replica_kept_put(&r->kept, &kept, q->body)) {
        replica_count(r, BT_REPLICA_REQUESTS_EVICTED_TOTAL);
    }
    replica_lack_found(r, &kept.meta);
    replica_announce(r);
    return BT_REPLICA_OK;
}

void bt_replica_announce(struct bt_replica *r, uint64_t now)
{
    r->now = now;
    replica_announce(r);
}

unsigned bt_replica_duty(const struct bt_replica *r, const struct bt_entry *e)
{
    if (e->kind == BT_ENTRY_COMMAND) {
        return BT_REPLICA_EXECUTE;
    }
    if (!bt_group_is_request(e)) {
        return 0;
    }
    bool replier = bt_group_meta_get(e->body).replier == r->conf.id;
    unsigned execute = e->kind == BT_ENTRY_WRITE || replier ? BT_REPLICA_EXECUTE : 0;
    return execute | (replier ? BT_REPLICA_ANSWER : 0);
}
