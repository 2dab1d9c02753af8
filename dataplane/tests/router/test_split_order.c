// SPDX-License-Identifier: Apache-2.0
// The two halves of a router stepped in any order, between clients, a network that loses, doubles and reorders,
// and workers that restart, leave and change n. Each half may be late by as much as chance wants. BT_SEED=n starts at
// another seed.
#include "router/split_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS   5u
#define PACKETS   1024u
#define IN_FLIGHT 256u
#define STEPS     4000

struct flying {
    uint32_t worker;
    uint16_t req_id;
    size_t len;
    uint8_t bytes[64]; /* of a FEEDBACK */
};

struct lane {
    struct flying at[IN_FLIGHT];
    uint32_t n;
};

struct worker_model {
    uint64_t received, served;
    uint32_t incarnation, n, queued;
    uint16_t queue[128];
    bool leaving;
};

struct world {
    struct bed b;
    struct split_bed t;
    struct bt_rng rng;
    struct lane requests, feedback;
    struct worker_model worker[WORKERS];
    uint32_t owes[WORKERS]; /* on the way to it or in it */
    uint16_t next_id;
    bool faults; /* now */
    bool honest; /* there never were any, so that the books must be the truth */
    uint64_t sent, dropped, answered;
};

static uint32_t chance(struct world *w, uint32_t below)
{
    return (uint32_t)bt_rng_below(&w->rng, below);
}

static struct flying *fly(struct world *w, struct lane *lane, uint32_t worker)
{
    if (lane->n == IN_FLIGHT || (w->faults && chance(w, 40) == 0)) {
        return NULL;
    }
    struct flying *f = &lane->at[lane->n++];
    f->worker = worker;
    return f;
}

/* The oldest, or with faults any: and sometimes it stays, so that it arrives twice. */
static bool land(struct world *w, struct lane *lane, struct flying *out)
{
    if (lane->n == 0) {
        return false;
    }
    uint32_t i = w->faults && chance(w, 5) == 0 ? chance(w, lane->n) : 0;
    *out = lane->at[i];
    if (!w->faults || chance(w, 40) != 0) {
        memmove(&lane->at[i], &lane->at[i + 1u], (lane->n - i - 1u) * sizeof *lane->at);
        lane->n--;
    }
    return true;
}

static void speak(struct world *w, uint32_t at, uint8_t flags, uint16_t req_id)
{
    struct worker_model *m = &w->worker[at];
    struct flying *f = fly(w, &w->feedback, at);
    if (f != NULL) {
        struct bed_report report = {.received = m->received,
                                    .served = m->served,
                                    .n = m->n,
                                    .incarnation = m->incarnation,
                                    .flags = flags,
                                    .req_id = req_id};
        f->len = bed_feedback_make(&w->b, at, &report, f->bytes);
    }
}

static uint32_t worker_of(const struct world *w, const struct bt_addr *addr)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        if (bt_addr_eq(addr, &w->b.members[i])) {
            return i;
        }
    }
    fail_msg("sent to nobody");
    return 0;
}

/* what leaves finds credit, by the books of the half that sends it, and without faults in truth. */
static void check_sent(struct world *w)
{
    const struct bt_router *q = w->t.s->split->request;
    struct bt_pkt *pkt;
    while ((pkt = bt_txq_pop(&w->t.out)) != NULL) {
        struct bt_r2p2_hdr hdr;
        assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_ANY, &hdr), BT_M_OK);
        if (hdr.type == BT_DROP) {
            w->dropped++;
        } else {
            uint32_t at = worker_of(w, &pkt->dst), slot = router_find(w->t.s->split->feedback, &pkt->dst);
            uint32_t n = q->worker[slot].n < q->depth ? q->worker[slot].n : q->depth;
            assert_true(router_outstanding(q, slot) <= n);
            w->sent++;
            w->owes[at]++;
            assert_true(!w->honest || w->owes[at] <= w->worker[at].n);
            struct flying *f = fly(w, &w->requests, at);
            if (f != NULL) {
                f->req_id = hdr.req_id;
            }
        }
        bt_pool_put(w->t.requests, pkt);
    }
}

static void requests_come(struct world *w, uint32_t n)
{
    struct bt_pkt *pkts[64];
    for (uint32_t i = 0; i < n; i++) {
        uint8_t bytes[64] = {0};
        struct bt_r2p2_hdr hdr = {
            .type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = w->next_id++, .count_or_index = 1};
        size_t len = bt_r2p2_encode(bytes, sizeof bytes, &hdr) + 8u;
        pkts[i] = split_packet(&w->t, &w->b, false, &w->b.client, bytes, len);
    }
    bt_router_requests(w->t.s, pkts, n, &w->t.out);
    check_sent(w);
}

