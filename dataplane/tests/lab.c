// SPDX-License-Identifier: Apache-2.0
// See lab.h. The request body is: u32 wanted reply length, u16 call index, u8
// salt, then a pattern; shorter requests carry what fits.
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "unit.h"
#include "wire/tag.h"

#define DEFAULT_DELAY (10 * 1000ull)

static uint8_t pattern(uint32_t i, uint8_t salt)
{
    return (uint8_t)(i * 131 + (i >> 8) * 7 + salt);
}

static void fill(uint8_t *p, uint32_t len, uint8_t salt)
{
    for (uint32_t i = 0; i < len; i++) {
        p[i] = pattern(i, salt);
    }
}

static enum lab_kind kind_of(const struct bt_r2p2_hdr *h)
{
    switch (h->type) {
    case BT_REQUEST:
        return h->first ? LAB_REQ0 : LAB_REQN;
    case BT_REPLY:
        return LAB_REPLY;
    case BT_FEEDBACK:
        return LAB_FEEDBACK;
    case BT_REQRDY:
        return LAB_REQRDY;
    case BT_DROP:
        return LAB_DROP;
    default:
        return LAB_SACK;
    }
}

// --- client callbacks ---------------------------------------------------------

static struct lab_call *ended(struct lab *l, uint64_t cookie, enum lab_end end)
{
    struct lab_call *c = &l->call[cookie];
    c->ends++;
    if (c->ends != 1) {
        fail_msg("seed %llu: call %llu ended %d times (R-43)", (unsigned long long)l->seed, (unsigned long long)cookie,
                 c->ends);
    }
    c->end = end;
    return c;
}

static void on_success(void *arg, uint64_t cookie, struct bt_msg *reply, const struct bt_reply_info *info)
{
    struct lab *l = arg;
    struct lab_call *c = ended(l, cookie, LAB_SUCCESS);
    c->reply_len = reply->len;
    c->info = *info;
    uint8_t *got = malloc(reply->len + 1);
    assert_int_equal(bt_msg_copy(reply, got, reply->len + 1), reply->len);
    c->intact = reply->len == c->want_reply;
    for (uint32_t i = 0; i < reply->len && c->intact; i++) {
        c->intact = got[i] == pattern(i, c->salt);
    }
    free(got);
    bt_client_done(l->client, reply);
}

static void on_timeout(void *arg, uint64_t cookie)
{
    ended(arg, cookie, LAB_TIMEOUT);
}

static void on_error(void *arg, uint64_t cookie, int code)
{
    ended(arg, cookie, LAB_ERROR)->code = code;
}

// --- server application -------------------------------------------------------

static void answer(struct lab *l, uint64_t handle, const uint8_t *body, uint32_t len, struct bt_txq *txq)
{
    uint32_t want = len >= 4 ? bt_get32(body) : len;
    uint8_t *out = malloc(want + 1);
    uint8_t salt = len >= 7 ? body[6] : 0;
    fill(out, want, salt);
    // An odd split of the iovec, to see its seams do not matter.
    struct iovec iov[3] = {{out, want / 3}, {NULL, 0}, {out + want / 3, want - want / 3}};
    int err = l->refuse ? bt_server_drop(l->server, l->now, handle, txq)
                        : bt_server_reply(l->server, l->now, handle, iov, 3, txq);
    free(out);
    assert_int_equal(err, 0);
}

static void on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct lab *l = arg;
    uint8_t *body = malloc(rq->msg.len + 1);
    assert_int_equal(bt_msg_copy(&rq->msg, body, rq->msg.len + 1), rq->msg.len);
    l->executed++;
    l->last_request = *rq;
    for (uint32_t i = 7; i < rq->msg.len; i++) {
        if (body[i] != pattern(i, body[6])) {
            fail_msg("seed %llu: request byte %u of %u is wrong", (unsigned long long)l->seed, i, rq->msg.len);
        }
    }
    if (rq->msg.len >= 7 && ++l->executed_of[bt_get16(body + 4)] > 1) {
        fail_msg("seed %llu: call %u ran twice (R-26)", (unsigned long long)l->seed, bt_get16(body + 4));
    }
    if (l->service_ns == 0 && !l->hold) {
        answer(l, rq->handle, body, rq->msg.len, txq);
        free(body);
        return;
    }
    l->waiting[l->waitings] = rq->handle;
    l->waiting_body[l->waitings] = body;
    l->waiting_len[l->waitings] = rq->msg.len;
    l->waiting_at[l->waitings++] = l->now + l->service_ns;
}

static bool on_admit(void *arg)
{
    return ((struct lab *)arg)->admit;
}

// --- set-up -------------------------------------------------------------------

