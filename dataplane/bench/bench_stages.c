// SPDX-License-Identifier: Apache-2.0
// Cycles an RPC spends in each stage of the router, by the processor's time-stamp counter. Packets are prepared before
// and taken away after the clock is read, a batch of 64 at a time; the two reads are shared by the batch. Load: 64
// workers, JBSQ(3), each round finishes 64 requests and brings 64 new ones, so that 0.7 are outstanding per worker
// when requests come and 1.7 when FEEDBACK does.
//   bench_stages [ROUNDS]      prints one JSON object: median cycles per RPC and stage, and the counter's rate
//
// request: bt_router_requests, everything in it. feedback: bt_router_feedback, everything in it.
// parse, decide, rewrite, forward: what bt_router_requests does with a plain request, by the same inline functions, but
// stage by stage, the whole batch through each. A second router does that; it must send the very same packets to the
// very same workers, or there are no figures. What FEEDBACK does is private to its file and stays one stage.
// index_chained, index_overlapped: the load index alone (FEEDBACK's update, a choice, a queue longer by one), each RPC
// on the index the last one changed, as in the router, or on eight of them in turn, so that one need not wait for the
// last. Most of either is waiting (docs/lab/performance.md).
// clock: an empty measurement, which is in each of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kept.h"
#include "router/forward.h"
#include "router/router.h"
#include "router/workers.h"

enum { WORKERS = 64, BATCH = 64, DEPTH = 3, START = WORKERS * 17 / 10, PACKETS = 4096, INDEXES = 8 };
enum stage { REQUEST, FEEDBACK, PARSE, DECIDE, REWRITE, FORWARD, CHAINED, OVERLAPPED, CLOCK, STAGES };
static const char *const names[STAGES] = {"request",       "feedback",         "parse", "decide", "rewrite", "forward",
                                          "index_chained", "index_overlapped", "clock"};

struct running { // a request at a worker
    uint32_t worker;
    uint16_t req_id;
};

