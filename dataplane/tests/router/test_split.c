// SPDX-License-Identifier: Apache-2.0
// The router on two threads: stepped in turns it is the router of one thread; stepped in any order, with lost,
// doubled and reordered packets, workers that restart, leave and change n, and queues too short for what passes, it
// keeps the same rules. BT_SEED=n starts at another seed.
#include "router/split_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 6u

/* --- in turns, beside a router of one thread --------------------------------------------------------------------- */

struct twins {
    struct bed one;
    struct split_bed two;
    struct bt_rng rng;
    uint64_t received[WORKERS], served[WORKERS];
    uint32_t incarnation[WORKERS];
    uint16_t next_id;
};

static void compare_sent(struct twins *t)
{
    struct bt_pkt *a, *b;
    while ((a = bt_txq_pop(&t->one.out)) != NULL) {
        b = bt_txq_pop(&t->two.out);
        assert_non_null(b);
        assert_int_equal(a->len, b->len);
        assert_memory_equal(a->data, b->data, a->len);
        assert_memory_equal(&a->dst, &b->dst, sizeof a->dst);
        assert_memory_equal(&a->src, &b->src, sizeof a->src);
        bt_pool_put(t->one.pool, a);
        bt_pool_put(t->two.requests, b);
    }
    assert_int_equal(t->two.out.n, 0);
}

static void compare_admission(const struct bt_router_stats *a, const struct bt_router_stats *b)
{
    assert_int_equal(a->admission_mode, b->admission_mode);
    assert_int_equal(a->admission_decisions, b->admission_decisions);
    assert_int_equal(a->admission_unknown, b->admission_unknown);
    assert_memory_equal(a->admission_class, b->admission_class, sizeof a->admission_class);
}

static void compare_rows(struct twins *t)
{
    struct bt_router_stats a, b;
    struct bt_router_member_stats row, twin;
    bt_router_read_stats(t->one.r, t->one.now, &a);
    bt_router_read_stats(t->two.s, t->one.now, &b);
    for (int i = 0; i < BT_ROUTER_COUNTERS; i++) {
        if (a.counter[i] != b.counter[i]) {
            fail_msg("counter %s %s: %llu on one thread, %llu on two", bt_router_counter_descs[i].name,
                     bt_router_counter_descs[i].value, (unsigned long long)a.counter[i],
                     (unsigned long long)b.counter[i]);
        }
    }
    assert_memory_equal(a.malformed, b.malformed, sizeof a.malformed);
    assert_int_equal(a.held, b.held);
    assert_int_equal(a.pairs, b.pairs);
    assert_int_equal(a.outstanding, b.outstanding);
    compare_admission(&a, &b);
    for (uint32_t i = 0; bt_router_member(t->one.r, t->one.now, i, &row); i++) {
        assert_true(bt_router_member(t->two.s, t->one.now, i, &twin));
        assert_int_equal(row.sent, twin.sent);
        assert_int_equal(row.done, twin.done);
        assert_int_equal(row.lost, twin.lost);
        assert_int_equal(row.eligible, twin.eligible);
        assert_int_equal(row.n, twin.n);
    }
}

static void twin_feedback(struct twins *t, const struct bt_addr *from, const uint8_t *bytes, size_t len)
{
    bed_feedback_bytes(&t->one, from, bytes, len);
    struct bt_pkt *pkt = split_packet(&t->two, &t->one, true, from, bytes, len);
    bt_router_feedbacks(t->two.s, &pkt, 1, NULL);
    bt_router_requests(t->two.s, NULL, 0, &t->two.out);
}

