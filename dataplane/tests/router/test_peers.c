// SPDX-License-Identifier: Apache-2.0
// Who may speak to a router: legacy peers, key tags, malformed FEEDBACK.
#include <string.h>

#include "router/bed.h"

/* --- legacy peers ------------------------------------------------------------------------------------------------ */

static void open_legacy(struct bed *b, uint32_t k, uint32_t n)
{
    bed_defaults(b, k, n);
    b->config.legacy_peers = true;
    b->config.forwarding = BT_FORWARD_TRANSPARENT;
    bed_build(b);
}

static void r110_legacy_worker_starts_with_one_request(void **state)
{
    (void)state;
    struct bed b;
    open_legacy(&b, 1, 3);
    bed_send(&b, 1);
    bed_send(&b, 2);
    struct bt_pkt *pkt = bed_packet(&b);
    assert_non_null(pkt);
    assert_int_equal(pkt->data[1], 8); /* no options: it reads its payload at offset 8 */
    assert_int_equal(pkt->tx_as_src, 1);
    assert_true(bt_addr_eq(&pkt->src, &b.client));
    bt_pool_put(b.pool, pkt);
    assert_int_equal(bed_held(&b), 1);
    bed_legacy(&b, 0, 1);
    assert_int_equal(bed_take(&b), 0);
    assert_int_equal(bed_row(&b, 0).n, 3);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 1);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK_LEGACY), 1);
    bed_close(&b);
}

static void r110_leaked_legacy_credit_is_reclaimed_with_patience(void **state)
{
    (void)state;
    struct bed b;
    open_legacy(&b, 1, 1);
    b.config.max_queue_ns = 600 * SEC;
    bed_apply(&b);
    uint64_t gaps[4] = {0}, last = b.now;
    uint16_t id = 0;
    bed_send(&b, id++);
    assert_int_equal(bed_take(&b), 0); /* its FEEDBACK is lost, and all that follow */
    for (int i = 0; i < 4; i++) {
        bed_send(&b, id++);
        for (int t = 0; bed_take(&b) != 0; t++) {
            assert_true(t < 10000);
            bed_tick(&b, MS);
        }
        gaps[i] = b.now - last;
        last = b.now;
    }
    assert_true(gaps[0] >= 100 * MS && gaps[0] < 250 * MS);
    for (int i = 1; i < 4; i++) {
        assert_true(gaps[i] > gaps[i - 1] * 3 / 2);
    }
    assert_int_equal(bed_counter(&b, BT_RC_CREDITS_RECLAIMED), 4);
    bed_legacy(&b, 0, 3);  /* it lives: patience starts over */
    bed_tick(&b, 5 * SEC); /* and an idle legacy worker may be silent for ever */
    assert_false(bed_row(&b, 0).suspect);
    assert_true(bed_row(&b, 0).eligible);
    bed_close(&b);
}

/* a worker died with more requests than its n is now. No request can be the probe before all of them but n - 1
 * are taken back, so they go at once: one by one, each more patiently, a new life of it would idle for minutes. */
static void r110_credits_beyond_n_are_reclaimed_together(void **state)
{
    (void)state;
    struct bed b;
    open_legacy(&b, 1, 16);
    bed_send(&b, 0);
    assert_int_equal(bed_take(&b), 0);
    bed_legacy(&b, 0, 0); /* heard of: its n is the configured one */
    for (uint16_t id = 1; id <= 16; id++) {
        bed_send(&b, id);
        assert_int_equal(bed_take(&b), 0);
    }
    b.config.depth = 4;
    bed_apply(&b);
    bed_send(&b, 17);
    uint64_t start = b.now;
    while (bed_take(&b) != 0) {
        assert_true(b.now - start < 250 * MS);
        bed_tick(&b, MS);
    }
    assert_true(b.now - start >= 90 * MS); /* not before T_leak */
    assert_int_equal(bed_outstanding(&b, 0), 4);
    assert_int_equal(bed_counter(&b, BT_RC_CREDITS_RECLAIMED), 13);
    bed_close(&b);
}

