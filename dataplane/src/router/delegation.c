// SPDX-License-Identifier: Apache-2.0
// Lending decisions, and doing again what was decided (see delegation.h).
#include "router/delegation.h"

#include <string.h>

#include "router/feedback.h"
#include "router/forward.h"

static_assert(BT_DELEGATION_WORKERS == BT_LOAD_ROW, "a loan is an index of one row");
static_assert(BT_DELEGATION_FEW == BT_LOAD_FEW && BT_DELEGATION_GROUP == BT_LOAD_GROUP, "groups are the same");
static_assert(BT_DELEGATION_LEVELS == BT_LOAD_FULL, "levels mean the same on both sides");
static_assert(BT_DELEGATION_KEYS == BT_KEYS_LIVE, "every key is lent");
static_assert(sizeof(struct bt_rank) == sizeof(__u16), "a rank is one number");

const struct bt_lend_reason bt_lend_reasons[BT_LEND_REASONS] = {
    [BT_LEND_YES] = {"Active", "requests are decided in the kernel"},
    [BT_LEND_POLICY] = {"Policy", "only JBSQ without holdBack is decided in the kernel"},
    [BT_LEND_ADMISSION] = {"AdmissionControl", "admission control looks at every request"},
    [BT_LEND_HEDGING] = {"Hedging", "hedging looks at every request"},
    [BT_LEND_FORWARDING] = {"Forwarding", "only Encapsulated forwarding is done in the kernel"},
    [BT_LEND_THREADS] = {"Threads", "the router runs on two threads"},
    [BT_LEND_WORKERS] = {"TooManyWorkers", "there are more than 64 workers"},
    [BT_LEND_LEGACY] = {"LegacyWorker", "a worker takes requests without options only"},
    [BT_LEND_IPV6] = {"IPv6Worker", "a worker has an IPv6 address"},
    [BT_LEND_NOBODY] = {"NoWorkers", "no worker has joined"},
    [BT_LEND_DRAINING] = {"Draining", "the router drains"},
    [BT_LEND_HELD] = {"RequestsHeld", "requests are held"},
    [BT_LEND_OWN_ADDRESS] = {"OwnAddress", "a worker has the router's own address"},
    [BT_LEND_KERNEL] = {"Kernel", "the kernel refused the delegation"},
};

/* Why this configuration leaves nothing to lend. */
static enum bt_lend unsuited(const struct bt_router *r)
{
    if (!r->jbsq || r->hold_back_packets != 0) {
        return BT_LEND_POLICY;
    }
    if (r->noted) {
        return r->admission != NULL ? BT_LEND_ADMISSION : BT_LEND_HEDGING;
    }
    if (r->forwarding != BT_FORWARD_ENCAPSULATED) {
        return BT_LEND_FORWARDING;
    }
    if (r->split != NULL) {
        return BT_LEND_THREADS;
    }
    return r->load.span > BT_DELEGATION_WORKERS ? BT_LEND_WORKERS : BT_LEND_YES;
}

/* Why this moment does. */
static enum bt_lend untimely(const struct bt_router *r)
{
    if (r->draining) {
        return BT_LEND_DRAINING;
    }
    if (r->load.span == 0) {
        return BT_LEND_NOBODY;
    }
    return r->held.n != 0 ? BT_LEND_HELD : BT_LEND_YES;
}

/* Slot w, whose level is not that of a worker that is off. */
static enum bt_lend lend_worker(const struct bt_router *r, uint32_t w, struct bt_delegation_worker *out)
{
    const struct worker *worker = &r->worker[w];
    const struct bt_credit *credit = &r->credit[w];
    if ((worker->flags & WORKER_EXTENDED) == 0) {
        return BT_LEND_LEGACY;
    }
    if (!bt_addr_is_v4(&worker->addr)) {
        return BT_LEND_IPV6;
    }
    out->given = router_sent(r, w) - credit->shift;
    out->shift = credit->shift;
    out->received = credit->received;
    out->served = credit->served;
    out->steady = worker->steady;
    memcpy(&out->ip, worker->addr.ip + 12, sizeof out->ip);
    out->port = htobe16(worker->addr.port);
    out->limit = r->load.limit[w];
    return BT_LEND_YES;
}

static uint16_t rank_of(struct bt_rank rank)
{
    return (uint16_t)(rank.major << 8 | rank.minor);
}