static void feedback_comes(struct world *w, uint32_t most)
{
    struct bt_pkt *pkts[64];
    struct flying f;
    uint32_t n = 0;
    while (n < most && land(w, &w->feedback, &f)) {
        pkts[n++] = split_packet(&w->t, &w->b, true, &w->b.members[f.worker], f.bytes, f.len);
    }
    bt_router_feedbacks(w->t.s, pkts, n, NULL);
}

static void request_arrives(struct world *w)
{
    struct flying f;
    if (!land(w, &w->requests, &f)) {
        return;
    }
    struct worker_model *m = &w->worker[f.worker];
    if (m->queued < 128u) {
        m->received++;
        m->queue[m->queued++] = f.req_id;
    }
}

static void worker_serves(struct world *w, uint32_t at)
{
    struct worker_model *m = &w->worker[at];
    if (m->queued == 0) {
        return;
    }
    uint16_t id = m->queue[0];
    memmove(m->queue, m->queue + 1, --m->queued * sizeof *m->queue);
    m->served++;
    w->answered++;
    w->owes[at] -= w->owes[at] > 0 ? 1u : 0u;
    speak(w, at, BT_FEEDBACK_PAIR | (m->leaving ? BT_FEEDBACK_LEAVE : 0), id);
}

/* Restart, another n, LEAVE and return. */
static void worker_changes(struct world *w, uint32_t at)
{
    struct worker_model *m = &w->worker[at];
    switch (chance(w, 4)) {
    case 0:
        m->incarnation++;
        m->received = m->served = m->queued = 0;
        m->leaving = false;
        speak(w, at, BT_FEEDBACK_JOIN, 0);
        break;
    case 1:
        m->n = 1u + chance(w, 4);
        speak(w, at, m->leaving ? BT_FEEDBACK_LEAVE : 0, 0);
        break;
    default:
        m->leaving = !m->leaving;
        speak(w, at, m->leaving ? BT_FEEDBACK_LEAVE : BT_FEEDBACK_JOIN, 0);
        break;
    }
}

static void heartbeat(struct world *w)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        speak(w, i, w->worker[i].leaving ? BT_FEEDBACK_LEAVE : 0, 0);
    }
}

/* nothing is counted twice or lost, whichever half counts it. */
static void check_books(struct world *w)
{
    struct bt_router_stats t;
    bt_router_read_stats(w->t.s, w->b.now, &t);
    assert_int_equal(t.counter[BT_RC_REQUESTS], w->next_id);
    assert_int_equal(t.counter[BT_RC_FORWARDED], w->sent);
    assert_int_equal(w->next_id, w->sent + w->dropped + t.held);
    assert_true(t.counter[BT_RC_PAIRS_FINISHED] + t.counter[BT_RC_PAIRS_UNANSWERED] + t.pairs <= w->sent);
    for (uint32_t i = 0; w->honest && i < WORKERS; i++) {
        assert_true(router_outstanding(w->t.s->split->request, i) >= router_outstanding(w->t.s->split->feedback, i));
    }
}

static void step(struct world *w)
{
    uint32_t what = chance(w, 100), at = chance(w, WORKERS);
    w->b.now += chance(w, 20000);
    if (what < 25) {
        requests_come(w, chance(w, 6));
    } else if (what < 45) {
        feedback_comes(w, 1u + chance(w, 20));
    } else if (what < 65) {
        request_arrives(w);
    } else if (what < 85) {
        worker_serves(w, at);
    } else if (what < 90) {
        bt_router_tick(w->t.s, w->b.now, &w->t.out);
        check_sent(w);
    } else if (what < 95) {
        bt_router_feedback_tick(w->t.s, w->b.now);
    } else if (what < 97) {
        heartbeat(w);
    } else if (w->faults && what == 97) {
        worker_changes(w, at);
    } else if (w->faults && what == 98 && chance(w, 10) == 0) {
        w->b.config.depth = 1u + chance(w, 4);
        split_configure(&w->t, &w->b);
    } else if (w->faults && what == 99) {
        bt_router_unreachable(w->t.s, w->b.now, &w->b.members[at]);
    }
    check_books(w);
}