/* under a policy that n does not limit, each credit given back would be a request more for a dead worker. */
static void r110_without_a_bound_credits_are_reclaimed_one_by_one(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 4);
    b.config.legacy_peers = true;
    b.config.forwarding = BT_FORWARD_TRANSPARENT;
    b.config.policy = BT_ROUTER_JSQ;
    bed_build(&b);
    for (uint16_t id = 1; id <= 40; id++) {
        bed_send(&b, id);
        assert_int_equal(bed_take(&b), 0);
    }
    for (int t = 0; bed_counter(&b, BT_RC_CREDITS_RECLAIMED) == 0; t++) {
        assert_true(t < 250);
        bed_tick(&b, MS);
    }
    assert_int_equal(bed_counter(&b, BT_RC_CREDITS_RECLAIMED), 1);
    assert_int_equal(bed_outstanding(&b, 0), 39);
    bed_close(&b);
}

/* R-110 where there is no key: a worker that claimed 2^56 requests gives way to one that speaks the short form. What it
 * owes beyond n goes at once, however much that is: counted one by one the router would stand still for years. */
static void r110_forged_counters_are_reclaimed_at_once(void **state)
{
    (void)state;
    struct bed b;
    open_legacy(&b, 1, 3);
    bed_join(&b, 0, 3);
    bed_feedback(&b, 0, &(struct bed_report){.received = UINT64_C(1) << 56, .n = 3, .incarnation = 1});
    bed_tick(&b, 2 * SEC);
    bed_legacy(&b, 0, 7);
    assert_true(bed_row(&b, 0).legacy && bed_row(&b, 0).outstanding == UINT32_MAX);
    bed_tick(&b, SEC);
    assert_true(bed_row(&b, 0).eligible && bed_row(&b, 0).outstanding == 2);
    bed_close(&b);
}

/* a pool that takes 100 ms to answer is not reclaimed after 100 ms. */
static void r110_patience_follows_the_observed_latency(void **state)
{
    (void)state;
    struct bed b;
    open_legacy(&b, 1, 1);
    for (uint16_t i = 0; i < 60; i++) {
        bed_send(&b, i);
        assert_int_equal(bed_take(&b), 0);
        for (int t = 0; t < 9; t++) {
            bed_tick(&b, 10 * MS);
        }
        bed_legacy(&b, 0, i);
    }
    bed_send(&b, 100);
    assert_int_equal(bed_take(&b), 0);
    uint64_t start = b.now;
    while (bed_outstanding(&b, 0) > 0) {
        assert_true(b.now - start < 10 * SEC);
        bed_tick(&b, 10 * MS);
    }
    assert_in_range(b.now - start, 1800 * MS, 4200 * MS); /* 20 × 90 ms, and up to the next power of two */
    bed_close(&b);
}

static void r110_legacy_feedback_needs_permission(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_legacy(&b, 0, 1);
    assert_int_equal(bed_malformed(&b, BT_M21), 1);
    assert_false(bed_row(&b, 0).joined);
    bed_close(&b);
}

/* A worker that says JOIN the long way is no longer treated as legacy; permission withdrawn ends the others. */
static void legacy_workers_can_grow_up_or_be_shut_out(void **state)
{
    (void)state;
    struct bed b;
    open_legacy(&b, 2, 2);
    assert_true(bed_row(&b, 0).legacy && bed_row(&b, 0).eligible);
    bed_join(&b, 0, 2);
    assert_false(bed_row(&b, 0).legacy);
    bed_legacy(&b, 0, 1); /* and does not fall back while it lives */
    assert_int_equal(bed_malformed(&b, BT_M22), 1);
    b.config.legacy_peers = false;
    bed_apply(&b);
    assert_true(bed_row(&b, 0).eligible);
    assert_false(bed_row(&b, 1).eligible);
    b.config.legacy_peers = true;
    b.config.forwarding = BT_FORWARD_ENCAPSULATED; /* they could not learn the client's address */
    bed_apply(&b);
    assert_false(bed_row(&b, 1).eligible);
    bed_close(&b);
}

/* An extended worker that fell silent may have been replaced, at its address, by one that speaks only when it was
 * asked: after T_max it gets one request, like a worker never heard of. One that said LEAVE gets none. */
