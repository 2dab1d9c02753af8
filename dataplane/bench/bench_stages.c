// SPDX-License-Identifier: Apache-2.0
// Cycles an RPC spends in each stage of the router, by the processor's time-stamp counter. Packets are prepared before
// and taken away after the clock is read, a batch of 64 at a time; the two reads are shared by the batch. Load: 64
// workers, JBSQ(3), each round finishes 64 requests and brings 64 new ones, so that 0.7 are outstanding per worker
// when requests come and 1.7 when FEEDBACK does.
//   bench_stages [ROUNDS]      prints one JSON object: median cycles per RPC and stage, and the counter's rate
//
// request: bt_router_request, everything in it. feedback: bt_router_feedback, everything in it. decide: the load index
// alone, a worker chosen, its queue longer and another's shorter; part of both. What is inlined and interleaved with
// the rest (parsing, rewriting) has no time of its own: a difference of two timings would come out negative.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "router/internal.h"

enum { WORKERS = 64, BATCH = 64, DEPTH = 3, START = WORKERS * 17 / 10, PACKETS = 4096 };
enum stage { REQUEST, FEEDBACK, DECIDE, STAGES };

struct running { // a request at a worker
    uint32_t worker;
    uint16_t req_id;
};

struct bench {
    struct bt_router *r;
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    struct bt_addr members[WORKERS];
    uint64_t received[WORKERS], served[WORKERS];
    uint32_t outstanding[WORKERS];
    struct running at[WORKERS * DEPTH + BATCH];
    uint32_t at_n;
    struct bt_rng rng;
    struct bt_txq out;
    uint64_t now;
    uint16_t id;
};

static const struct bt_addr client = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 99}, 33000, 0};

// Nothing before a stamp may drift behind it, nor the other way round.
static uint64_t cycles(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
    uint64_t t = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return t;
#else
    struct timespec t; // elsewhere a "cycle" is a nanosecond
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
#endif
}

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void *need(size_t bytes)
{
    void *mem = aligned_alloc(64, (bytes + 63u) & ~(size_t)63u);
    if (mem == NULL) {
        abort();
    }
    return memset(mem, 0, (bytes + 63u) & ~(size_t)63u);
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

static struct bt_pkt *request(struct bench *b)
{
    uint8_t bytes[72] = {0}; // 64 bytes of payload
    struct bt_r2p2_hdr hdr = {
        .type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = b->id++, .count_or_index = 1};
    bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    return packet(b, &client, bytes, sizeof bytes);
}

static struct bt_pkt *feedback(struct bench *b, uint32_t w, const struct running *pair)
{
    uint8_t bytes[64];
    struct bt_r2p2_hdr hdr = {.type = BT_FEEDBACK, .first = true, .last = true, .ext = true, .count_or_index = 1};
    size_t len = bt_r2p2_encode(bytes, sizeof bytes, &hdr);
    struct bt_feedback fb = {.version = 1,
                             .flags = pair != NULL ? BT_FEEDBACK_PAIR : BT_FEEDBACK_JOIN,
                             .n = DEPTH,
                             .incarnation = 1,
                             .received = b->received[w],
                             .served = b->served[w]};
    if (pair != NULL) {
        fb.client = client;
        fb.req_id = pair->req_id;
    }
    len += bt_feedback_encode(bytes + len, sizeof bytes - len, &fb);
    return packet(b, &b->members[w], bytes, (uint32_t)len);
}

static void open_bench(struct bench *b)
{
    b->now = nanoseconds();
    bt_rng_seed(&b->rng, 1);
    bt_txq_init(&b->out);
    b->pool = bt_pool_fixed_init(&b->fixed, need(bt_pool_fixed_bytes(PACKETS)), PACKETS);
    struct bt_router_setup setup = {.pool = b->pool,
                                    .seed = 1,
                                    .max_members = WORKERS,
                                    .request_addr = bt_addr_v4u(0x0a000001, 8000),
                                    .feedback_addr = bt_addr_v4u(0x0a000001, 9000)};
    size_t bytes = bt_router_bytes(&setup);
    b->r = bt_router_init(need(bytes), bytes, &setup, b->now);
    for (uint32_t w = 0; w < WORKERS; w++) {
        b->members[w] = bt_addr_v4u(0x0a010000 + w / 4u, (uint16_t)(8000 + w % 4u));
    }
    struct bt_router_config c = {.depth = DEPTH,
                                 .central_limit = 1024,
                                 .max_queue_ns = 600 * SECOND,
                                 .max_payload =
                                     bt_r2p2_datagram_max(1500, true), /* as bobtail-router; plain below it */
                                 .request_timeout_ns = SECOND,
                                 .members = b->members,
                                 .members_n = WORKERS};
    if (b->r == NULL || !bt_router_apply(b->r, b->now, &c, NULL)) {
        abort();
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        bt_router_feedback(b->r, b->now, feedback(b, w, NULL), &b->out);
    }
}

// Takes forwarded requests off the queue and notes where they went.
static void take_away(struct bench *b)
{
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(&b->out)) != NULL) {
        uint32_t w = router_find(b->r, &pkt->dst);
        if (w == BT_NO_WORKER || b->at_n == sizeof b->at / sizeof b->at[0]) {
            fprintf(stderr, "bench_stages: the router sent something that is no forwarded request\n");
            exit(1);
        }
        b->at[b->at_n++] = (struct running){w, (uint16_t)(pkt->data[4] << 8 | pkt->data[5])};
        b->received[w]++;
        b->outstanding[w]++;
        bt_pool_put(b->pool, pkt);
    }
}

