// SPDX-License-Identifier: Apache-2.0
// The feedback port: who may speak, what it changes (R-109…R-115), and the credit it frees.
#include "router/feedback.h"

#include "base/bytes.h"
#include "base/trace.h"
#include "router/health.h"
#include "router/leave.h"
#include "router/queue.h"
#include "router/watch.h"
#include "router/workers.h"
#include "wire/tag_short.h"

/* 0: the pair was served. CANCELLED says why a pair was dropped, and nothing without DROPPED: says_as_ever and
 * the kernel's program, which look at DROPPED alone, must not judge otherwise. */
static inline uint8_t unserved(const struct bt_feedback *fb)
{
    return (fb->flags & BT_FEEDBACK_DROPPED) != 0 ? fb->flags & (BT_FEEDBACK_DROPPED | BT_FEEDBACK_CANCELLED) : 0;
}

/* with a key, FEEDBACK carries a valid tag; under legacyPeers Allow the 16-byte form need not, since those who
 * send it predate tags. Who sends the long form does not: else a tag could be taken off to be rid of the check. */
static bool authentic(const struct bt_router *r, const struct bt_pkt *pkt, const struct bt_r2p2_hdr *hdr,
                      const struct bt_feedback *fb)
{
    if (bt_keyring_empty(&r->keys)) {
        return true;
    }
    switch (bt_tag_verify(pkt->data, pkt->len, hdr, &r->keys, &pkt->src, &pkt->dst)) {
    case BT_TAG_VALID:
        return true;
    case BT_TAG_ABSENT:
        return r->legacy_peers && fb->version == 0;
    default:
        return false;
    }
}

static enum bt_mcase judge_feedback(const struct bt_router *r, const struct bt_pkt *pkt, struct bt_feedback *fb,
                                    uint32_t *w, uint64_t *trace)
{
    struct bt_r2p2_hdr hdr;
    enum bt_mcase m = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_FEEDBACK, &hdr);
    if (m != BT_M_OK) {
        return m;
    }
    m = bt_feedback_decode(hdr.payload, hdr.payload_len, fb);
    if (m != BT_M_OK) {
        return m;
    }
    *trace = (hdr.opt.present & BT_HAS_TRACE) != 0 ? hdr.opt.trace : 0;
    *w = router_find(r, &pkt->src);
    if (*w == NO_SLOT) {
        return BT_M21; /* */
    }
    if (!authentic(r, pkt, &hdr, fb)) {
        return BT_M_TAG;
    }
    if (fb->version == 0 && !r->legacy_peers) {
        return BT_M21;
    }
    return fb->n > BT_ROUTER_DEPTH_MAX ? BT_M22 : BT_M_OK;
}

static void note_heard(struct bt_router *r, uint64_t now, struct worker *worker)
{
    worker->heard_at = now;
    worker->busy_at = now;
    if ((worker->flags & WORKER_SUSPECT) != 0) {
        worker->flags = (uint16_t)(worker->flags & ~WORKER_SUSPECT);
        r->counter[BT_RC_READMITTED]++;
    }
}

static void leave(struct bt_router *r, uint64_t now, uint32_t w)
{
    struct worker *worker = &r->worker[w];
    if ((worker->flags & WORKER_LEAVING) == 0) {
        worker->flags |= WORKER_LEAVING;
        r->cold[w].quiet_since = now;
        r->counter[BT_RC_LEFT]++;
        router_health_soon(r, now);
    }
}

/* What was sent before a LEAVE may arrive after it: only JOIN, a new incarnation or a FEEDBACK later than any
 * straggler takes a worker back. */
static void join(struct bt_router *r, uint64_t now, uint32_t w, bool certain)
{
    struct worker *worker = &r->worker[w];
    if ((worker->flags & WORKER_LEAVING) != 0 && !certain && now - r->cold[w].quiet_since < r->timers.loss_ns) {
        return;
    }
    if ((worker->flags & (WORKER_JOINED | WORKER_EXTENDED)) != (WORKER_JOINED | WORKER_EXTENDED) ||
        (worker->flags & WORKER_LEAVING) != 0) {
        r->counter[BT_RC_JOINED]++;
    }
    worker->flags = (uint16_t)((worker->flags | WORKER_JOINED) & ~WORKER_LEAVING);
}

static void forget_failures(struct bt_router *r, uint32_t w)
{
    struct worker *worker = &r->worker[w];
    worker->flags = (uint16_t)(worker->flags & ~WORKER_EJECTED);
    worker->window_total = worker->window_dropped = 0;
    worker->ejections = 0;
}