static void r110_silent_worker_may_have_become_a_legacy_one(void **state)
{
    (void)state;
    struct bed b;
    open_legacy(&b, 2, 3);
    bed_join(&b, 0, 3);
    bed_join(&b, 1, 3);
    bed_feedback(&b, 1, &(struct bed_report){.n = 3, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    bed_tick(&b, 2 * SEC);
    assert_true(bed_row(&b, 0).suspect);
    for (int t = 0; t < 12; t++) {
        assert_false(bed_row(&b, 0).eligible && t < 9);
        bed_tick(&b, SEC);
    }
    assert_true(bed_row(&b, 0).eligible && bed_row(&b, 0).legacy);
    assert_int_equal(bed_row(&b, 0).n, 1);
    assert_false(bed_row(&b, 1).eligible);
    bed_send(&b, 2);
    assert_int_equal(bed_take(&b), 0);
    bed_legacy(&b, 0, 2);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK_LEGACY), 1);
    assert_int_equal(bed_row(&b, 0).n, 3);
    assert_int_equal(bed_row(&b, 0).outstanding, 0);
    bed_feedback(&b, 0, &(struct bed_report){.n = 2, .incarnation = 2, .flags = BT_FEEDBACK_JOIN}); /* it grew up */
    assert_true(bed_row(&b, 0).eligible && !bed_row(&b, 0).legacy);
    bed_close(&b);
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

static void open_keyed(struct bed *b, bool legacy_peers)
{
    bed_defaults(b, 2, 2);
    bed_use_keys(b);
    b->config.legacy_peers = legacy_peers;
    bed_build(b);
}

static void r57_feedback_needs_a_valid_tag(void **state)
{
    (void)state;
    struct bed b;
    open_keyed(&b, false);
    struct bt_key wrong = {.id = 1, .bytes = {9}}, unknown = {.id = 9, .bytes = {9}};
    struct bed_report join = {.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN};
    join.untagged = true;
    bed_feedback(&b, 0, &join);
    join.untagged = false;
    join.key = &wrong;
    bed_feedback(&b, 0, &join);
    join.key = &unknown;
    bed_feedback(&b, 0, &join);
    assert_int_equal(bed_malformed(&b, BT_M_TAG), 3);
    assert_false(bed_row(&b, 0).joined);
    join.key = &b.keys.key[1]; /* both live keys are good during a rotation */
    bed_feedback(&b, 0, &join);
    assert_true(bed_row(&b, 0).joined);
    join.key = &b.keys.key[0];
    bed_feedback(&b, 1, &join);
    assert_true(bed_row(&b, 1).joined);
    bed_close(&b);
}

static void r57_a_tag_holds_for_one_source_only(void **state)
{
    (void)state;
    struct bed b;
    open_keyed(&b, false);
    uint8_t bytes[128];
    size_t len =
        bed_feedback_make(&b, 0, &(struct bed_report){.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN}, bytes);
    bed_feedback_bytes(&b, &b.members[1], bytes, len);
    assert_int_equal(bed_malformed(&b, BT_M_TAG), 1);
    for (size_t i = 12; i < len; i++) { /* nor for any changed byte */
        bytes[i] ^= 1;
        bed_feedback_bytes(&b, &b.members[0], bytes, len);
        bytes[i] ^= 1;
    }
    assert_false(bed_row(&b, 0).joined);
    bed_feedback_bytes(&b, &b.members[0], bytes, len);
    assert_true(bed_row(&b, 0).joined);
    bed_close(&b);
}

static void r57_legacy_allow_spares_the_tag_of_16_bytes_only(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 2, 2);
    bed_use_keys(&b);
    b.config.legacy_peers = true;
    b.config.forwarding = BT_FORWARD_TRANSPARENT;
    bed_build(&b);
    struct bt_key wrong = {.id = 1, .bytes = {9}};
    struct bed_report join = {.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN, .key = &wrong};
    bed_feedback(&b, 0, &join); /* a wrong tag stays wrong */
    assert_true(bed_row(&b, 0).legacy);
    join.key = NULL;
    join.untagged = true;
    bed_feedback(&b, 0, &join); /* who can write the long form can write a tag */
    assert_true(bed_row(&b, 0).legacy);
    assert_int_equal(bed_malformed(&b, BT_M_TAG), 2);
    bed_legacy(&b, 0, 1);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK_LEGACY), 1);
    bed_join(&b, 1, 2);
    assert_true(bed_row(&b, 1).eligible && !bed_row(&b, 1).legacy);
    bed_feedback(&b, 1, &(struct bed_report){.incarnation = 2, .flags = BT_FEEDBACK_LEAVE, .untagged = true});
    assert_true(bed_row(&b, 1).eligible); /* a stranger cannot send it away by leaving the tag off */
    bed_close(&b);
}