void lab_init(struct lab *l, uint64_t seed)
{
    memset(l, 0, sizeof *l);
    l->seed = seed;
    bt_rng_seed(&l->rng, seed);
    l->now = 5 * SEC;
    l->admit = true;
    l->caddr = bt_addr_v4u(0x0a000001, 40000);
    l->saddr = bt_addr_v4u(0x0a000002, 8000);
    l->raddr = bt_addr_v4u(0x0a000003, 8000);
    l->rfeedback = bt_addr_v4u(0x0a000003, 9000);
    struct bt_rpc_timers timers = bt_rpc_timers_for(BT_DEVICE_SRIOV);
    l->ccfg = (struct bt_client_cfg){.mtu = 1500,
                                     .max_pending = 64,
                                     .max_assemblies = 16,
                                     .max_message = 1u << 20,
                                     .extensions = true,
                                     .timers = timers,
                                     .seed = seed};
    l->scfg = (struct bt_server_cfg){.mtu = 1500,
                                     .n = 4,
                                     .feedback_port = 9000,
                                     .max_pending = 64,
                                     .max_assemblies = 16,
                                     .max_done = 256,
                                     .max_held = 16,
                                     .max_message = 1u << 20,
                                     .incarnation = 77,
                                     .timers = timers,
                                     .seed = {seed, ~seed}};
}

void lab_start(struct lab *l)
{
    uint32_t packets = 16384;
    l->pool_mem = aligned_alloc(64, (bt_pool_fixed_bytes(packets) + 63) / 64 * 64);
    struct bt_pool *pool = bt_pool_fixed_init(&l->pool, l->pool_mem, packets);
    l->flight_cap = packets;
    l->flight = malloc(packets * sizeof *l->flight);
    l->ccfg.local = l->caddr;
    l->ccfg.pool = pool;
    l->ccfg.ops = (struct bt_client_ops){on_success, on_timeout, on_error, l};
    l->scfg.local = l->saddr;
    l->scfg.pool = pool;
    l->scfg.ops = (struct bt_server_ops){on_request, on_admit, l, l->on_cancel};
    l->client_bytes = bt_client_bytes(&l->ccfg);
    l->server_bytes = bt_server_bytes(&l->scfg);
    l->client_mem = aligned_alloc(64, l->client_bytes);
    l->server_mem = aligned_alloc(64, l->server_bytes);
    l->client = bt_client_init(&l->ccfg, l->client_mem, l->client_bytes, l->now);
    l->server = bt_server_init(&l->scfg, l->server_mem, l->server_bytes, l->now);
    assert_non_null(l->client);
    assert_non_null(l->server);
    if (l->path != LAB_DIRECT) {
        struct bt_txq txq;
        struct bt_server_router r = {.request = l->raddr, .feedback = l->rfeedback};
        bt_txq_init(&txq);
        assert_int_equal(bt_server_set_routers(l->server, l->now, &r, 1, &txq), 0);
        lab_transmit(l, &txq);
    }
}

void lab_flush(struct lab *l)
{
    while (l->flights) {
        bt_pool_put(&l->pool.pool, l->flight[--l->flights].pkt);
    }
}

void lab_end(struct lab *l)
{
    struct bt_txq txq;
    lab_flush(l);
    for (int i = 0; i < l->waitings; i++) {
        bt_txq_init(&txq);
        bt_server_drop(l->server, l->now, l->waiting[i], &txq);
        bt_pool_put_chain(&l->pool.pool, txq.head);
        free(l->waiting_body[i]);
    }
    bt_client_close(l->client, l->now);
    // Everything the server still keeps goes within the longest timer.
    for (int i = 0; i < 400; i++) {
        bt_txq_init(&txq);
        l->now += 10 * MS;
        bt_server_tick(l->server, l->now, &txq);
        bt_pool_put_chain(&l->pool.pool, txq.head);
    }
    if (l->pool.left != l->pool.count) {
        fail_msg("seed %llu: %u packets leaked", (unsigned long long)l->seed, l->pool.count - l->pool.left);
    }
    assert_int_equal(bt_server_backlog(l->server), 0);
    assert_int_equal(bt_client_pending(l->client), 0);
    free(l->flight);
    free(l->pool_mem);
    free(l->client_mem);
    free(l->server_mem);
}

// --- network ------------------------------------------------------------------

static bool chance(struct lab *l, uint32_t per_mille)
{
    return per_mille && bt_rng_below(&l->rng, 1000) < per_mille;
}

static void launch(struct lab *l, struct bt_pkt *pkt, enum lab_kind k)
{
    assert_true(l->flights < l->flight_cap);
    uint64_t at = l->now + DEFAULT_DELAY;
    if (chance(l, l->faults.delay[k])) {
        at += 1 + bt_rng_next(&l->rng) % l->faults.delay_ns;
        l->delayed++;
    }
    l->flight[l->flights++] = (struct lab_flight){pkt, at, l->order++};
}