struct bench {
    struct bt_router *r;
    void *router_memory, *pool_memory;
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
    uint64_t sent; // a digest of every packet that left, and of where to
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

// As bobtail-router: in hugepages where there are any.
static void *need_huge(size_t *bytes)
{
    const size_t huge = (size_t)2 << 20;
    *bytes = (*bytes + huge - 1) & ~(huge - 1);
    void *mem = aligned_alloc(huge, *bytes);
    if (mem == NULL) {
        abort();
    }
    (void)madvise(mem, *bytes, MADV_HUGEPAGE);
    return mem;
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
    b->pool_memory = need(bt_pool_fixed_bytes(PACKETS));
    b->pool = bt_pool_fixed_init(&b->fixed, b->pool_memory, PACKETS);
    struct bt_router_setup setup = {.pool = b->pool,
                                    .seed = 1,
                                    .max_members = WORKERS,
                                    .request_addr = bt_addr_v4u(0x0a000001, 8000),
                                    .feedback_addr = bt_addr_v4u(0x0a000001, 9000)};
    size_t bytes = bt_router_bytes(&setup);
    b->router_memory = need_huge(&bytes);
    b->r = bt_router_init(b->router_memory, bytes, &setup, b->now);
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

static void digest(struct bench *b, const struct bt_pkt *pkt, uint32_t w)
{
    uint64_t h = b->sent ^ w;
    for (uint32_t i = 0; i < pkt->len; i++) {
        h = (h ^ pkt->data[i]) * UINT64_C(0x100000001b3);
    }
    b->sent = (h ^ bt_addr_half(&pkt->src, 8) ^ pkt->src.port) * UINT64_C(0x100000001b3);
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
        digest(b, pkt, w);
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
    bt_router_requests(b->r, pkts, BATCH, &b->out);
    *spent = cycles() - start;
    take_away(b);
}

static bool bad_source(const struct bt_router *r, const struct bt_addr *src)
{
    return bt_addr_bad_source(src) || bt_addr_eq(src, &r->request_addr) || bt_addr_eq(src, &r->feedback_addr);
}

// A batch of plain requests in the four stages, false when one of them is not as simple as that.
struct staged {
    struct bt_router *r;
    struct bt_pkt *pkts[BATCH];
    uint32_t w[BATCH];
    struct pair_key key[BATCH];
};

static bool parse(struct staged *s)
{
    bool plain = s->r->held.n == 0 && !s->r->noted;
    for (unsigned i = 0; i < BATCH; i++) {
        router_watch_expect(s->r, &s->pkts[i]->src, bt_get16(s->pkts[i]->data + BT_R2P2_REQ_ID_AT));
    }
    for (unsigned i = 0; i < BATCH; i++) {
        struct bt_pkt *pkt = s->pkts[i];
        uint64_t now = router_clock(s->r, pkt->t_rx_ns);
        plain &= bt_r2p2_is_plain(pkt->data, pkt->len, BT_REQUEST) && !bad_source(s->r, &pkt->src) &&
                 pkt->len <= s->r->max_payload;
        router_note_arrival(s->r, now, pkt);
    }
    return plain;
}

static bool decide(struct staged *s)
{
    for (unsigned i = 0; i < BATCH; i++) {
        s->w[i] = router_choose(s->r);
        if (s->w[i] == BT_NO_WORKER) {
            return false;
        }
        bt_load_push(&s->r->load, s->w[i]);
    }
    return true;
}

static bool rewrite(struct staged *s)
{
    for (unsigned i = 0; i < BATCH; i++) {
        struct bt_pkt *pkt = s->pkts[i];
        const struct worker *worker = &s->r->worker[s->w[i]];
        if (!plain_fits(s->r, pkt, worker)) {
            return false;
        }
        s->key[i] = watch_key(&pkt->src, bt_get16(pkt->data + BT_R2P2_REQ_ID_AT), s->w[i]);
        address_plain(s->r, pkt, worker);
    }
    return true;
}

// count_forwarded without the queue, which is the decision's.
static void forward(struct staged *s, struct bt_txq *out)
{
    struct bt_router *r = s->r;
    for (unsigned i = 0; i < BATCH; i++) {
        struct bt_pkt *pkt = s->pkts[i];
        r->counter[BT_RC_FORWARDED]++;
        uint64_t index = router_count_sent(r, s->w[i]);
        if (r->hold != NULL) {
            bt_hist_slices_record(r->hold, r->now, r->now - pkt->t_rx_ns);
        }
        router_watch_start(r, s->key[i], (struct pair_sent){.since = pkt->t_rx_ns, .at = r->now, .index = index}, 0);
        bt_txq_push(out, pkt);
    }
}

static void time_stages(struct bench *b, uint64_t *spent[STAGES], uint32_t round)
{
    struct staged s = {.r = b->r};
    for (unsigned i = 0; i < BATCH; i++) {
        s.pkts[i] = request(b);
    }
    uint64_t at[5];
    at[0] = cycles();
    bool simple = parse(&s);
    at[1] = cycles();
    simple = simple && decide(&s);
    at[2] = cycles();
    simple = simple && rewrite(&s);
    at[3] = cycles();
    if (!simple) {
        fprintf(stderr, "bench_stages: a request is not as simple as the stages take it to be\n");
        exit(1);
    }
    forward(&s, &b->out);
    at[4] = cycles();
    for (unsigned i = 0; i < 4; i++) {
        spent[PARSE + i][round] = at[i + 1] - at[i];
    }
    take_away(b);
}

// A load index without its router: what FEEDBACK tells it, a choice, and the queue that gets longer by it.
struct index {
    struct bt_load load;
    uint32_t at[START], outstanding[WORKERS];
};

static void open_indexes(struct index *x, unsigned n)
{
    for (unsigned k = 0; k < n; k++) {
        bt_load_init(&x[k].load, 1);
        bt_load_bound(&x[k].load, true);
        for (uint32_t w = 0; w < WORKERS; w++) {
            bt_load_set(&x[k].load, w, 0, DEPTH);
        }
        for (uint32_t i = 0; i < START; i++) {
            uint32_t w = bt_jbsq(&x[k].load);
            bt_load_push(&x[k].load, w);
            x[k].at[i] = w;
            x[k].outstanding[w]++;
        }
    }
}

KEPT void time_index(struct index *x, unsigned n, struct bt_rng *rng, uint64_t *spent)
{
    uint32_t pick[BATCH];
    for (unsigned i = 0; i < BATCH; i++) {
        pick[i] = bt_rng_below(rng, START);
    }
    uint64_t start = cycles();
    for (unsigned i = 0; i < BATCH; i++) {
        struct index *one = &x[i & (n - 1)];
        uint32_t *at = &one->at[pick[i]];
        bt_load_move(&one->load, *at, --one->outstanding[*at]);
        *at = bt_jbsq(&one->load);
        bt_load_push(&one->load, *at);
        one->outstanding[*at]++;
    }
    *spent = cycles() - start;
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

static void start(struct bench *b)
{
    open_bench(b);
    for (uint32_t i = 0; i < START; i++) {
        bt_router_request(b->r, b->now, request(b), &b->out);
    }
    take_away(b);
}

static void close_bench(struct bench *b)
{
    free(b->router_memory);
    free(b->pool_memory);
    free(b);
}

static void measure_router(struct bench *b, uint64_t *spent[STAGES], uint32_t rounds, bool apart)
{
    start(b);
    for (uint32_t i = 0; i < rounds; i++) {
        b->now = nanoseconds();
        time_feedback(b, &spent[FEEDBACK][i]);
        if (apart) {
            time_stages(b, spent, i);
        } else {
            time_requests(b, &spent[REQUEST][i]);
        }
        bt_router_tick(b->r, b->now, &b->out);
        take_away(b);
    }
    if (b->at_n != START) {
        fprintf(stderr, "bench_stages: %u requests are at the workers instead of %u\n", b->at_n, (unsigned)START);
        exit(1);
    }
}

static void measure_index(uint64_t *spent[STAGES], uint32_t rounds)
{
    struct index *x = need(INDEXES * sizeof *x);
    struct bt_rng rng;
    bt_rng_seed(&rng, 1);
    open_indexes(x, INDEXES);
    for (uint32_t i = 0; i < rounds; i++) {
        time_index(x, 1, &rng, &spent[CHAINED][i]);
        time_index(x, INDEXES, &rng, &spent[OVERLAPPED][i]);
        uint64_t begun = cycles();
        spent[CLOCK][i] = cycles() - begun;
    }
    free(x);
}

// Stage by stage first: its FEEDBACK is timed as well, and then overwritten by that of the whole.
static void measure(uint64_t *spent[STAGES], uint32_t rounds)
{
    struct bench *apart = need(sizeof *apart), *whole = need(sizeof *whole);
    measure_router(apart, spent, rounds, true);
    measure_router(whole, spent, rounds, false);
    if (apart->sent != whole->sent) {
        fprintf(stderr,
                "bench_stages: the stages do not send what bt_router_requests sends; put request.c's path here\n");
        exit(1);
    }
    close_bench(apart);
    close_bench(whole);
    measure_index(spent, rounds);
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 20000;
    uint64_t *spent[STAGES];
    if (rounds < 1) {
        fprintf(stderr, "usage: bench_stages [ROUNDS]\n");
        return 2;
    }
    for (unsigned s = 0; s < STAGES; s++) {
        spent[s] = need(rounds * sizeof *spent[s]);
    }
    uint64_t ns = nanoseconds(), tsc = cycles();
    measure(spent, rounds);
    double per_ns = (double)(cycles() - tsc) / (double)(nanoseconds() - ns), rpc = 0;
    printf("{");
    for (unsigned s = 0; s < STAGES; s++) {
        double of = median(spent[s], rounds);
        rpc += s == REQUEST || s == FEEDBACK ? of : 0;
        printf("\"%s\": %.1f, ", names[s], of);
        free(spent[s]);
    }
    printf("\"rpc\": %.1f, \"cyclesPerNanosecond\": %.4f}\n", rpc, per_ns);
    return 0;
}