static void r57_replays_change_nothing(void **state)
{
    (void)state;
    struct bed b;
    open_keyed(&b, false);
    uint8_t old[128];
    bed_join(&b, 0, 2);
    bed_send(&b, 1);
    bed_send(&b, 2);
    bed_discard(&b);
    size_t len = bed_feedback_make(&b, 0, &(struct bed_report){.received = 1, .n = 1, .incarnation = 1}, old);
    bed_feedback_bytes(&b, &b.members[0], old, len);
    bed_feedback(&b, 0, &(struct bed_report){.received = 2, .served = 1, .n = 2, .incarnation = 1});
    b.now += MS;
    bed_feedback_bytes(&b, &b.members[0], old, len);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    assert_int_equal(bed_row(&b, 0).n, 2);
    assert_int_equal(bed_row(&b, 0).feedback_age_ns, MS); /* no sign of life either */
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK_STALE), 1);
    bed_close(&b);
}

/* A worker in steady service: every request is answered by a FEEDBACK that only raises its counters. */
static struct bed_report steady_report(struct bed *b, uint16_t req_id)
{
    bed_send(b, req_id);
    bed_discard(b);
    return (struct bed_report){
        .received = req_id, .served = req_id, .n = 2, .incarnation = 1, .flags = BT_FEEDBACK_PAIR, .req_id = req_id};
}

/* Nothing but the tag tells such a FEEDBACK from a forged one: each changed byte, a missing tag and an unknown key are
 * found, and both live keys are good. */
static void r57_steady_feedback_needs_its_tag_too(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 2);
    bed_use_keys(&b);
    bed_build(&b);
    bed_join_all(&b, 2);
    uint8_t bytes[128];
    struct bed_report report = steady_report(&b, 1);
    size_t len = bed_feedback_make(&b, 0, &report, bytes);
    assert_int_equal(len, 52);
    uint64_t taken = bed_counter(&b, BT_RC_FEEDBACK);
    for (size_t i = 0; i < len; i++) {
        bytes[i] ^= 1;
        bed_feedback_bytes(&b, &b.members[0], bytes, len);
        bytes[i] ^= 1;
    }
    assert_true(bed_malformed(&b, BT_M_TAG) > len / 2); /* others are malformed besides */
    struct bt_key unknown = {.id = 9, .bytes = {9}}, none = {.id = 0};
    const struct bt_key *bad[] = {&unknown, &none};
    for (size_t i = 0; i < 2; i++) {
        uint64_t before = bed_malformed(&b, BT_M_TAG);
        report.key = bad[i];
        bed_feedback(&b, 0, &report);
        assert_int_equal(bed_malformed(&b, BT_M_TAG), before + 1);
    }
    report.untagged = true;
    bed_feedback(&b, 0, &report);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK), taken);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    bed_feedback_bytes(&b, &b.members[0], bytes, len);
    report = steady_report(&b, 2);
    report.key = &b.keys.key[1];
    bed_feedback(&b, 0, &report);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK), taken + 2);
    assert_int_equal(bed_outstanding(&b, 0), 0);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 2);
    bed_close(&b);
}

/* Where one key is live, the empty place of the other one is no key that anybody could sign with. */
static void r57_no_key_signs_nothing(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 2);
    bed_use_keys(&b);
    b.keys.key[1] = (struct bt_key){.id = 0};
    bed_build(&b);
    bed_join_all(&b, 2);
    struct bt_key none = {.id = 0};
    struct bed_report report = steady_report(&b, 1);
    report.key = &none;
    bed_feedback(&b, 0, &report);
    assert_int_equal(bed_malformed(&b, BT_M_TAG), 1);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    bed_close(&b);
}

/* A tag is an option like any other where the service has no key. */
static void r57_without_a_key_tags_mean_nothing(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    bed_join_all(&b, 2);
    struct bed_report report = steady_report(&b, 1);
    uint8_t bytes[128];
    b.config.keys = &b.keys; /* of the worker only */
    b.keys.key[0].id = 3;
    size_t len = bed_feedback_make(&b, 0, &report, bytes);
    assert_int_equal(len, 52);
    bed_feedback_bytes(&b, &b.members[0], bytes, len);
    assert_int_equal(bed_outstanding(&b, 0), 0);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 1);
    bed_close(&b);
}

