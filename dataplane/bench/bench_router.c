// SPDX-License-Identifier: Apache-2.0
// What a decision and a FEEDBACK cost, without packets and with them, at load 0.95 and JBSQ(3). Alone it prints ns per
// pair; under callgrind with --toggle-collect=one_decision (or one_credit, one_packet_pair) instructions are counted.
//   bench_router WORKERS [PAIRS]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "router/internal.h"

struct bench {
    struct bt_router *r;
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    struct bt_addr members[BT_ROUTER_MEMBERS_MAX];
    uint64_t received[BT_ROUTER_MEMBERS_MAX], served[BT_ROUTER_MEMBERS_MAX];
    uint32_t busy[BT_ROUTER_MEMBERS_MAX * 4]; /* workers with a request, one entry each */
    uint32_t busy_n, workers;
    struct bt_rng rng;
    uint64_t now;
    uint16_t id;
};

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* callgrind counts these functions by name, so they must stay one function each; clang never clones. */
#if defined(__clang__)
#define KEPT_WHOLE __attribute__((noinline))
#else
#define KEPT_WHOLE __attribute__((noinline, noclone))
#endif

/* The decision proper: choose, count the request; later take the completion. */
KEPT_WHOLE static uint32_t one_decision(struct bt_load *load, uint32_t finished)
{
    bt_load_set(load, finished, load->worker[finished].outstanding - 1u, 3);
    uint32_t w = bt_pick_jbsq(load);
    if (w != BT_NO_WORKER) {
        bt_load_set(load, w, load->worker[w].outstanding + 1u, 3);
    }
    return w;
}

/* The same with the credit accounting of an extended FEEDBACK in order. */
KEPT_WHOLE static uint32_t one_credit(struct bt_router *r, uint32_t finished, const struct bt_credit_report *report,
                                      uint64_t now)
{
    bt_credit_report(&r->credit[finished], report, router_sent(r, finished), now, r->timers.loss_ns);
    bt_credit_settle(&r->credit[finished], router_sent(r, finished));
    router_refresh(r, finished);
    uint32_t w = r->balancer->pick(&r->load);
    if (w != BT_NO_WORKER) {
        atomic_store_explicit(&r->sent[w], router_sent(r, w) + 1u, memory_order_relaxed);
        router_refresh(r, w);
    }
    return w;
}

static struct bt_pkt *packet(struct bench *b, const struct bt_addr *from, const uint8_t *bytes, uint32_t len)
{
    struct bt_pkt *pkt = bt_pool_get(b->pool);
    if (pkt == NULL) {
        abort();
    }
    memcpy(bt_pkt_append(pkt, len), bytes, len);
    pkt->src = *from;
    pkt->t_rx_ns = b->now;
    return pkt;
}

static struct bt_pkt *feedback(struct bench *b, uint32_t w, uint8_t flags)
{
    uint8_t bytes[64];
    struct bt_r2p2_hdr hdr = {.type = BT_FEEDBACK, .first = true, .last = true, .ext = true, .count_or_index = 1};
    size_t len = bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    struct bt_feedback fb = {
        .version = 1, .flags = flags, .n = 3, .incarnation = 1, .received = b->received[w], .served = b->served[w]};
    len += bt_feedback_encode(bytes + len, sizeof bytes - len, &fb);
    return packet(b, &b->members[w], bytes, (uint32_t)len);
}

static struct bt_pkt *request(struct bench *b)
{
    static const struct bt_addr client = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 99}, 33000, 0};
    uint8_t bytes[16] = {0};
    struct bt_r2p2_hdr hdr = {
        .type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = b->id++, .count_or_index = 1};
    bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    return packet(b, &client, bytes, sizeof bytes);
}

/* One FEEDBACK and one request as packets, parsing and rewriting included. */
KEPT_WHOLE static void one_packet_pair(struct bench *b, struct bt_pkt *fb, struct bt_pkt *req, struct bt_txq *out)
{
    bt_router_feedback(b->r, b->now, fb, out);
    bt_router_request(b->r, b->now, req, out);
}

static void *need(size_t bytes)
{
    void *mem = aligned_alloc(64, (bytes + 63u) & ~(size_t)63u);
    if (mem == NULL) {
        abort();
    }
    return mem;
}

