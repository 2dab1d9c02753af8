// SPDX-License-Identifier: Apache-2.0
// What a router lends to a program nearer to the packets, why it does not, when a loan no longer holds, and what it
// makes of the notes (docs/decisions/0011).
#include <endian.h>
#include <string.h>

#include "router/delegation.h"
#include "router/objective.h"
#include "router/split_bed.h"

static struct bed b;
static struct bt_delegation d;

static enum bt_lend lend(void)
{
    return bt_router_lend(b.r, &d);
}

static int close_bed(void **state)
{
    (void)state;
    bed_close(&b);
    return 0;
}

/* k workers of n each that joined, lent. */
static void open_lent(uint32_t k, uint32_t n)
{
    bed_open(&b, k, n);
    bed_join_all(&b, n);
    assert_int_equal(lend(), BT_LEND_YES);
}

static void apply_and_lend(enum bt_lend why)
{
    bed_apply(&b);
    assert_int_equal(lend(), why);
}

/* --- why not ----------------------------------------------------------------------------------------------------- */

static void every_reason_has_its_words(void **state)
{
    static const char *const words[BT_LEND_REASONS] = {
        [BT_LEND_YES] = "Active",
        [BT_LEND_POLICY] = "Policy",
        [BT_LEND_ADMISSION] = "AdmissionControl",
        [BT_LEND_HEDGING] = "Hedging",
        [BT_LEND_FORWARDING] = "Forwarding",
        [BT_LEND_THREADS] = "Threads",
        [BT_LEND_WORKERS] = "TooManyWorkers",
        [BT_LEND_LEGACY] = "LegacyWorker",
        [BT_LEND_IPV6] = "IPv6Worker",
        [BT_LEND_NOBODY] = "NoWorkers",
        [BT_LEND_DRAINING] = "Draining",
        [BT_LEND_HELD] = "RequestsHeld",
        [BT_LEND_OWN_ADDRESS] = "OwnAddress",
        [BT_LEND_KERNEL] = "Kernel",
    };
    (void)state;
    for (unsigned i = 0; i < BT_LEND_REASONS; i++) {
        assert_string_equal(bt_lend_reasons[i].word, words[i]);
        assert_non_null(bt_lend_reasons[i].text);
    }
}

static void only_jbsq_without_hold_back(void **state)
{
    (void)state;
    open_lent(2, 1);
    b.config.policy = BT_ROUTER_JSQ;
    apply_and_lend(BT_LEND_POLICY);
    b.config.policy = BT_ROUTER_JBSQ;
    apply_and_lend(BT_LEND_YES);
    b.config.hold_back_packets = 1;
    b.config.hold_back_ns = 1;
    apply_and_lend(BT_LEND_POLICY);
}

static void not_who_looks_at_every_request(void **state)
{
    (void)state;
    open_lent(2, 1);
    b.config.hedging =
        (struct bt_hedging_config){.mode = BT_HEDGING_LOAD_AWARE, .busy_percent = 50, .budget_percent = 5};
    apply_and_lend(BT_LEND_HEDGING);
    b.config.admission = objective(BT_CONTROL_TRACK);
    apply_and_lend(BT_LEND_ADMISSION);
    b.config.hedging.mode = BT_HEDGING_OFF;
    apply_and_lend(BT_LEND_ADMISSION);
    b.config.admission.mode = BT_ADMISSION_OBSERVE;
    apply_and_lend(BT_LEND_YES);
}

static void only_encapsulated(void **state)
{
    (void)state;
    open_lent(2, 1);
    b.config.forwarding = BT_FORWARD_TRANSPARENT;
    apply_and_lend(BT_LEND_FORWARDING);
}

static void not_on_two_threads(void **state)
{
    (void)state;
    static struct split_bed t;
    bed_open(&b, 2, 1);
    split_open(&t, &b, 64, 0, 0);
    assert_int_equal(bt_router_lend(t.s, &d), BT_LEND_THREADS);
    split_close(&t);
}

static void sixty_four_workers_and_no_more(void **state)
{
    (void)state;
    open_lent(64, 1);
    assert_int_equal(d.span, 64);
    b.config.members_n = 65;
    apply_and_lend(BT_LEND_YES); /* the last one is not there yet */
    bed_join(&b, 64, 1);
    assert_int_equal(lend(), BT_LEND_WORKERS);
}