static struct bt_pkt *finish_one(struct bench *b)
{
    uint32_t i = bt_rng_below(&b->rng, b->at_n);
    struct running pair = b->at[i];
    b->at[i] = b->at[--b->at_n];
    b->served[pair.worker]++;
    b->outstanding[pair.worker]--;
    return feedback(b, pair.worker, &pair);
}

static void time_feedback(struct bench *b, uint64_t *spent)
{
    struct bt_pkt *pkts[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        pkts[i] = finish_one(b);
    }
    uint64_t start = cycles();
    for (unsigned i = 0; i < BATCH; i++) {
        bt_router_feedback(b->r, b->now, pkts[i], &b->out);
    }
    *spent = cycles() - start;
}

static void time_requests(struct bench *b, uint64_t *spent)
{
    struct bt_pkt *pkts[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        pkts[i] = request(b);
    }
    uint64_t start = cycles();
    for (unsigned i = 0; i < BATCH; i++) {
        bt_router_request(b->r, b->now, pkts[i], &b->out);
    }
    *spent = cycles() - start;
    take_away(b);
}

// On the router's own index, whose router is not used any more.
static void time_decisions(struct bench *b, uint64_t *spent)
{
    uint32_t done[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        done[i] = b->at[i].worker;
    }
    uint64_t start = cycles();
    for (unsigned i = 0; i < BATCH; i++) {
        bt_load_move(&b->r->load, done[i], --b->outstanding[done[i]]);
        uint32_t w = bt_jbsq(&b->r->load);
        bt_load_push(&b->r->load, w);
        b->outstanding[w]++;
        done[i] = w;
    }
    *spent = cycles() - start;
    for (unsigned i = 0; i < BATCH; i++) {
        b->at[i].worker = b->at[b->at_n - BATCH + i].worker;
        b->at[b->at_n - BATCH + i].worker = done[i];
    }
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double median(uint64_t *v, uint32_t n)
{
    qsort(v, n, sizeof *v, ascending);
    return (double)v[n / 2] / BATCH;
}

static void measure(struct bench *b, uint64_t *spent[STAGES], uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++) {
        b->now = nanoseconds();
        time_feedback(b, &spent[FEEDBACK][i]);
        time_requests(b, &spent[REQUEST][i]);
        bt_router_tick(b->r, b->now, &b->out);
        take_away(b);
    }
    for (uint32_t i = 0; i < rounds; i++) {
        time_decisions(b, &spent[DECIDE][i]);
    }
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 20000;
    uint64_t *spent[STAGES];
    double of[STAGES];
    if (rounds < 1) {
        fprintf(stderr, "usage: bench_stages [ROUNDS]\n");
        return 2;
    }
    struct bench *b = need(sizeof *b);
    for (unsigned s = 0; s < STAGES; s++) {
        spent[s] = need(rounds * sizeof *spent[s]);
    }
    open_bench(b);
    for (uint32_t i = 0; i < START; i++) {
        bt_router_request(b->r, b->now, request(b), &b->out);
    }
    take_away(b);
    uint64_t ns = nanoseconds(), tsc = cycles();
    measure(b, spent, rounds);
    double per_ns = (double)(cycles() - tsc) / (double)(nanoseconds() - ns);
    if (b->at_n != START) {
        fprintf(stderr, "bench_stages: %u requests are at the workers instead of %u\n", b->at_n, (unsigned)START);
        return 1;
    }
    for (unsigned s = 0; s < STAGES; s++) {
        of[s] = median(spent[s], rounds);
    }
    printf("{\"request\": %.1f, \"feedback\": %.1f, \"decide\": %.1f, \"rpc\": %.1f, \"cyclesPerNanosecond\": %.4f}\n",
           of[REQUEST], of[FEEDBACK], of[DECIDE], of[REQUEST] + of[FEEDBACK], per_ns);
    return 0;
}
