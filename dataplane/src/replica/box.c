// SPDX-License-Identifier: Apache-2.0
// See box.h. Every pair has the same time, so the oldest one ends first: a ring in the order of arrival is its timer.
#include "replica/box.h"

#include "replica/kept.h"

#include <string.h>

enum { LIMIT_MOST = 1 << 20, FIRST_SHARE = 16 };

struct waiting {
    struct bt_addr client;
    uint64_t until;
    uint16_t req_id;
    bool is; // unanswered
};

struct bt_box {
    struct bt_box_config conf;
    struct bt_pairs pairs;
    struct replica_recent said; // of late: replier 1 passed, 0 refused
    struct waiting *ring;
    uint32_t first, used; // of the ring; answered ones stay until they are the oldest
    uint32_t turn;        // as a switch: whose slot the next request is offered
    uint64_t started_ns;
    struct bt_box_counts count;
};

static size_t rounded(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

static uint32_t ring_slots(const struct bt_box_config *c)
{
    return 4 * c->limit; // answered ones among the waiting
}

size_t bt_box_bytes(const struct bt_box_config *c)
{
    if (c->limit == 0 || c->limit > LIMIT_MOST || c->timeout_ns == 0 || c->recent_pairs == 0) {
        return 0;
    }
    return rounded(sizeof(struct bt_box)) + rounded(bt_pairs_bytes(c->limit)) +
           rounded(ring_slots(c) * sizeof(struct waiting)) + replica_recent_bytes(c->recent_pairs);
}

struct bt_box *bt_box_start(void *mem, const struct bt_box_config *c, uint64_t now)
{
    uint8_t *m = mem;
    struct bt_box *b = mem;
    *b = (struct bt_box){.conf = *c, .started_ns = now};
    m += rounded(sizeof *b);
    bt_pairs_init(&b->pairs, m, c->limit, (uint64_t[]){c->seed, ~c->seed});
    m += rounded(bt_pairs_bytes(c->limit));
    b->ring = (struct waiting *)(void *)m;
    memset(b->ring, 0, ring_slots(c) * sizeof *b->ring); // as a switch: all slots are free
    m += rounded(ring_slots(c) * sizeof *b->ring);
    replica_recent_init(&b->said, m, c->recent_pairs, c->seed);
    return b;
}

static void drop_first(struct bt_box *b)
{
    b->first = b->first + 1 < ring_slots(&b->conf) ? b->first + 1 : 0;
    b->used--;
}

static void leave(struct bt_box *b, struct waiting *w)
{
    bt_pairs_del(&b->pairs, &w->client, w->req_id);
    w->is = false;
    b->count.inside--;
}

static void expire_slots(struct bt_box *b, uint64_t now)
{
    for (uint32_t i = 0; i < b->conf.limit; i++) {
        struct waiting *w = &b->ring[i];
        if (w->is && now >= w->until) {
            leave(b, w);
            b->count.timed_out++;
        }
    }
}

static void expire(struct bt_box *b, uint64_t now)
{
    if (b->conf.as_switch) {
        expire_slots(b, now);
        return;
    }
    while (b->used > 0) {
        struct waiting *w = &b->ring[b->first];
        if (w->is && now < w->until) {
            return;
        }
        if (w->is) {
            leave(b, w);
            b->count.timed_out++;
        }
        drop_first(b);
    }
}

static uint32_t limit_now(const struct bt_box *b, uint64_t now)
{
    uint64_t age = now - b->started_ns, whole = b->conf.slow_start_ns;
    uint64_t least = (b->conf.limit + FIRST_SHARE - 1) / FIRST_SHARE;
    if (age >= whole) {
        return b->conf.limit;
    }
    uint64_t grown = (uint64_t)b->conf.limit * age / whole;
    return (uint32_t)(grown > least ? grown : least);
}

// What a duplicate hears is what the first one heard, or a client is told DROP for what is executed (I-6).
static bool said_before(const struct bt_box *b, uint64_t now, const struct bt_group_meta *pair,
                        enum bt_box_verdict *out)
{
    uint32_t at = bt_pairs_find(&b->said.pairs, &pair->client, pair->req_id);
    if (at == BT_PAIRS_NONE || now - b->said.ordered[at].at_ns >= b->conf.quarantine_ns) {
        return false;
    }
    *out = b->said.ordered[at].meta.replier != 0 ? BT_BOX_AGAIN : BT_BOX_NACK;
    return true;
}

static bool is_full(const struct bt_box *b, uint64_t now, uint32_t offered)
{
    if (b->conf.as_switch) {
        return b->ring[offered].is;
    }
    return b->count.inside >= limit_now(b, now) || b->used == ring_slots(&b->conf);
}

static void enter(struct bt_box *b, uint64_t now, const struct bt_group_meta *pair, uint32_t offered)
{
    uint32_t at = b->conf.as_switch ? offered : (b->first + b->used) % ring_slots(&b->conf);
    b->ring[at] =
        (struct waiting){.client = pair->client, .until = now + b->conf.timeout_ns, .req_id = pair->req_id, .is = true};
    bt_pairs_put(&b->pairs, &pair->client, pair->req_id, at);
    b->used += !b->conf.as_switch;
    b->count.inside++;
}

static enum bt_box_verdict judge(struct bt_box *b, uint64_t now, struct bt_group_meta *pair)
{
    enum bt_box_verdict v;
    uint32_t offered = b->turn;
    b->turn = offered + 1 < b->conf.limit ? offered + 1 : 0;
    if (!b->conf.as_switch && now - b->started_ns < b->conf.quarantine_ns) {
        return BT_BOX_HUSH;
    }
    if (bt_pairs_find(&b->pairs, &pair->client, pair->req_id) != BT_PAIRS_NONE) {
        return BT_BOX_AGAIN;
    }
    if (said_before(b, now, pair, &v)) {
        return v;
    }
    bool full = is_full(b, now, offered);
    pair->replier = full ? 0 : 1;
    replica_recent_add(&b->said, pair, now);
    if (!full) {
        enter(b, now, pair, offered);
    }
    return full ? BT_BOX_NACK : BT_BOX_PASS;
}

enum bt_box_verdict bt_box_request(struct bt_box *b, uint64_t now, const struct bt_addr *client, uint16_t req_id)
{
    expire(b, now);
    enum bt_box_verdict v = judge(b, now, &(struct bt_group_meta){.client = *client, .req_id = req_id});
    uint64_t *const count[] = {&b->count.passed, &b->count.again, &b->count.nacked, &b->count.hushed};
    ++*count[v];
    return v;
}

bool bt_box_feedback(struct bt_box *b, uint64_t now, const struct bt_addr *client, uint16_t req_id)
{
    expire(b, now);
    uint32_t at = bt_pairs_find(&b->pairs, client, req_id);
    if (at == BT_PAIRS_NONE) {
        b->count.unknown++;
        return false;
    }
    leave(b, &b->ring[at]);
    b->count.answered++;
    return true;
}

struct bt_box_counts bt_box_counts(struct bt_box *b, uint64_t now)
{
    expire(b, now);
    return b->count;
}