static void open_bench(struct bench *b, uint32_t workers)
{
    memset(b, 0, sizeof *b);
    b->workers = workers;
    b->now = SECOND;
    bt_rng_seed(&b->rng, 1);
    b->pool = bt_pool_fixed_init(&b->fixed, need(bt_pool_fixed_bytes(8192)), 8192);
    struct bt_router_setup setup = {.pool = b->pool,
                                    .seed = 1,
                                    .max_members = workers,
                                    .no_histograms = true,
                                    .request_addr = bt_addr_v4u(0x0a000001, 8000),
                                    .feedback_addr = bt_addr_v4u(0x0a000001, 9000)};
    size_t bytes = bt_router_bytes(&setup);
    b->r = bt_router_init(need(bytes), bytes, &setup, b->now);
    for (uint32_t w = 0; w < workers; w++) {
        b->members[w] = bt_addr_v4u(0x0a010000 + w / 4u, (uint16_t)(8000 + w % 4u));
    }
    struct bt_router_config c = {.depth = 3,
                                 .central_limit = 4096,
                                 .max_queue_ns = 600 * SECOND,
                                 .request_timeout_ns = SECOND,
                                 .members = b->members,
                                 .members_n = workers};
    if (b->r == NULL || !bt_router_apply(b->r, b->now, &c, NULL)) {
        abort();
    }
    struct bt_txq out;
    bt_txq_init(&out);
    for (uint32_t w = 0; w < workers; w++) {
        bt_router_feedback(b->r, b->now, feedback(b, w, BT_FEEDBACK_JOIN), &out);
    }
}

static void now_busy(struct bench *b, uint32_t w)
{
    if (w != BT_NO_WORKER) {
        b->received[w]++;
        b->busy[b->busy_n++] = w;
    }
}

static uint32_t finish_one(struct bench *b)
{
    uint32_t i = bt_rng_below(&b->rng, b->busy_n);
    uint32_t w = b->busy[i];
    b->busy[i] = b->busy[--b->busy_n];
    b->served[w]++;
    return w;
}

static void drain(struct bench *b, struct bt_txq *out)
{
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(out)) != NULL) {
        now_busy(b, router_find(b->r, &pkt->dst));
        bt_pool_put(b->pool, pkt);
    }
}

/* Fills the pool to load 0.95: as many requests as keep all but one worker in twenty busy with one or two each. */
static void fill(struct bench *b)
{
    struct bt_txq out;
    bt_txq_init(&out);
    for (uint32_t i = 0; i < b->workers + b->workers * 95u / 200u; i++) {
        bt_router_request(b->r, b->now, request(b), &out);
        drain(b, &out);
    }
}

static void run_decisions(struct bench *b, uint32_t pairs)
{
    uint64_t start = nanoseconds();
    for (uint32_t i = 0; i < pairs; i++) {
        now_busy(b, one_decision(&b->r->load, finish_one(b)));
    }
    printf("decision             %8.1f ns\n", (double)(nanoseconds() - start) / pairs);
}

static void run_credits(struct bench *b, uint32_t pairs)
{
    uint64_t start = nanoseconds();
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t w = finish_one(b);
        b->now += 1000;
        struct bt_credit_report report = {b->received[w], b->served[w], 1};
        now_busy(b, one_credit(b->r, w, &report, b->now));
    }
    printf("decision + credit    %8.1f ns\n", (double)(nanoseconds() - start) / pairs);
}

static void run_packets(struct bench *b, uint32_t pairs)
{
    uint64_t spent = 0;
    struct bt_txq out;
    bt_txq_init(&out);
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t w = finish_one(b);
        b->now += 1000;
        struct bt_pkt *fb = feedback(b, w, 0), *req = request(b);
        uint64_t start = nanoseconds();
        one_packet_pair(b, fb, req, &out);
        spent += nanoseconds() - start;
        drain(b, &out);
        bt_router_tick(b->r, b->now, &out);
    }
    printf("FEEDBACK + REQ0      %8.1f ns (clock reads included)\n", (double)spent / pairs);
}

int main(int argc, char **argv)
{
    uint32_t workers = argc > 1 ? (uint32_t)atoi(argv[1]) : 16;
    uint32_t pairs = argc > 2 ? (uint32_t)atoi(argv[2]) : 200000;
    if (workers < 1 || workers > BT_ROUTER_MEMBERS_MAX || pairs < 1) {
        fprintf(stderr, "usage: bench_router [WORKERS 1..1024] [PAIRS]\n");
        return 2;
    }
    struct bench *b = need(sizeof *b);
    printf("%u workers, JBSQ(3), load 0.95, %u pairs\n", workers, pairs);
    open_bench(b, workers);
    fill(b);
    run_packets(b, pairs);
    run_credits(b, pairs);
    run_decisions(b, pairs); /* last: it no longer tells the router */
    return 0;
}