/* Without Transparent forwarding no such worker may be chosen: this one is made up. */
static void not_to_a_legacy_worker(void **state)
{
    (void)state;
    open_lent(3, 1);
    b.r->worker[1].flags &= (uint16_t)~WORKER_EXTENDED;
    assert_int_equal(lend(), BT_LEND_LEGACY);
}

static void not_to_an_ipv6_worker(void **state)
{
    (void)state;
    bed_defaults(&b, 2, 1);
    assert_int_equal(bt_addr_parse("[2001:db8::1]:8000", 0, &b.members[1]), 0);
    bed_build(&b);
    bed_join(&b, 0, 1);
    assert_int_equal(lend(), BT_LEND_YES);
    bed_join(&b, 1, 1);
    assert_int_equal(lend(), BT_LEND_IPV6);
    bt_router_unreachable(b.r, b.now, &b.members[1]); /* gets nothing */
    assert_int_equal(lend(), BT_LEND_YES);
}

static void not_at_every_moment(void **state)
{
    (void)state;
    bed_open(&b, 2, 1);
    assert_int_equal(lend(), BT_LEND_NOBODY);
    bed_join(&b, 0, 1);
    assert_int_equal(lend(), BT_LEND_YES);
    bed_send(&b, 1);
    assert_int_equal(lend(), BT_LEND_YES);
    bed_send(&b, 2);
    assert_int_equal(lend(), BT_LEND_HELD);
    bt_router_drain(b.r, b.now);
    assert_int_equal(lend(), BT_LEND_DRAINING);
}

/* --- what -------------------------------------------------------------------------------------------------------- */

/* Two workers, of which one was given four requests, received three, served one, and lost one. */
static void open_history(void)
{
    bed_defaults(&b, 3, 5);
    bed_use_keys(&b);
    bed_build(&b);
    bed_feedback(&b, 1, &(struct bed_report){.n = 4, .incarnation = 6, .flags = BT_FEEDBACK_JOIN});
    for (uint16_t id = 1; id <= 4; id++) {
        bed_send(&b, id);
    }
    bed_discard(&b);
    struct bed_report said = {.received = 3, .n = 4, .incarnation = 6, .flags = BT_FEEDBACK_PAIR, .req_id = 1};
    said.served = 1;
    bed_feedback(&b, 1, &said);
    said.flags = BT_FEEDBACK_PERIODIC;
    for (int i = 0; i < 10; i++) { /* longer than T_loss */
        bed_tick(&b, 50 * MS);
        bed_feedback(&b, 1, &said);
    }
    assert_int_equal(bed_row(&b, 1).lost, 1);
}

static void a_worker_as_it_stands(void **state)
{
    (void)state;
    open_history();
    memset(&d, 0xa5, sizeof d);
    assert_int_equal(lend(), BT_LEND_YES);
    const struct bt_delegation_worker *w = &d.worker[1];
    static const uint8_t ip[4] = {10, 1, 0, 0};
    assert_memory_equal(&w->ip, ip, sizeof ip);
    assert_int_equal(be16toh(w->port), 8001);
    assert_true(d.who[1] == bt_delegation_who(w->ip, w->port));
    assert_int_equal(w->shift, 1);
    assert_int_equal(w->given, 3);
    assert_int_equal(w->received, 3);
    assert_int_equal(w->served, 1);
    assert_int_equal(w->limit, 4);
    assert_true(w->steady == b.r->worker[1].steady && w->steady != 0);
    static const struct bt_delegation_worker nobody;
    for (unsigned i = 0; i < BT_DELEGATION_WORKERS; i++) {
        if (i != 1) {
            assert_memory_equal(&d.worker[i], &nobody, sizeof nobody);
            assert_int_equal(d.who[i], 0);
        }
    }
    assert_int_equal(d.loan, 0);
    assert_int_equal(d.spare, 0);
}

static void the_keys_and_which_signs(void **state)
{
    (void)state;
    bed_defaults(&b, 2, 1);
    bed_use_keys(&b);
    bed_build(&b);
    bed_join_all(&b, 1);
    assert_int_equal(lend(), BT_LEND_YES);
    for (unsigned i = 0; i < BT_DELEGATION_KEYS; i++) {
        assert_int_equal(d.key[i].id, i + 1);
        assert_memory_equal(d.key[i].half, b.keys.key[i].bytes, sizeof d.key[i].half);
    }
    assert_int_equal(d.signer, 0);
    b.keys.key[0].id = 0;
    apply_and_lend(BT_LEND_YES);
    assert_int_equal(d.signer, 1);
    assert_int_equal(d.key[0].id, 0);
    b.config.keys = NULL;
    apply_and_lend(BT_LEND_YES);
    assert_int_equal(d.key[0].id | d.key[1].id, 0);
}