static void count_lost(struct bt_router *r, uint32_t w)
{
    uint64_t lost = bt_credit_lost(&r->credit[w]);
    if (lost > r->cold[w].lost_seen) {
        r->counter[BT_RC_CREDITS_LOST] += lost - r->cold[w].lost_seen;
    }
    r->cold[w].lost_seen = lost;
}

/* Life cycle of the worker, after its counters were taken. */
static void apply_flags(struct bt_router *r, uint64_t now, uint32_t w, const struct bt_feedback *fb, bool restarted)
{
    struct worker *worker = &r->worker[w];
    note_heard(r, now, worker);
    worker->n = fb->n;
    if (restarted) {
        forget_failures(r, w);
        r->cold[w].lost_seen = 0;
    }
    if ((fb->flags & BT_FEEDBACK_LEAVE) != 0) {
        leave(r, now, w);
    } else {
        join(r, now, w, restarted || (fb->flags & BT_FEEDBACK_JOIN) != 0);
    }
    worker->flags |= WORKER_EXTENDED;
}

/* FEEDBACK with a trace id is never short, so that what is not traced pays nothing for this. */
__attribute__((noinline, cold)) static void note_trace(struct bt_router *r, uint64_t now, uint32_t w,
                                                       const struct bt_feedback *fb, uint64_t id)
{
    struct pair_key key = watch_key(&fb->client, fb->req_id, w);
    const uint32_t *link = router_watch_search(&r->pairs, watch_slot(&r->pairs, &key), key);
    if (link != NULL) {
        const struct pair_sent *sent = &r->pairs.slab[*link].sent;
        bt_trace_note(r->traces, &(struct bt_trace){.id = id,
                                                    .start_ns = sent->since,
                                                    .middle_ns = sent->at,
                                                    .end_ns = now,
                                                    .client = fb->client,
                                                    .worker = r->worker[w].addr,
                                                    .req_id = fb->req_id,
                                                    .dropped = (fb->flags & BT_FEEDBACK_DROPPED) != 0});
    }
}

__attribute__((noinline)) static void end_pair(struct bt_router *r, uint64_t now, uint32_t w,
                                               const struct bt_feedback *fb, uint64_t trace)
{
    if ((unserved(fb) & BT_FEEDBACK_CANCELLED) != 0 && router_is_stale(r, w, fb)) {
        r->counter[BT_RC_PAIRS_UNKNOWN]++;
    } else if ((fb->flags & BT_FEEDBACK_PAIR) != 0) {
        if (trace != 0) {
            note_trace(r, now, w, fb, trace);
        }
        router_watch_end(r, now, watch_key(&fb->client, fb->req_id, w), &r->credit[w], unserved(fb));
    }
}

/* R-111 remembers when so many were sent. A thread that sends may be ahead of the time stamp of a FEEDBACK, but no
 * request that `sent` counts is later than its clock, read after it. */
static inline enum bt_credit_verdict take_report(struct bt_router *r, uint64_t now, uint32_t w,
                                                 const struct bt_credit_report *report)
{
    uint64_t sent = atomic_load_explicit(&r->sent[w], memory_order_acquire);
    if (__builtin_expect(r->sends_clock != NULL, 0)) {
        uint64_t clock = atomic_load_explicit(r->sends_clock, memory_order_relaxed);
        now = router_clock(r, clock > now ? clock : now);
    }
    return bt_credit_report(&r->credit[w], report, sent, now, r->timers.loss_ns);
}

static enum bt_mcase take_extended(struct bt_router *r, uint64_t now, uint32_t w, const struct bt_feedback *fb,
                                   uint64_t trace)
{
    struct bt_credit *credit = &r->credit[w];
    struct bt_credit_report report = {fb->received, fb->served, fb->incarnation, false};
    bool known = credit->known;
    uint64_t served = credit->served;
    enum bt_credit_verdict verdict = take_report(r, now, w, &report);
    if (verdict == BT_CREDIT_BACKWARDS && now - r->worker[w].heard_at >= r->timers.dead_ns) {
        report.silent = true;
        verdict = take_report(r, now, w, &report);
    }
    if (verdict == BT_CREDIT_BACKWARDS) {
        return BT_M22;
    }
    if (fb->version == 3) {
        atomic_store_explicit(r->tell_flow, fb->signal, memory_order_relaxed);
    }
    end_pair(r, now, w, fb, trace); /* news even when the counters are old */
    bt_credit_settle(credit, router_sent(r, w));
    if (verdict == BT_CREDIT_STALE) {
        r->counter[BT_RC_FEEDBACK_STALE]++;
        router_refresh(r, w);
        return BT_M_OK;
    }
    bool restarted = verdict == BT_CREDIT_RESTARTED;
    r->counter[BT_RC_FEEDBACK]++;
    r->counter[BT_RC_RESTARTED] += restarted && known ? 1u : 0u;
    apply_flags(r, now, w, fb, restarted);
    count_lost(r, w);
    if ((fb->flags & BT_FEEDBACK_PAIR) != 0 && credit->served != served) {
        router_note_finished(r, now, w, unserved(fb));
    }
    router_refresh(r, w);
    return BT_M_OK;
}

