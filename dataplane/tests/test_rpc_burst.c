// SPDX-License-Identifier: Apache-2.0
// Packets taken in bursts do what they do one by one: two servers get the same, and must hand over, send and count the
// same. Between usual requests come those of several packets, duplicates, forwarded ones, and bytes of any kind.
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "rpc/server.h"
#include "wire/r2p2.h"

enum { PACKETS = 4096, BURST_MOST = 40, ROUNDS = 60, SEEN_MOST = 1 << 18 };

struct one {
    struct bt_pool_fixed pool;
    void *pool_mem, *server_mem;
    struct bt_server *server;
    struct bt_rng rng; // what its application does
    uint64_t held[8];
    unsigned n_held;
    uint64_t now;
    uint8_t seen[SEEN_MOST]; // what was handed over and sent, as bytes
    size_t n_seen;
};

static void see(struct one *o, const void *bytes, size_t n)
{
    assert_true(o->n_seen + n <= SEEN_MOST);
    memcpy(o->seen + o->n_seen, bytes, n);
    o->n_seen += n;
}

static void reply(struct one *o, uint64_t handle, struct bt_txq *txq)
{
    static uint8_t bytes[3000];
    struct iovec iov = {bytes, bt_rng_below(&o->rng, 8) == 0 ? sizeof bytes : 8};
    see(o, &handle, sizeof handle);
    (void)bt_server_reply(o->server, o->now, handle, &iov, 1, txq);
}

static void on_request(void *arg, const struct bt_server_request *rq, struct bt_txq *txq)
{
    struct one *o = arg;
    see(o, &rq->client, sizeof rq->client);
    see(o, &rq->req_id, sizeof rq->req_id);
    see(o, &rq->msg.len, sizeof rq->msg.len);
    if (o->n_held < 8 && bt_rng_below(&o->rng, 4) == 0) {
        o->held[o->n_held++] = rq->handle;
        return;
    }
    reply(o, rq->handle, txq);
}

static void sent(struct one *o, struct bt_txq *txq)
{
    for (struct bt_pkt *p; (p = bt_txq_pop(txq)) != NULL;) {
        see(o, &p->dst, sizeof p->dst);
        see(o, p->data, p->len);
        bt_pool_put(&o->pool.pool, p);
    }
}

static void begin(struct one *o, uint64_t seed, bool routed)
{
    struct bt_txq txq;
    o->pool_mem = malloc(bt_pool_fixed_bytes(PACKETS));
    bt_pool_fixed_init(&o->pool, o->pool_mem, PACKETS);
    bt_rng_seed(&o->rng, seed);
    o->now = 1000;
    struct bt_server_cfg cfg = {.local = bt_addr_v4u(0x0a000002, 8000),
                                .mtu = 1500,
                                .n = 64,
                                .feedback_port = 9000,
                                .max_pending = 64,
                                .max_assemblies = 8,
                                .max_done = 128,
                                .max_held = 16,
                                .max_message = 65536,
                                .incarnation = 7,
                                .timers = bt_rpc_timers_for(BT_DEVICE_KERNEL),
                                .seed = {seed, 2},
                                .pool = &o->pool.pool,
                                .ops = {.on_request = on_request, .arg = o}};
    size_t bytes = bt_server_bytes(&cfg);
    o->server_mem = calloc(1, bytes);
    o->server = bt_server_init(&cfg, o->server_mem, bytes, o->now);
    bt_txq_init(&txq);
    struct bt_server_router r = {.request = bt_addr_v4u(0x0a000001, 7000), .feedback = bt_addr_v4u(0x0a000001, 9000)};
    if (routed) {
        assert_int_equal(bt_server_set_routers(o->server, o->now, &r, 1, &txq), 0);
    }
    sent(o, &txq);
    o->n_seen = 0;
}

static void end(struct one *o)
{
    free(o->server_mem);
    free(o->pool_mem);
    free(o);
}