static void ranks(uint32_t workers)
{
    open_lent(workers, 2);
    for (uint16_t id = 0; id < workers / 2u; id++) {
        bed_send(&b, id);
    }
    b.config.max_payload = 1001;
    bed_apply(&b);
    memset(&d, 0xa5, sizeof d);
    assert_int_equal(lend(), BT_LEND_YES);
    assert_int_equal(d.span, workers);
    assert_int_equal(d.turn, b.r->load.turn);
    assert_int_equal(d.max_payload, 1001);
    assert_memory_equal(d.untie, b.r->load.untie, sizeof d.untie);
    for (uint32_t w = 0; w < BT_DELEGATION_WORKERS; w++) {
        assert_int_equal(d.rank[w] >> 8, b.r->load.rank[w].major);
        assert_int_equal(d.rank[w] & 0xff, b.r->load.rank[w].minor);
    }
}

static void a_few_workers_have_no_groups(void **state)
{
    (void)state;
    ranks(BT_DELEGATION_FEW);
    for (uint32_t g = 0; g < BT_DELEGATION_GROUP; g++) {
        assert_int_equal(d.group[g], 0);
    }
}

static void seventeen_workers_have_groups(void **state)
{
    (void)state;
    ranks(BT_DELEGATION_FEW + 1u);
    for (uint32_t g = 0; g < BT_DELEGATION_GROUP; g++) {
        assert_int_equal(d.group[g], b.r->load.group[g].major << 8 | b.r->load.group[g].minor);
    }
    assert_int_not_equal(d.group[0], d.group[7]);
}

/* --- how long ---------------------------------------------------------------------------------------------------- */

static bool holds_with(struct bt_delegation lent)
{
    return bt_router_loan_holds(b.r, &lent);
}

static void a_loan_ends_with_each_of_its_terms(void **state)
{
    (void)state;
    open_history();
    bed_join(&b, 2, 3);
    assert_int_equal(lend(), BT_LEND_YES);
    struct bt_delegation other = d;
    assert_true(holds_with(other));
#define ENDS_BY(change)                                                                                                \
    do {                                                                                                               \
        other = d;                                                                                                     \
        change;                                                                                                        \
        assert_false(holds_with(other));                                                                               \
    } while (0)
    ENDS_BY(other.max_payload++);
    ENDS_BY(other.span++);
    ENDS_BY(other.key[0].id = 9);
    ENDS_BY(other.key[1].half[1] ^= 1);
    for (unsigned w = 1; w <= 2; w++) {
        ENDS_BY(other.worker[w].limit++);
        ENDS_BY(other.worker[w].steady ^= 1);
        ENDS_BY(other.worker[w].ip ^= 1);
        ENDS_BY(other.worker[w].port ^= 1);
        ENDS_BY(other.worker[w].shift++);
    }
#undef ENDS_BY
    other = d; /* what the program counts is no term */
    other.turn++;
    other.loan = 7;
    other.rank[1]++;
    other.worker[1].given++;
    other.worker[1].received++;
    other.worker[1].served++;
    assert_true(holds_with(other));
    bt_router_drain(b.r, b.now);
    assert_false(holds_with(d));
}

/* --- notes ------------------------------------------------------------------------------------------------------- */

static struct bt_delegation_note note(enum bt_delegation_kind kind, unsigned worker, uint16_t id)
{
    struct bt_delegation_note n = {
        .at = b.now, .kind = (uint8_t)kind, .worker = (uint8_t)worker, .req_id = htobe16(id), .port = htobe16(33000)};
    memcpy(&n.ip, b.client.ip + 12, sizeof n.ip);
    return n;
}

static bool replay(const struct bt_delegation_note *n)
{
    bool agreed = bt_router_replay(b.r, n, &b.out);
    assert_int_equal(b.out.n, 0);
    return agreed;
}

/* Who would be next. */
static uint32_t next_worker(void)
{
    struct bt_load copy = b.r->load;
    return bt_jbsq(&copy);
}

