// SPDX-License-Identifier: Apache-2.0
// The feedback port: who may speak, what it changes (R-109…R-115), and the credit it frees.
#include "router/internal.h"

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

static enum bt_mcase judge(const struct bt_router *r, const struct bt_pkt *pkt, struct bt_feedback *fb, uint32_t *w)
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

static void end_pair(struct bt_router *r, uint64_t now, uint32_t w, const struct bt_feedback *fb)
{
    if ((fb->flags & BT_FEEDBACK_PAIR) != 0) {
        router_watch_end(r, now, &fb->client, fb->req_id, w, (fb->flags & BT_FEEDBACK_DROPPED) != 0);
    }
}

static enum bt_mcase take_extended(struct bt_router *r, uint64_t now, uint32_t w, const struct bt_feedback *fb)
{
    struct bt_credit *credit = &r->credit[w];
    struct bt_credit_report report = {fb->received, fb->served, fb->incarnation, false};
    bool known = credit->known;
    uint64_t served = credit->served;
    enum bt_credit_verdict verdict = bt_credit_report(credit, &report, router_sent(r, w), now, r->timers.loss_ns);
    if (verdict == BT_CREDIT_BACKWARDS && now - r->worker[w].heard_at >= r->timers.dead_ns) {
        report.silent = true;
        verdict = bt_credit_report(credit, &report, router_sent(r, w), now, r->timers.loss_ns);
    }
    if (verdict == BT_CREDIT_BACKWARDS) {
        return BT_M22;
    }
    end_pair(r, now, w, fb); /* news even when the counters are old */
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
        router_note_finished(r, now, w, (fb->flags & BT_FEEDBACK_DROPPED) != 0);
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
    end_pair(r, now, w, fb);
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
    enum bt_mcase m = judge(r, pkt, &fb, &w);
    if (m == BT_M_OK) {
        m = fb.version == 0 ? take_legacy(r, now, w, &fb) : take_extended(r, now, w, &fb);
    }
    if (m != BT_M_OK) {
        router_reject(r, pkt, m);
        return;
    }
    bt_pool_put(r->pool, pkt);
    router_pump(r, now, txq);
}

/* A pair that ended, of a steady worker: the pair is news, and may tell of losses. Returns what the worker owes. */
static uint64_t finish_pair(struct bt_router *r, uint64_t now, uint32_t w, const uint8_t *payload, bool newly_served)
{
    bool dropped = (payload[BT_FEEDBACK_FLAGS_AT] & BT_FEEDBACK_DROPPED) != 0;
    struct bt_credit *credit = &r->credit[w];
    struct bt_addr client = bt_addr_v4(payload + 4, bt_get16(payload + 2));
    router_watch_end(r, now, &client, bt_get16(payload), w, dropped);
    if (__builtin_expect(bt_credit_unsettled(credit), 0)) {
        bt_credit_settle(credit, router_sent(r, w));
        count_lost(r, w);
    }
    if (newly_served) {
        router_note_finished(r, now, w, dropped);
    }
    return router_outstanding(r, w);
}

/* What nearly every FEEDBACK is: untagged where there is no key, of an IPv4 pair, of a worker that is in service and
 * stays so, with the n it had, and counters in order. Read straight from the packet. False, nothing changed: it must
 * take the long way. */
static inline bool take_steady(struct bt_router *r, uint64_t now, const struct bt_pkt *pkt, uint32_t w,
                               uint64_t *outstanding)
{
    const uint8_t *payload = pkt->data + BT_R2P2_HEADER;
    struct worker *worker = &r->worker[w];
    struct bt_credit *credit = &r->credit[w];
    const unsigned steady = WORKER_USED | WORKER_ALLOWED | WORKER_JOINED | WORKER_EXTENDED;
    struct bt_credit_report report = {bt_get64(payload + 16), bt_get64(payload + 24), bt_get32(payload + 12), false};
    bool newly_served = report.served != credit->served;
    if (worker->flags != steady || bt_get16(payload + 10) != worker->n ||
        (payload[BT_FEEDBACK_FLAGS_AT] & (BT_FEEDBACK_JOIN | BT_FEEDBACK_LEAVE)) != 0 ||
        report.served > report.received || !bt_credit_in_order(credit, &report, router_sent(r, w), now, outstanding)) {
        return false;
    }
    r->counter[BT_RC_FEEDBACK]++;
    worker->heard_at = now;
    worker->busy_at = now;
    if ((payload[BT_FEEDBACK_FLAGS_AT] & BT_FEEDBACK_PAIR) != 0) {
        *outstanding = finish_pair(r, now, w, payload, newly_served);
    }
    return true;
}

void bt_router_feedback(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_txq *txq)
{
    now = router_clock(r, now);
    if (pkt->len == BT_R2P2_HEADER + BT_FEEDBACK_V1_SIZE && bt_r2p2_is_plain(pkt->data, pkt->len, BT_FEEDBACK) &&
        pkt->data[BT_R2P2_HEADER + BT_FEEDBACK_VERSION_AT] == 1 && bt_keyring_empty(&r->keys)) {
        uint32_t w = router_find(r, &pkt->src);
        uint64_t outstanding;
        if (w != NO_SLOT && take_steady(r, now, pkt, w, &outstanding)) {
            bt_pool_put(r->pool, pkt);
            router_credit_came(r, now, w, outstanding, txq);
            return;
        }
    }
    take_any(r, now, pkt, txq);
}