static void twin_request(struct twins *t)
{
    uint8_t bytes[64] = {0};
    bool sticky = bt_rng_below(&t->rng, 9) == 0;
    struct bt_r2p2_hdr hdr = {.type = BT_REQUEST,
                              .policy = sticky ? BT_POLICY_STICKY : BT_POLICY_UNRESTRICTED,
                              .first = true,
                              .last = true,
                              .ext = true,
                              .req_id = t->next_id++,
                              .count_or_index = 1};
    size_t len = bt_r2p2_encode(bytes, sizeof bytes, &hdr) + 8u;
    bed_request_bytes(&t->one, &t->one.client, bytes, len);
    struct bt_pkt *pkt = split_packet(&t->two, &t->one, false, &t->one.client, bytes, len);
    bt_router_requests(t->two.s, &pkt, 1, &t->two.out);
}

static void twin_tick(struct twins *t, uint64_t step)
{
    bed_tick(&t->one, step);
    bt_router_feedback_tick(t->two.s, t->one.now);
    bt_router_tick(t->two.s, t->one.now, &t->two.out);
    bt_router_feedback_tick(t->two.s, t->one.now); /* what was held for T_max may just have left */
}

static void twin_worker(struct twins *t)
{
    uint32_t w = (uint32_t)bt_rng_below(&t->rng, WORKERS), odd = (uint32_t)bt_rng_below(&t->rng, 40);
    uint64_t sent = w < t->one.config.members_n ? bed_row(&t->one, w).sent : 0;
    t->received[w] += t->received[w] < sent ? bt_rng_below(&t->rng, 3) : 0;
    t->served[w] += t->served[w] < t->received[w] ? bt_rng_below(&t->rng, 3) : 0;
    t->served[w] = t->served[w] > t->received[w] ? t->received[w] : t->served[w];
    t->incarnation[w] += odd == 1 ? 1u : 0u;
    struct bed_report report = {.received = t->received[w] - (odd == 2),
                                .served = t->served[w] - (odd == 3),
                                .n = 1u + (uint32_t)bt_rng_below(&t->rng, odd == 4 ? 5 : 1) + 1u,
                                .incarnation = 1u + t->incarnation[w],
                                .flags = odd == 5   ? BT_FEEDBACK_LEAVE
                                         : odd == 6 ? BT_FEEDBACK_JOIN
                                         : odd < 30 ? BT_FEEDBACK_PAIR
                                                    : 0,
                                .req_id = (uint16_t)(t->next_id - bt_rng_below(&t->rng, 12))};
    uint8_t bytes[128];
    size_t len = bed_feedback_make(&t->one, w, &report, bytes);
    if (odd == 7 && t->one.config.keys != NULL) { /* where there is no key a forged one is believed, as it must be */
        bytes[bt_rng_below(&t->rng, (uint32_t)len)] ^= (uint8_t)(1u << bt_rng_below(&t->rng, 8));
    }
    twin_feedback(t, &t->one.members[w], bytes, len);
}

static void twin_configure(struct twins *t)
{
    t->one.config.depth = 1u + (uint32_t)bt_rng_below(&t->rng, 4);
    t->one.config.policy = (enum bt_router_policy)bt_rng_below(&t->rng, BT_ROUTER_POLICIES);
    t->one.config.members_n = 2u + bt_rng_below(&t->rng, WORKERS - 1u);
    t->one.config.central_limit = 1u + (uint32_t)bt_rng_below(&t->rng, 20);
    t->one.config.admission =
        (struct bt_admission_config){.mode = (enum bt_admission_mode)bt_rng_below(&t->rng, BT_ADMISSION_MODES),
                                     .controller = (enum bt_admission_controller)bt_rng_below(&t->rng, BT_CONTROLLERS),
                                     .slo_ns = (1u + bt_rng_below(&t->rng, 5)) * MS / 5u,
                                     .per_100k = 50000,
                                     .droppable = BT_ADMISSION_DROPPABLE_DEFAULT};
    bed_apply(&t->one);
    split_configure(&t->two, &t->one);
}