/* A packet as the network may bring it: mostly requests, of few clients and few numbers, so that many come again. */
static uint32_t draw(struct bt_rng *rng, uint8_t *p, struct bt_addr *src)
{
    struct bt_r2p2_hdr h;
    bt_r2p2_start(&h, BT_REQUEST, bt_rng_below(rng, 20) == 0 ? 9 : 0, bt_rng_below(rng, 4) != 0);
    *src = bt_addr_v4u(0x0a000010 + (uint32_t)bt_rng_below(rng, 3), (uint16_t)(40000 + bt_rng_below(rng, 2)));
    h.req_id = (uint16_t)bt_rng_below(rng, 400);
    h.last = bt_rng_below(rng, 8) != 0;
    h.count_or_index = h.last ? 1 : 2;
    if (bt_rng_below(rng, 12) == 0) {
        h.first = false;
        h.last = true;
    }
    if (bt_rng_below(rng, 3) == 0) {
        h.ext = true;
        h.opt.present = BT_HAS_FORWARDED;
        h.opt.forwarded = *src;
        *src = bt_addr_v4u(bt_rng_below(rng, 8) == 0 ? 0x0a000077 : 0x0a000001, 7000);
    }
    uint32_t n = (uint32_t)bt_r2p2_encode(p, 64, &h), body = h.first && !h.last ? 14 : bt_rng_below(rng, 30);
    assert_true(n != 0);
    memset(p + n, (int)bt_rng_below(rng, 3), body);
    n += body;
    if (bt_rng_below(rng, 10) == 0) {
        p[bt_rng_below(rng, n)] ^= (uint8_t)(1u << bt_rng_below(rng, 8));
    }
    return bt_rng_below(rng, 20) == 0 ? bt_rng_below(rng, n + 1) : n;
}

static struct bt_pkt *made(struct one *o, const uint8_t *bytes, uint32_t n, const struct bt_addr *src, uint64_t t)
{
    struct bt_pkt *p = bt_pool_get(&o->pool.pool);
    assert_non_null(p);
    memcpy(bt_pkt_append(p, n), bytes, n);
    p->src = *src;
    p->dst = bt_addr_v4u(0x0a000002, 8000);
    p->t_rx_ns = t;
    return p;
}

static void later(struct one *o, uint64_t now)
{
    struct bt_txq txq;
    bt_txq_init(&txq);
    o->now = now;
    while (o->n_held != 0 && bt_rng_below(&o->rng, 2) == 0) {
        reply(o, o->held[--o->n_held], &txq);
    }
    bt_server_tick(o->server, now, &txq);
    sent(o, &txq);
}

static void same(const struct one *a, const struct one *b, unsigned seed)
{
    if (a->n_seen != b->n_seen || memcmp(a->seen, b->seen, a->n_seen) != 0) {
        fail_msg("seed %u: what was handed over and sent differs", seed);
    }
    for (unsigned i = 0; i < BT_SERVER_COUNTERS; i++) {
        uint64_t x = bt_server_counters(a->server)[i], y = bt_server_counters(b->server)[i];
        if (x != y) {
            fail_msg("seed %u: counter %u is %llu one by one and %llu in bursts", seed, i, (unsigned long long)x,
                     (unsigned long long)y);
        }
    }
    assert_int_equal(a->pool.left, b->pool.left);
}

static void one_round(struct bt_rng *rng, struct one *a, struct one *b, uint64_t *now)
{
    struct bt_pkt *burst[BURST_MOST];
    unsigned n = (unsigned)bt_rng_below(rng, BURST_MOST + 1);
    struct bt_txq qa, qb;
    bt_txq_init(&qa);
    bt_txq_init(&qb);
    a->now = b->now = *now;
    for (unsigned i = 0; i < n; i++) {
        uint8_t bytes[2000];
        struct bt_addr src;
        uint32_t len = draw(rng, bytes, &src);
        *now += bt_rng_below(rng, 1000);
        struct bt_pkt *p = made(a, bytes, len, &src, *now);
        bt_server_rx(a->server, p->t_rx_ns, p, &qa);
        burst[i] = made(b, bytes, len, &src, *now);
    }
    bt_server_rx_burst(b->server, burst, n, &qb);
    sent(a, &qa);
    sent(b, &qb);
    *now += bt_rng_below(rng, 3000000);
    later(a, *now);
    later(b, *now);
}

static void bursts_do_what_packets_do_one_by_one(void **state)
{
    uint64_t requests = 0, duplicates = 0;
    (void)state;
    for (unsigned seed = 1; seed <= SEEDS(200); seed++) {
        struct one *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
        struct bt_rng rng;
        uint64_t now = 1000;
        bt_rng_seed(&rng, seed);
        begin(a, seed, seed % 4 != 0);
        begin(b, seed, seed % 4 != 0);
        for (unsigned i = 0; i < ROUNDS; i++) {
            one_round(&rng, a, b, &now);
            same(a, b, seed);
            a->n_seen = b->n_seen = 0;
        }
        requests += bt_server_counters(b->server)[BT_SERVER_REQUESTS];
        duplicates += bt_server_counters(b->server)[BT_SERVER_DUPLICATE];
        end(a);
        end(b);
    }
    assert_true(requests > 10000 && duplicates > 100); // something was tried
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_do_what_packets_do_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