static struct bt_pkt *copy_of(struct lab *l, const struct bt_pkt *pkt)
{
    struct bt_pkt *c = bt_pool_get(&l->pool.pool);
    assert_non_null(c);
    memcpy(bt_pkt_append(c, pkt->len), pkt->data, pkt->len);
    c->src = pkt->src;
    c->dst = pkt->dst;
    return c;
}

void lab_transmit(struct lab *l, struct bt_txq *txq)
{
    uint32_t burst = 0;
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(txq));) {
        struct bt_r2p2_hdr h;
        enum bt_mcase m = bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ANY, &h);
        assert_int_equal(m, BT_M_OK);
        assert_true(pkt->len <= bt_r2p2_datagram_max(1500, bt_addr_is_v4(&pkt->dst)));
        enum lab_kind k = kind_of(&h);
        l->sent[k]++;
        burst++;
        if (l->spy) {
            l->spy(l, pkt, &h);
        }
        if (chance(l, l->faults.duplicate[k])) {
            launch(l, copy_of(l, pkt), k);
            l->duplicated++;
        }
        if (chance(l, l->faults.lose[k])) {
            bt_pool_put(&l->pool.pool, pkt);
            l->lost++;
            continue;
        }
        launch(l, pkt, k);
    }
    if (burst > l->largest_burst) {
        l->largest_burst = burst;
    }
}

// The router of the lab: forwards REQ0 in the lab's path mode, no policy.
static void route(struct lab *l, struct bt_pkt *pkt)
{
    struct bt_r2p2_hdr h;
    assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_REQUESTS, &h), BT_M_OK);
    struct bt_options add = {0};
    if (l->path == LAB_ENCAPSULATED) {
        add.present = BT_HAS_FORWARDED;
        add.forwarded = pkt->src;
        pkt->src = l->raddr;
    } else {
        add.present = BT_HAS_ROUTER;
        add.router_id = bt_router_id(&l->raddr);
    }
    if (l->router_key.id) {
        add.present |= BT_HAS_TAG;
        add.key_id = l->router_key.id;
    }
    pkt->dst = l->saddr;
    assert_true(bt_r2p2_add_options(pkt, &h, &add));
    if (l->router_key.id) {
        bt_tag_sign(pkt->data, pkt->len, &h, &l->router_key, &pkt->src, &pkt->dst);
    }
    // No fault here: the client's hop had its chance.
    l->flight[l->flights++] = (struct lab_flight){pkt, l->now + DEFAULT_DELAY, l->order++};
}

static void note_feedback(struct lab *l, struct bt_pkt *pkt)
{
    if (l->feedbacks < LAB_FEEDBACKS) {
        int i = l->feedbacks++;
        assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ROUTER_FEEDBACK, &l->feedback_hdr[i]), BT_M_OK);
        assert_int_equal(
            bt_feedback_decode(l->feedback_hdr[i].payload, l->feedback_hdr[i].payload_len, &l->feedback[i]), BT_M_OK);
        l->feedback_to[i] = pkt->dst;
    }
    bt_pool_put(&l->pool.pool, pkt);
}

static void deliver(struct lab *l, struct bt_pkt *pkt)
{
    struct bt_txq txq;
    bt_txq_init(&txq);
    pkt->t_rx_ns = l->now;
    if (bt_addr_eq(&pkt->dst, &l->caddr)) {
        bt_client_rx(l->client, l->now, pkt, &txq);
    } else if (bt_addr_eq(&pkt->dst, &l->saddr)) {
        bt_server_rx(l->server, l->now, pkt, &txq);
    } else if (pkt->dst.port == 9000) {
        note_feedback(l, pkt);
    } else if (bt_addr_eq(&pkt->dst, &l->raddr) && l->path != LAB_DIRECT) {
        route(l, pkt);
    } else {
        bt_pool_put(&l->pool.pool, pkt); // somebody who does not exist
    }
    lab_transmit(l, &txq);
}

static void inject(struct lab *l, const void *bytes, size_t n, const struct bt_addr *src, const struct bt_addr *dst)
{
    struct bt_pkt *pkt = bt_pool_get(&l->pool.pool);
    memcpy(bt_pkt_append(pkt, (uint32_t)n), bytes, n);
    pkt->src = *src;
    pkt->dst = *dst;
    deliver(l, pkt);
}

void lab_inject_client(struct lab *l, const void *bytes, size_t n, const struct bt_addr *src)
{
    inject(l, bytes, n, src, &l->caddr);
}