static void twin_step(struct twins *t)
{
    uint32_t what = (uint32_t)bt_rng_below(&t->rng, 100);
    t->one.now += bt_rng_below(&t->rng, 30000);
    /* A FEEDBACK that changes nothing makes one thread look whether anybody is free, which moves its tie start.
     */
    t->two.s->load.turn = t->one.r->load.turn;
    if (what < 45) {
        twin_request(t);
    } else if (what < 90) {
        twin_worker(t);
    } else if (what < 98) {
        twin_tick(t, bt_rng_below(&t->rng, what == 97 ? 700 * MS : MS));
    } else if (what == 98) {
        struct bt_addr *worker = &t->one.members[bt_rng_below(&t->rng, WORKERS)];
        bt_router_unreachable(t->one.r, t->one.now, worker);
        bt_router_unreachable(t->two.s, t->one.now, worker);
        bt_router_feedbacks(t->two.s, NULL, 0, NULL);
        bt_router_requests(t->two.s, NULL, 0, &t->two.out);
    } else {
        twin_configure(t);
    }
    twin_tick(t, 0); /* any FEEDBACK makes one thread drop what was held too long, which two do at their tick */
}

static uint64_t first_seed(void)
{
    const char *text = getenv("BT_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

static void r119_halves_in_turns_do_what_one_thread_does(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + SEEDS(150); seed < end; seed++) {
        struct twins t;
        memset(&t, 0, sizeof t);
        print_message("seed %llu\n", (unsigned long long)seed);
        bt_rng_seed(&t.rng, seed);
        bed_defaults(&t.one, WORKERS, 2);
        t.one.config.central_limit = 20;
        t.one.config.max_queue_ns = MS; /* less than R-210 waits: what was held is not overdue when it leaves */
        if (seed % 2u == 0) {
            bed_use_keys(&t.one);
        }
        bed_build(&t.one);
        split_open(&t.two, &t.one, 512, 0, 0);
        twin_tick(&t, 0);
        for (int i = 0; i < 1500; i++) {
            twin_step(&t);
            compare_sent(&t);
            compare_rows(&t);
            split_check_agreement(&t.two);
        }
        split_close(&t.two);
        bed_close(&t.one);
    }
}

/* --- what only two threads have to care for ---------------------------------------------------------------------- */

static void send_one(struct split_bed *t, const struct bed *b, uint16_t req_id, bool late)
{
    uint8_t bytes[64] = {0};
    struct bt_r2p2_hdr hdr = {
        .type = BT_REQUEST, .first = true, .last = true, .ext = true, .req_id = req_id, .count_or_index = 1};
    size_t len = bt_r2p2_encode(bytes, sizeof bytes, &hdr) + 8u;
    struct bt_pkt *pkt = split_packet(t, b, false, &b->client, bytes, len);
    if (late) { /* it has not seen yet what the other half published */
        router_requests(t->s, &pkt, 1, &t->out);
    } else {
        bt_router_requests(t->s, &pkt, 1, &t->out);
    }
}

static void report_of(struct split_bed *t, struct bed *b, uint32_t w, const struct bed_report *what)
{
    uint8_t bytes[128];
    size_t len = bed_feedback_make(b, w, what, bytes);
    struct bt_pkt *pkt = split_packet(t, b, true, &b->members[w], bytes, len);
    bt_router_feedbacks(t->s, &pkt, 1, NULL);
}

static void report(struct split_bed *t, struct bed *b, const struct bed_report *what)
{
    report_of(t, b, 0, what);
}

static struct bt_router_stats totals(const struct split_bed *t, const struct bed *b)
{
    struct bt_router_stats stats;
    bt_router_read_stats(t->s, b->now, &stats);
    return stats;
}

static void tick_both(struct split_bed *t, struct bed *b, uint64_t step)
{
    b->now += step;
    bt_router_feedback_tick(t->s, b->now);
    bt_router_tick(t->s, b->now, &t->out);
}

/* A legacy worker that was idle for long owes its answer since its request left, not since it was last heard, even when
 * the note of that request found no room. */
static void r110_a_request_whose_note_is_lost_is_not_reclaimed_at_once(void **state)
{
    (void)state;
    struct bed b;
    struct split_bed t;
    bed_defaults(&b, 1, 2);
    b.config.forwarding = BT_FORWARD_TRANSPARENT;
    b.config.legacy_peers = true;
    split_open(&t, &b, 16, 0, 1);
    for (int i = 0; i < 100; i++) {
        tick_both(&t, &b, 10 * MS);
    }
    bt_router_unreachable(t.s, b.now, &b.client); /* fills the queue of notes */
    send_one(&t, &b, 7, false);
    assert_int_equal(totals(&t, &b).counter[BT_RC_PAIRS_BEHIND], 1);
    bt_router_unreachable(t.s, b.now, &b.members[0]);
    assert_int_equal(totals(&t, &b).counter[BT_RC_UNREACHABLE_BEHIND], 1);
    for (int i = 0; i < 8; i++) {
        tick_both(&t, &b, 10 * MS);
        assert_int_equal(totals(&t, &b).counter[BT_RC_CREDITS_RECLAIMED], 0);
    }
    for (int i = 0; i < 5; i++) {
        tick_both(&t, &b, 10 * MS);
    }
    assert_int_equal(totals(&t, &b).counter[BT_RC_CREDITS_RECLAIMED], 1);
    split_close(&t);
}

/* The worker left and was forgotten while a request was on its way to it: it does not owe that one for ever. */
static void r113_what_was_sent_to_a_worker_just_forgotten_is_given_up(void **state)
{
    (void)state;
    struct bed b;
    struct split_bed t;
    bed_defaults(&b, 1, 2);
    split_open(&t, &b, 16, 0, 0);
    report(&t, &b, &(struct bed_report){.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    tick_both(&t, &b, MS);
    report(&t, &b, &(struct bed_report){.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    b.now += 50 * MS;
    bt_router_feedback_tick(t.s, b.now);
    assert_int_equal(totals(&t, &b).counter[BT_RC_FORGOTTEN], 1);
    send_one(&t, &b, 7, true);
    assert_int_equal(totals(&t, &b).outstanding, 1);
    tick_both(&t, &b, 200 * MS);
    assert_int_equal(totals(&t, &b).outstanding, 0);
    split_check_agreement(&t);
    split_close(&t);
}

/* the other thread may be ahead of a FEEDBACK's time stamp. What it sent meanwhile is not old when the stamps
 * have caught up with it. */
static void r111_what_the_other_thread_sent_meanwhile_is_not_held_to_be_lost(void **state)
{
    (void)state;
    struct bed b;
    struct split_bed t;
    bed_defaults(&b, 1, 4);
    split_open(&t, &b, 16, 0, 1);
    report(&t, &b, &(struct bed_report){.n = 4, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    bt_router_unreachable(t.s, b.now, &b.client); /* no room for a note, which would bring the time, too */
    uint64_t behind = b.now + 50 * MS;
    b.now += 190 * MS;
    send_one(&t, &b, 1, false); /* at 190 ms */
    b.now = behind;
    report(&t, &b, &(struct bed_report){.n = 4, .incarnation = 1}); /* of 50 ms, taken after it: T_loss is 200 ms */
    b.now += 220 * MS;
    report(&t, &b, &(struct bed_report){.n = 4, .incarnation = 1}); /* of 270 ms: the request is 80 ms old */
    b.now += 1 * MS;
    report(&t, &b, &(struct bed_report){.n = 4, .incarnation = 1});
    assert_int_equal(totals(&t, &b).counter[BT_RC_CREDITS_LOST], 0);
    b.now += 300 * MS;
    report(&t, &b, &(struct bed_report){.n = 4, .incarnation = 1});
    assert_int_equal(totals(&t, &b).counter[BT_RC_CREDITS_LOST], 1);
    split_close(&t);
}

/* credit that was published when requests come is theirs, and none of them needs to wait for it. */
static void r118_credit_goes_before_requests(void **state)
{
    (void)state;
    struct bed b;
    struct split_bed t;
    bed_defaults(&b, 1, 1);
    split_open(&t, &b, 16, 0, 0);
    report(&t, &b, &(struct bed_report){.n = 1, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    for (uint16_t i = 0; i < 10; i++) {
        assert_int_equal(bt_router_credit_waits(t.s), true);
        send_one(&t, &b, i, false);
        assert_int_equal(bt_router_credit_waits(t.s), false);
        report(&t, &b, &(struct bed_report){.received = i + 1u, .served = i + 1u, .n = 1, .incarnation = 1});
    }
    assert_int_equal(totals(&t, &b).counter[BT_RC_HELD], 0);
    assert_int_equal(totals(&t, &b).counter[BT_RC_FORWARDED], 10);
    split_close(&t);
}

/* a configuration made room at both workers, and before anybody uses it one of them answers and the other
 * leaves. What is held goes by both words, not by the first of them. */
static void r113_r118_what_is_held_goes_by_all_that_was_heard(void **state)
{
    (void)state;
    struct bed b;
    struct split_bed t;
    bed_defaults(&b, 2, 1);
    split_open(&t, &b, 16, 0, 0);
    for (uint32_t w = 0; w < 2; w++) {
        report_of(&t, &b, w, &(struct bed_report){.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN});
    }
    for (uint16_t i = 0; i < 5; i++) {
        send_one(&t, &b, i, false);
    }
    assert_int_equal(totals(&t, &b).held, 3);
    b.config.depth = 2;
    split_configure(&t, &b);
    report_of(&t, &b, 0, &(struct bed_report){.received = 1, .served = 1, .n = 2, .incarnation = 1});
    report_of(&t, &b, 1, &(struct bed_report){.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    bt_router_requests(t.s, NULL, 0, &t.out);
    assert_int_equal(totals(&t, &b).held, 1);
    for (const struct bt_pkt *pkt = t.out.head; pkt != NULL; pkt = pkt->next) {
        bool before = pkt == t.out.head || pkt == t.out.head->next; /* they were there */
        assert_true(before || bt_addr_eq(&pkt->dst, &b.members[0]));
    }
    split_close(&t);
}

static void setups_out_of_bounds_are_refused(void **state)
{
    (void)state;
    struct bed b;
    struct split_bed t;
    bed_defaults(&b, 1, 2);
    split_open(&t, &b, 16, 0, 0);
    const struct bt_router_setup right = {.threads = 2, .seed = 7, .pool = t.requests, .feedback_pool = t.feedback};
    struct bt_router_setup wrong[] = {right, right, right, right};
    wrong[0].credits = 3;
    wrong[1].notes = 131072;
    wrong[2].max_members = 4096;
    wrong[3].threads = 3;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(bt_router_bytes(&wrong[i]), 0);
        assert_null(bt_router_init(t.mem, 1 << 20, &wrong[i], b.now));
    }
    assert_null(bt_router_init(t.mem, 1 << 20, &right, b.now)); /* too little memory */
    assert_null(bt_router_init((uint8_t *)t.mem + 8, bt_router_bytes(&right), &right, b.now));
    free(t.mem); /* overwritten */
    free(t.pool_mem[0]);
    free(t.pool_mem[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r119_halves_in_turns_do_what_one_thread_does),
        cmocka_unit_test(r110_a_request_whose_note_is_lost_is_not_reclaimed_at_once),
        cmocka_unit_test(r113_what_was_sent_to_a_worker_just_forgotten_is_given_up),
        cmocka_unit_test(r111_what_the_other_thread_sent_meanwhile_is_not_held_to_be_lost),
        cmocka_unit_test(r118_credit_goes_before_requests),
        cmocka_unit_test(r113_r118_what_is_held_goes_by_all_that_was_heard),
        cmocka_unit_test(setups_out_of_bounds_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