/* 16-byte form. A worker known to speak the long one and alive does not fall back to it. */
static enum bt_mcase take_legacy(struct bt_router *r, uint64_t now, uint32_t w, const struct bt_feedback *fb)
{
    struct worker *worker = &r->worker[w];
    const unsigned alive = WORKER_EXTENDED | WORKER_JOINED;
    if ((worker->flags & (alive | WORKER_SUSPECT)) == alive) {
        return BT_M22;
    }
    if (r->credit[w].known) { /* a legacy one took its place */
        worker->flags = (uint16_t)(worker->flags & ~WORKER_EXTENDED);
        r->credit[w].known = false;
        bt_credit_look_again(&r->credit[w]);
    }
    r->counter[BT_RC_FEEDBACK]++;
    r->counter[BT_RC_FEEDBACK_LEGACY]++;
    r->counter[BT_RC_JOINED] += worker->heard_at == 0 ? 1u : 0u;
    note_heard(r, now, worker);
    worker->reclaims = 0;
    end_pair(r, now, w, fb, 0);
    bt_credit_legacy(&r->credit[w], router_sent(r, w));
    router_legacy_default(r, w);
    router_refresh(r, w);
    return BT_M_OK;
}

/* Any FEEDBACK. */
__attribute__((noinline)) static void take_any(struct bt_router *r, uint64_t now, struct bt_pkt *pkt,
                                               struct bt_txq *txq)
{
    struct bt_feedback fb;
    uint32_t w = NO_SLOT;
    uint64_t trace = 0;
    enum bt_mcase m = judge_feedback(r, pkt, &fb, &w, &trace);
    if (m == BT_M_OK) {
        m = fb.version == 0 ? take_legacy(r, now, w, &fb) : take_extended(r, now, w, &fb, trace);
    }
    if (m != BT_M_OK) {
        router_reject(r, pkt, m);
        return;
    }
    bt_pool_put(r->pool, pkt);
    router_pump(r, now, txq);
    if (r->noted) {
        router_tell_follow(r, now, txq);
    }
}

/* More is known to be lost since a pair was finished. Returns what the worker owes. */
__attribute__((noinline, cold)) static uint64_t settle_again(struct bt_router *r, uint32_t w)
{
    bt_credit_settle(&r->credit[w], router_sent(r, w));
    count_lost(r, w);
    return router_outstanding(r, w);
}

/* The FEEDBACK at payload is what the worker says as long as nothing happens to it. form: 0, or STEADY_TAGGED. */
EVERY_PACKET bool says_as_ever(const struct worker *worker, const uint8_t *payload, uint64_t form)
{
    return (router_steady(payload) | form) == worker->steady;
}

/* What nearly every FEEDBACK is: a steady worker has served an IPv4 pair, and its counters are in order. Read straight
 * from the packet. False, nothing changed: it must take the long way. */
EVERY_PACKET bool take_steady(struct bt_router *r, uint64_t now, const uint8_t *payload, uint32_t w,
                              uint64_t *outstanding)
{
    struct worker *worker = &r->worker[w];
    struct bt_credit *credit = &r->credit[w];
    uint64_t received = bt_get64(payload + BT_FEEDBACK_RECEIVED_AT), served = bt_get64(payload + BT_FEEDBACK_SERVED_AT);
    if (bt_feedback_contradicts(received, served) ||
        !bt_credit_in_order(credit, received, served, router_sent(r, w), now, outstanding)) {
        return false;
    }
    r->counter[BT_RC_FEEDBACK]++;
    worker->heard_at = now;
    if (!router_note_served(worker)) {
        router_note_finished(r, now, w, 0);
    }
    uint32_t id = bt_pairs_id(bt_get16(payload + BT_FEEDBACK_PORT_AT), bt_get16(payload + BT_FEEDBACK_REQ_ID_AT));
    struct pair_key key = {{0, bt_addr_v4_half(payload + BT_FEEDBACK_IP_AT)}, (uint64_t)w << 32 | id};
    router_watch_end(r, now, key, credit, 0);
    if (__builtin_expect(bt_credit_unsettled(credit), 0)) {
        *outstanding = settle_again(r, w);
    }
    return true;
}