void lab_inject_server(struct lab *l, const void *bytes, size_t n, const struct bt_addr *src)
{
    inject(l, bytes, n, src, &l->saddr);
}

// --- running ------------------------------------------------------------------

int lab_call_with(struct lab *l, struct bt_request *rq, uint32_t len, uint32_t reply)
{
    assert_true(l->calls < LAB_CALLS);
    struct lab_call *c = &l->call[l->calls];
    uint8_t head[7];
    c->salt = (uint8_t)(l->calls * 37 + 1);
    bt_put32(head, reply);
    bt_put16(head + 4, (uint16_t)l->calls);
    head[6] = c->salt;
    uint8_t *body = malloc(len + 1);
    fill(body, len, c->salt);
    memcpy(body, head, len < 7 ? len : 7);
    if (len < 7) {
        c->salt = 0;
    }
    c->want_reply = len >= 4 ? reply : len;
    struct iovec iov[2] = {{body, len / 2}, {body + len / 2, len - len / 2}};
    rq->iov = iov;
    rq->iovcnt = 2;
    rq->cookie = (uint64_t)l->calls;
    rq->dst = l->path == LAB_DIRECT ? l->saddr : l->raddr;
    struct bt_txq txq;
    bt_txq_init(&txq);
    int id = l->try_send ? bt_client_try_send(l->client, l->now, rq, &txq, &l->retry_ns)
                         : bt_client_send(l->client, l->now, rq, &txq);
    free(body);
    lab_transmit(l, &txq);
    return id < 0 ? id : l->calls++;
}

int lab_call(struct lab *l, uint32_t len, uint32_t reply, uint64_t timeout_ns)
{
    struct bt_request rq = {.timeout_ns = timeout_ns};
    return lab_call_with(l, &rq, len, reply);
}

static void answer_due(struct lab *l, bool all)
{
    struct bt_txq txq;
    bt_txq_init(&txq);
    for (int i = 0; i < l->waitings;) {
        if (!all && (l->hold || l->waiting_at[i] > l->now)) {
            i++;
            continue;
        }
        uint8_t *body = l->waiting_body[i];
        uint64_t handle = l->waiting[i];
        uint32_t len = l->waiting_len[i];
        l->waitings--;
        l->waiting[i] = l->waiting[l->waitings];
        l->waiting_body[i] = l->waiting_body[l->waitings];
        l->waiting_len[i] = l->waiting_len[l->waitings];
        l->waiting_at[i] = l->waiting_at[l->waitings];
        answer(l, handle, body, len, &txq);
        free(body);
    }
    lab_transmit(l, &txq);
}

void lab_answer_all(struct lab *l)
{
    answer_due(l, true);
}

static bool all_ended(const struct lab *l)
{
    for (int i = 0; i < l->calls; i++) {
        if (l->call[i].ends == 0) {
            return false;
        }
    }
    return true;
}

static uint64_t next_event(const struct lab *l)
{
    uint64_t c = bt_client_next(l->client), s = bt_server_next(l->server), at = c < s ? c : s;
    for (uint32_t i = 0; i < l->flights; i++) {
        at = l->flight[i].at < at ? l->flight[i].at : at;
    }
    for (int i = 0; i < l->waitings && !l->hold; i++) {
        at = l->waiting_at[i] < at ? l->waiting_at[i] : at;
    }
    return at;
}

static void deliver_due(struct lab *l)
{
    for (;;) {
        uint32_t best = l->flights;
        for (uint32_t i = 0; i < l->flights; i++) {
            const struct lab_flight *f = &l->flight[i], *b = &l->flight[best];
            if (f->at <= l->now && (best == l->flights || f->at < b->at || (f->at == b->at && f->order < b->order))) {
                best = i;
            }
        }
        if (best == l->flights) {
            return;
        }
        struct bt_pkt *pkt = l->flight[best].pkt;
        l->flight[best] = l->flight[--l->flights];
        deliver(l, pkt);
    }
}

void lab_run(struct lab *l, uint64_t until)
{
    for (long steps = 0; until || !all_ended(l) || l->flights; steps++) {
        uint64_t at = next_event(l);
        if (until && (at > until || at == UINT64_MAX)) {
            l->now = until;
            return;
        }
        if (at == UINT64_MAX || steps > 2000000) {
            fail_msg("seed %llu: calls hang", (unsigned long long)l->seed);
        }
        if (at > l->now) {
            l->now = at;
        }
        struct bt_txq txq;
        bt_txq_init(&txq);
        bt_client_tick(l->client, l->now, &txq);
        bt_server_tick(l->server, l->now, &txq);
        lab_transmit(l, &txq);
        answer_due(l, false);
        deliver_due(l);
    }
}