/* The faults end; workers finish, and speak when idle; time passes. */
static void settle(struct world *w)
{
    w->faults = false;
    for (uint32_t i = 0; i < WORKERS; i++) {
        w->worker[i].leaving = false;
        speak(w, i, BT_FEEDBACK_JOIN, 0);
    }
    for (int round = 0; round < 120; round++) {
        while (w->requests.n > 0) {
            request_arrives(w);
        }
        for (uint32_t i = 0; i < WORKERS; i++) {
            while (w->worker[i].queued > 0 && w->feedback.n < IN_FLIGHT - WORKERS) {
                worker_serves(w, i);
            }
        }
        heartbeat(w);
        feedback_comes(w, 64);
        w->b.now += 100 * MS;
        bt_router_feedback_tick(w->t.s, w->b.now);
        bt_router_tick(w->t.s, w->b.now, &w->t.out);
        check_sent(w);
    }
}

/* idle, nobody owes anything and all capacity is back. */
static void check_restored(struct world *w)
{
    struct bt_router_stats t;
    bt_router_read_stats(w->t.s, w->b.now, &t);
    split_check_agreement(&w->t);
    assert_int_equal(t.held, 0);
    assert_int_equal(t.outstanding, 0);
    assert_int_equal(t.eligible, WORKERS);
    uint32_t capacity = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        capacity += w->worker[i].n < w->b.config.depth ? w->worker[i].n : w->b.config.depth;
    }
    uint64_t before = w->sent;
    requests_come(w, 40);
    assert_int_equal(w->sent - before, capacity);
}

/* Every request and every DROP is in the window of the latency histogram, though the other half counted it. */
static void check_window(struct world *w)
{
    static struct bt_hist hist;
    struct bt_hist_window window;
    bt_router_feedback_tick(w->t.s, w->b.now);
    bt_hist_slices_merge(bt_router_latency(w->t.s), w->b.now, 600, &hist, &window);
    assert_int_equal(window.arrived, w->next_id);
    assert_int_equal(window.rejected, w->dropped);
}

static uint64_t counter(const struct world *w, enum bt_router_counter c)
{
    struct bt_router_stats t;
    bt_router_read_stats(w->t.s, w->b.now, &t);
    return t.counter[c];
}

static void open_world(struct world *w, uint64_t seed, bool faults, uint32_t credits, uint32_t notes)
{
    memset(w, 0, sizeof *w);
    print_message("seed %llu\n", (unsigned long long)seed);
    bt_rng_seed(&w->rng, seed);
    bed_defaults(&w->b, WORKERS, 3);
    split_open(&w->t, &w->b, PACKETS, credits, notes);
    w->faults = faults;
    w->honest = !faults;
    for (uint32_t i = 0; i < WORKERS; i++) {
        w->worker[i].n = 2;
        w->worker[i].incarnation = 1;
        speak(w, i, BT_FEEDBACK_JOIN, 0);
    }
}

static void live(struct world *w)
{
    for (int i = 0; i < STEPS; i++) {
        step(w);
    }
    settle(w);
    check_restored(w);
    check_window(w);
}

static uint64_t first_seed(void)
{
    const char *text = getenv("BT_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

static void r101_r108_without_faults_no_credit_is_exceeded_and_each_pair_is_measured(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + SEEDS(20); seed < end; seed++) {
        struct world w;
        open_world(&w, seed, false, 0, 0);
        live(&w);
        assert_int_equal(counter(&w, BT_RC_PAIRS_UNKNOWN), 0); /* no end came before its start */
        assert_int_equal(counter(&w, BT_RC_PAIRS_FINISHED), w.answered);
        assert_int_equal(counter(&w, BT_RC_CREDIT_RESCANS) + counter(&w, BT_RC_PAIRS_BEHIND), 0);
        split_close(&w.t);
    }
}

static void r109_r115_r137_r141_faults_and_lateness_heal(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + SEEDS(60); seed < end; seed++) {
        struct world w;
        open_world(&w, seed, true, 0, 0);
        live(&w);
        split_close(&w.t);
    }
}

static void r119_queues_that_overflow_lose_measurements_but_no_credit(void **state)
{
    (void)state;
    uint64_t rescans = 0, behind = 0;
    for (uint64_t seed = first_seed(), end = seed + SEEDS(40); seed < end; seed++) {
        struct world w;
        open_world(&w, seed, seed % 2u == 0, 1, 2);
        live(&w);
        rescans += counter(&w, BT_RC_CREDIT_RESCANS);
        behind += counter(&w, BT_RC_PAIRS_BEHIND);
        split_close(&w.t);
    }
    assert_true(rescans > SEEDS(100) && behind > SEEDS(100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r101_r108_without_faults_no_credit_is_exceeded_and_each_pair_is_measured),
        cmocka_unit_test(r109_r115_r137_r141_faults_and_lateness_heal),
        cmocka_unit_test(r119_queues_that_overflow_lose_measurements_but_no_credit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