static void a_request_is_done_again(void **state)
{
    (void)state;
    open_lent(2, 2);
    b.now += MS;
    unsigned chosen = next_worker();
    struct bt_delegation_note n = note(BT_NOTE_REQUEST, chosen, 7);
    assert_true(replay(&n));
    assert_int_equal(bed_counter(&b, BT_RC_REQUESTS), 1);
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED), 1);
    assert_int_equal(bed_outstanding(&b, chosen), 1);
    assert_int_equal(bed_pairs(&b), 1);
    n = note(BT_NOTE_REQUEST, chosen, 8); /* the other one is idle: the note's word is taken */
    assert_false(replay(&n));
    assert_int_equal(bed_outstanding(&b, chosen), 2);
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED), 2);
    bed_send(&b, 9);
    assert_int_equal(bed_take(&b), 1 - (int)chosen);
}

static void feedback_is_done_again(void **state)
{
    (void)state;
    static struct bt_hist h;
    open_lent(2, 1);
    unsigned chosen = next_worker();
    struct bt_delegation_note n = note(BT_NOTE_REQUEST, chosen, 7);
    assert_true(replay(&n));
    b.now += 3 * MS;
    n = note(BT_NOTE_FEEDBACK, chosen, 7);
    n.received = n.served = 1;
    uint64_t feedback = bed_counter(&b, BT_RC_FEEDBACK);
    assert_true(replay(&n));
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK), feedback + 1);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 1);
    assert_int_equal(bed_outstanding(&b, chosen), 0);
    assert_int_equal(bed_row(&b, chosen).done, 1);
    assert_int_equal(bed_row(&b, chosen).feedback_age_ns, 0);
    bt_hist_slices_merge(bt_router_latency(b.r), b.now, 60, &h, &(struct bt_hist_window){0});
    assert_int_equal(h.total, 1);
    assert_int_equal(h.sum_ns, 3 * MS);
    /* Received goes on before served does, so the credit has to be looked at. */
    n = note(BT_NOTE_REQUEST, next_worker(), 8);
    assert_true(replay(&n));
    b.now -= MS; /* a note of an earlier time */
    n = note(BT_NOTE_FEEDBACK, n.worker, 8);
    n.received = n.served = n.worker == chosen ? 2 : 1;
    assert_true(replay(&n));
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 2);
    bt_hist_slices_merge(bt_router_latency(b.r), b.now, 60, &h, &(struct bt_hist_window){0});
    assert_int_equal(h.sum_ns, 3 * MS);
}

/* What it says contradicts what is known: as ever, with M-22. */
static void feedback_that_contradicts_itself(void **state)
{
    (void)state;
    open_lent(2, 1);
    struct bt_delegation_note n = note(BT_NOTE_FEEDBACK, 0, 7);
    n.received = 1;
    n.served = 2;
    uint64_t feedback = bed_counter(&b, BT_RC_FEEDBACK);
    assert_true(replay(&n));
    assert_int_equal(bed_malformed(&b, BT_M22), 1);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK), feedback);
    assert_int_equal(bed_outstanding(&b, 0), 0);
}

static void notes_of_nobody(void **state)
{
    (void)state;
    bed_open(&b, BT_DELEGATION_WORKERS + 1u, 1); /* one more than can be lent to */
    bed_join_all(&b, 1);
    b.r->worker[63].flags = 0;
    static const uint8_t strange[] = {63, BT_DELEGATION_WORKERS, 255};
    for (unsigned i = 0; i < sizeof strange; i++) {
        for (int kind = BT_NOTE_REQUEST; kind <= BT_NOTE_FEEDBACK; kind++) {
            struct bt_delegation_note n = note(kind, strange[i], 7);
            assert_false(replay(&n));
        }
    }
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED), 0);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK), BT_DELEGATION_WORKERS + 1u);
    assert_int_equal(bed_malformed(&b, BT_M22), 0);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_teardown(name, close_bed)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason_has_its_words),
        EACH(only_jbsq_without_hold_back),
        EACH(not_who_looks_at_every_request),
        EACH(only_encapsulated),
        EACH(not_on_two_threads),
        EACH(sixty_four_workers_and_no_more),
        EACH(not_to_a_legacy_worker),
        EACH(not_to_an_ipv6_worker),
        EACH(not_at_every_moment),
        EACH(a_worker_as_it_stands),
        EACH(the_keys_and_which_signs),
        EACH(a_few_workers_have_no_groups),
        EACH(seventeen_workers_have_groups),
        EACH(a_loan_ends_with_each_of_its_terms),
        EACH(a_request_is_done_again),
        EACH(feedback_is_done_again),
        EACH(feedback_that_contradicts_itself),
        EACH(notes_of_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