/* --- malformed FEEDBACK ------------------------------------------------------------------------------------------ */

static void r54_malformed_feedback_is_counted_and_discarded(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    uint8_t good[128];
    size_t len =
        bed_feedback_make(&b, 0, &(struct bed_report){.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_JOIN}, good);
    assert_int_equal(len, 40);
    struct {
        size_t len, at;
        uint8_t value;
        enum bt_mcase m;
    } cases[] = {{0, 0, 0xcc, BT_M1},   {7, 0, 0xcc, BT_M1},  {40, 0, 0xcd, BT_M2},  {40, 1, 4, BT_M3},
                 {40, 1, 200, BT_M3},   {40, 2, 0x00, BT_M5}, {40, 2, 0x10, BT_M5},  {40, 2, 0x26, BT_M6},
                 {40, 3, 0x80, BT_M7},  {40, 7, 2, BT_M8},    {39, 0, 0xcc, BT_M21}, {24, 0, 0xcc, BT_M21},
                 {41, 0, 0xcc, BT_M25}, {17, 0, 0xcc, BT_M21}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[128];
        memcpy(bytes, good, sizeof bytes);
        bytes[cases[i].at] = cases[i].value;
        uint64_t before = bed_malformed(&b, cases[i].m);
        bed_feedback_bytes(&b, &b.members[0], bytes, cases[i].len);
        if (bed_malformed(&b, cases[i].m) != before + 1) {
            fail_msg("case %zu: not counted as %s", i, bt_mcase_name(cases[i].m));
        }
    }
    assert_false(bed_row(&b, 0).joined);
    bed_close(&b);
}

/* version 0 has no long form, and a worker that is not in service has no FEEDBACK that may take the short way. */
static void r54_zeroes_are_no_steady_feedback(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    bed_join_all(&b, 2);
    bed_send(&b, 1);
    bed_discard(&b);
    bed_feedback(&b, 0, &(struct bed_report){.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    uint64_t taken = bed_counter(&b, BT_RC_FEEDBACK);
    uint8_t bytes[128];
    size_t len = bed_feedback_make(
        &b, 0, &(struct bed_report){.received = 1, .served = 1, .flags = BT_FEEDBACK_PAIR, .req_id = 1}, bytes);
    memset(bytes + BT_R2P2_HEADER + BT_FEEDBACK_VERSION_AT, 0, 8);
    bed_feedback_bytes(&b, &b.members[0], bytes, len);
    assert_int_equal(bed_malformed(&b, BT_M21), 1);
    assert_int_equal(bed_counter(&b, BT_RC_FEEDBACK), taken);
    assert_int_equal(bed_outstanding(&b, 0), 1);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r110_legacy_worker_starts_with_one_request),
        cmocka_unit_test(r110_leaked_legacy_credit_is_reclaimed_with_patience),
        cmocka_unit_test(r110_credits_beyond_n_are_reclaimed_together),
        cmocka_unit_test(r110_without_a_bound_credits_are_reclaimed_one_by_one),
        cmocka_unit_test(r110_patience_follows_the_observed_latency),
        cmocka_unit_test(r110_legacy_feedback_needs_permission),
        cmocka_unit_test(legacy_workers_can_grow_up_or_be_shut_out),
        cmocka_unit_test(r110_forged_counters_are_reclaimed_at_once),
        cmocka_unit_test(r110_silent_worker_may_have_become_a_legacy_one),
        cmocka_unit_test(r57_feedback_needs_a_valid_tag),
        cmocka_unit_test(r57_a_tag_holds_for_one_source_only),
        cmocka_unit_test(r57_steady_feedback_needs_its_tag_too),
        cmocka_unit_test(r57_no_key_signs_nothing),
        cmocka_unit_test(r57_without_a_key_tags_mean_nothing),
        cmocka_unit_test(r57_legacy_allow_spares_the_tag_of_16_bytes_only),
        cmocka_unit_test(r57_replays_change_nothing),
        cmocka_unit_test(r54_malformed_feedback_is_counted_and_discarded),
        cmocka_unit_test(r54_zeroes_are_no_steady_feedback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
