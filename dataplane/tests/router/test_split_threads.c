// SPDX-License-Identifier: Apache-2.0
// The two halves of a router in two real threads without a pause: for the race detector, and that every credit
// and every pair comes back.
#include "router/split_bed.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS  4u
#define REQUESTS SEEDS(60000u)
#define WIRE     1024u
#define N        3u

#define ANSWER_NS UINT64_C(10000)

struct wired {
    uint32_t worker;
    uint16_t req_id;
};

struct run {
    struct bed b;
    struct split_bed t;
    struct bt_spsc_ends ends; /* the network from the router to the workers, which live in the FEEDBACK thread */
    struct wired wire[WIRE];
    _Atomic uint32_t answered;
    uint32_t most_owed;
};

/* Time goes on by what is answered: who lets a thread wait, or both, makes no request late and no worker silent. */
static uint64_t clock_ns(const struct run *r)
{
    return r->b.now + atomic_load_explicit(&r->answered, memory_order_relaxed) * ANSWER_NS;
}

static struct bt_pkt *request(struct run *r, uint16_t req_id)
{
    uint8_t bytes[64] = {0};
    struct bt_r2p2_hdr hdr = {
        .type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = req_id, .count_or_index = 1};
    size_t len = bt_r2p2_encode(bytes, sizeof bytes, &hdr) + 8u;
    struct bt_pkt *pkt = split_packet(&r->t, &r->b, false, &r->b.client, bytes, len);
    pkt->t_rx_ns = clock_ns(r);
    return pkt;
}

static void deliver(struct run *r)
{
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(&r->t.out)) != NULL) {
        uint32_t at, worker = pkt->dst.port - 8000u;
        while (!bt_spsc_room(&r->ends, &at)) {
            sched_yield();
        }
        r->wire[at] = (struct wired){worker, bt_get16(pkt->data + 4)};
        bt_spsc_filled(&r->ends);
        bt_pool_put(r->t.requests, pkt);
    }
}

static void *request_thread(void *arg)
{
    struct run *r = arg;
    uint32_t made = 0;
    struct bt_router *half = r->t.s;
    while (atomic_load_explicit(&r->answered, memory_order_acquire) < REQUESTS) {
        struct bt_pkt *pkts[16];
        unsigned n = 0;
        while (n < 16u && made < REQUESTS && half->held.n + n < 64u) {
            pkts[n++] = request(r, (uint16_t)made++);
        }
        bt_router_requests(r->t.s, pkts, n, &r->t.out);
        bt_router_tick(r->t.s, clock_ns(r), &r->t.out);
        deliver(r);
        if (n == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static struct bt_pkt *answer(struct run *r, const struct wired *to, uint64_t received, uint64_t served)
{
    struct bed_report report = {.received = received,
                                .served = served,
                                .n = N,
                                .incarnation = 1,
                                .flags = BT_FEEDBACK_PAIR,
                                .req_id = to->req_id};
    uint8_t bytes[128];
    size_t len = bed_feedback_make(&r->b, to->worker, &report, bytes);
    struct bt_pkt *pkt = split_packet(&r->t, &r->b, true, &r->b.members[to->worker], bytes, len);
    pkt->t_rx_ns = clock_ns(r);
    return pkt;
}

static void *feedback_thread(void *arg)
{
    struct run *r = arg;
    uint64_t received[WORKERS] = {0}, served[WORKERS] = {0};
    for (uint32_t answered = 0; answered < REQUESTS;) {
        struct bt_pkt *pkts[64u];
        uint32_t at, n = bt_spsc_waiting(&r->ends, &at);
        n = n < 64u ? n : 64u;
        for (uint32_t i = 0; i < n; i++) {
            const struct wired *to = &r->wire[(at + i) & (WIRE - 1u)];
            uint32_t owed = (uint32_t)(++received[to->worker] - served[to->worker]);
            r->most_owed = owed > r->most_owed ? owed : r->most_owed;
        }
        for (uint32_t i = 0; i < n; i++) {
            const struct wired *to = &r->wire[(at + i) & (WIRE - 1u)];
            pkts[i] = answer(r, to, received[to->worker], ++served[to->worker]);
        }
        bt_spsc_taken(&r->ends, n);
        bt_router_feedbacks(r->t.s, pkts, n, NULL);
        bt_router_feedback_tick(r->t.s, clock_ns(r));
        answered += n;
        atomic_store_explicit(&r->answered, answered, memory_order_release);
        if (n == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void join_workers(struct run *r)
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        struct bed_report report = {.n = N, .incarnation = 1, .flags = BT_FEEDBACK_JOIN};
        uint8_t bytes[128];
        size_t len = bed_feedback_make(&r->b, w, &report, bytes);
        struct bt_pkt *pkt = split_packet(&r->t, &r->b, true, &r->b.members[w], bytes, len);
        bt_router_feedbacks(r->t.s, &pkt, 1, NULL);
    }
}

/* no worker is ever given more than its n; R-141: at the end nothing is owed. */
static void run(uint32_t credits, uint32_t notes)
{
    static struct run r;
    pthread_t threads[2];
    memset(&r, 0, sizeof r);
    bed_defaults(&r.b, WORKERS, 8);
    split_open(&r.t, &r.b, 256, credits, notes);
    bt_spsc_ends_init(&r.ends, WIRE);
    join_workers(&r);
    assert_int_equal(pthread_create(&threads[0], NULL, feedback_thread, &r), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, request_thread, &r), 0);
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    bt_router_requests(r.t.s, NULL, 0, &r.t.out);
    struct bt_router_stats stats;
    bt_router_read_stats(r.t.s, clock_ns(&r), &stats);
    print_message("most at a worker %u, rescans %llu, notes without room %llu\n", r.most_owed,
                  (unsigned long long)stats.counter[BT_RC_CREDIT_RESCANS],
                  (unsigned long long)stats.counter[BT_RC_PAIRS_BEHIND]);
    assert_in_range(r.most_owed, 1, N);
    assert_int_equal(stats.counter[BT_RC_FORWARDED], REQUESTS);
    assert_int_equal(stats.outstanding, 0);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.counter[BT_RC_PAIRS_FINISHED] + stats.counter[BT_RC_PAIRS_BEHIND], REQUESTS);
    assert_int_equal(stats.counter[BT_RC_PAIRS_UNKNOWN], stats.counter[BT_RC_PAIRS_BEHIND]);
    split_check_agreement(&r.t);
    split_close(&r.t);
}

static void r119_two_threads_share_without_races(void **state)
{
    (void)state;
    run(0, 0);
}

static void r119_nor_when_the_queues_are_full(void **state)
{
    (void)state;
    run(1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(r119_two_threads_share_without_races),
                                       cmocka_unit_test(r119_nor_when_the_queues_are_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