/* An index of few workers keeps no account of groups. */
static void lend_groups(const struct bt_router *r, struct bt_delegation *d)
{
    for (uint32_t g = 0; g < BT_DELEGATION_GROUP && d->span > BT_DELEGATION_FEW; g++) {
        d->group[g] = rank_of(r->load.group[g]);
    }
}

static void lend_keys(const struct bt_router *r, struct bt_delegation *d)
{
    for (uint32_t i = 0; i < BT_DELEGATION_KEYS; i++) {
        const struct bt_key *key = &r->keys.key[i];
        d->key[i].id = key->id;
        memcpy(d->key[i].half, key->bytes, sizeof d->key[i].half);
        d->signer = key == bt_keyring_signer(&r->keys) ? i : d->signer;
    }
}

enum bt_lend bt_router_lend(const struct bt_router *r, struct bt_delegation *d)
{
    enum bt_lend why = unsuited(r);
    why = why == BT_LEND_YES ? untimely(r) : why;
    if (why != BT_LEND_YES) {
        return why;
    }
    memset(d, 0, sizeof *d);
    d->turn = r->load.turn;
    d->max_payload = r->max_payload;
    lend_keys(r, d);
    memcpy(d->untie, r->load.untie, sizeof d->untie);
    d->span = r->load.span;
    lend_groups(r, d);
    for (uint32_t w = 0; w < BT_DELEGATION_WORKERS && why == BT_LEND_YES; w++) {
        d->rank[w] = rank_of(r->load.rank[w]);
        if (r->load.limit[w] != 0) { /* it is below span, too */
            why = lend_worker(r, w, &d->worker[w]);
            d->who[w] = bt_delegation_who(d->worker[w].ip, d->worker[w].port);
        }
    }
    return why;
}

bool bt_router_loan_holds(const struct bt_router *r, const struct bt_delegation *d)
{
    struct bt_delegation now;
    if (bt_router_lend(r, &now) != BT_LEND_YES || now.max_payload != d->max_payload || now.span != d->span ||
        memcmp(now.key, d->key, sizeof now.key) != 0) {
        return false;
    }
    for (uint32_t w = 0; w < now.span; w++) {
        const struct bt_delegation_worker *was = &d->worker[w], *is = &now.worker[w];
        if (was->limit != is->limit || was->steady != is->steady || was->ip != is->ip || was->port != is->port ||
            was->shift != is->shift) {
            return false;
        }
    }
    return true;
}

static struct bt_addr client_of(const struct bt_delegation_note *note)
{
    uint8_t ip[4];
    memcpy(ip, &note->ip, sizeof ip);
    return bt_addr_v4(ip, be16toh(note->port));
}

/* As bt_router_request does with a plain request that finds credit. */
static bool replay_request(struct bt_router *r, uint64_t now, const struct bt_delegation_note *note)
{
    struct bt_addr client = client_of(note);
    struct bt_pkt pkt = {.src = client, .t_rx_ns = note->at};
    router_note_arrival(r, now, &pkt);
    uint32_t chosen = router_choose(r);
    struct pair_key key = watch_key(&client, be16toh(note->req_id), note->worker);
    count_forwarded(r, now, &pkt, key, router_to(note->worker), 0);
    return chosen == note->worker;
}

bool bt_router_replay(struct bt_router *r, const struct bt_delegation_note *note, struct bt_txq *txq)
{
    uint64_t now = router_clock(r, note->at);
    if (note->worker >= BT_DELEGATION_WORKERS || (r->worker[note->worker].flags & WORKER_USED) == 0) {
        return false;
    }
    if (note->kind == BT_NOTE_REQUEST) {
        return replay_request(r, now, note);
    }
    uint8_t payload[BT_FEEDBACK_V1_SIZE] = {0};
    memcpy(payload + BT_FEEDBACK_REQ_ID_AT, &note->req_id, sizeof note->req_id);
    memcpy(payload + BT_FEEDBACK_PORT_AT, &note->port, sizeof note->port);
    memcpy(payload + BT_FEEDBACK_IP_AT, &note->ip, sizeof note->ip);
    bt_put64(payload + BT_FEEDBACK_RECEIVED_AT, note->received);
    bt_put64(payload + BT_FEEDBACK_SERVED_AT, note->served);
    router_feedback_again(r, now, note->worker, payload, txq);
    return true;
}