#define TAGGED_HEADER (BT_R2P2_HEADER + BT_TAG_OPTION)

/* R-57, of a packet that carries a tag and no other option. */
static inline bool tag_holds(const struct bt_router *r, const struct bt_pkt *pkt)
{
    const uint8_t *option = pkt->data + BT_R2P2_HEADER;
    const struct bt_key *key = bt_keyring_find(&r->keys, option[2]);
    uint64_t tag;
    if (bt_get16(option) != (BT_OPTION_TAG << 8 | BT_TAG_OPTION) || key == NULL) {
        return false;
    }
    memcpy(&tag, option + 4, sizeof tag); /* compared at once, which takes the same time whatever differs */
    return tag == bt_tag_short(pkt->data, TAGGED_HEADER + BT_FEEDBACK_V1_SIZE, TAGGED_HEADER - sizeof tag, key,
                               &pkt->src, &pkt->dst);
}

/* The same where the service has a key. What the tag would be is computed last: strangers cost no more than before. */
__attribute__((noinline)) static bool take_tagged(struct bt_router *r, uint64_t now, const struct bt_pkt *pkt,
                                                  uint32_t *w, uint64_t *outstanding)
{
    const uint8_t *payload = pkt->data + TAGGED_HEADER;
    if (!bt_r2p2_is_single(pkt->data, pkt->len, BT_FEEDBACK, TAGGED_HEADER)) {
        return false;
    }
    *w = router_find(r, &pkt->src);
    return *w != NO_SLOT && says_as_ever(&r->worker[*w], payload, STEADY_TAGGED) && tag_holds(r, pkt) &&
           take_steady(r, now, payload, *w, outstanding);
}

/* True: it was one of those, of worker *w. */
EVERY_PACKET bool take_short(struct bt_router *r, uint64_t now, const struct bt_pkt *pkt, uint32_t *w,
                             uint64_t *outstanding)
{
    if (pkt->len != BT_R2P2_HEADER + BT_FEEDBACK_V1_SIZE || !bt_r2p2_is_plain(pkt->data, pkt->len, BT_FEEDBACK)) {
        return pkt->len == TAGGED_HEADER + BT_FEEDBACK_V1_SIZE && take_tagged(r, now, pkt, w, outstanding);
    }
    const uint8_t *payload = pkt->data + BT_R2P2_HEADER;
    *w = router_find(r, &pkt->src);
    return *w != NO_SLOT && says_as_ever(&r->worker[*w], payload, 0) && take_steady(r, now, payload, *w, outstanding);
}

void router_feedback(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq)
{
    uint32_t w;
    uint64_t outstanding;
    now = router_clock(r, now);
    if (take_short(r, now, pkt, &w, &outstanding)) {
        router_credit_came(r, now, w, outstanding, txq);
        bt_pool_put(r->pool, pkt);
        return;
    }
    take_any(r, now, pkt, txq);
}

void router_feedback_again(struct bt_router *r, uint64_t now, uint32_t w, const uint8_t *payload, struct bt_txq *txq)
{
    uint64_t outstanding;
    if (take_steady(r, now, payload, w, &outstanding)) {
        router_credit_came(r, now, w, outstanding, txq);
        return;
    }
    uint8_t ip[4];
    memcpy(ip, payload + BT_FEEDBACK_IP_AT, sizeof ip);
    struct bt_feedback fb = {.version = 1,
                             .flags = BT_FEEDBACK_PAIR,
                             .req_id = bt_get16(payload + BT_FEEDBACK_REQ_ID_AT),
                             .client = bt_addr_v4(ip, bt_get16(payload + BT_FEEDBACK_PORT_AT)),
                             .n = r->worker[w].n,
                             .incarnation = r->credit[w].incarnation,
                             .received = bt_get64(payload + BT_FEEDBACK_RECEIVED_AT),
                             .served = bt_get64(payload + BT_FEEDBACK_SERVED_AT)};
    if (take_extended(r, now, w, &fb, 0) != BT_M_OK) {
        r->malformed[BT_M22]++;
    }
    router_pump(r, now, txq);
}

bool router_feedback_steady(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, uint32_t *w)
{
    uint64_t outstanding;
    return take_short(r, now, pkt, w, &outstanding);
}

void router_feedback_any(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq)
{
    take_any(r, now, pkt, txq);
}
