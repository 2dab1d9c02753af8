// SPDX-License-Identifier: Apache-2.0
// What is measured of a request, and the table of those that are under way: from arrival to FEEDBACK.
#include <string.h>

#include "router/bed.h"

/* time in the router's queue counts. R-208: a request is found by its pair. */
static void latency_runs_from_arrival_to_feedback(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    bed_send(&b, 1);
    bed_send(&b, 2); /* held: its waiting counts */
    b.now += 3 * MS;
    bed_feedback(&b, 0,
                 &(struct bed_report){
                     .received = 1, .served = 1, .n = 1, .incarnation = 1, .flags = BT_FEEDBACK_PAIR, .req_id = 1});
    b.now += 3 * MS;
    bed_feedback(&b, 0,
                 &(struct bed_report){
                     .received = 2, .served = 2, .n = 1, .incarnation = 1, .flags = BT_FEEDBACK_PAIR, .req_id = 2});
    bed_send(&b, 3);
    b.now += MS;
    bed_feedback(&b, 0,
                 &(struct bed_report){.received = 3,
                                      .served = 3,
                                      .n = 1,
                                      .incarnation = 1,
                                      .flags = BT_FEEDBACK_PAIR | BT_FEEDBACK_DROPPED,
                                      .req_id = 3});
    bed_send(&b, 4); /* never answered */
    bed_tick(&b, 10 * SEC - 1);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNANSWERED), 0);
    bed_tick(&b, 1);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNANSWERED), 1);
    static struct bt_hist h;
    struct bt_hist_window window;
    bt_hist_slices_merge(bt_router_latency(b.r), b.now, 60, &h, &window);
    assert_int_equal(h.total, 3);
    assert_int_equal(h.inf, 1);
    assert_int_equal(h.sum_ns, 9 * MS);
    assert_int_equal(h.bucket[bt_hist_index(3 * MS)], 1);
    assert_int_equal(h.bucket[bt_hist_index(6 * MS)], 1);
    assert_int_equal(window.arrived, 4);
    assert_int_equal(window.rejected, 1);
    bt_hist_slices_merge(bt_router_hold(b.r), b.now, 60, &h, &window);
    assert_int_equal(h.total, 4);
    assert_int_equal(h.sum_ns, 3 * MS);
    bed_close(&b);
}

/* the time is that of reception, however long the packet then lay in a burst. */
static void r204_the_time_is_that_of_reception(void **state)
{
    (void)state;
    static struct bt_hist h;
    struct bed b;
    bed_open(&b, 1, 1);
    bed_join_all(&b, 1);
    b.now += 10 * MS;
    b.lay_ns = 2 * MS;
    bed_send(&b, 1);
    b.lay_ns = 0;
    b.now += MS;
    bed_feedback(&b, 0,
                 &(struct bed_report){
                     .received = 1, .served = 1, .n = 1, .incarnation = 1, .flags = BT_FEEDBACK_PAIR, .req_id = 1});
    bt_hist_slices_merge(bt_router_latency(b.r), b.now, 60, &h, &(struct bt_hist_window){0});
    assert_int_equal(h.total, 1);
    assert_int_equal(h.sum_ns, 3 * MS);
    bed_close(&b);
}

/* The short way reads DROPPED and not CANCELLED, which says nothing by itself; the long one may not count otherwise
 * . The kernel's program relies on it: what it took is done again as served. */
static void cancelled_says_nothing_without_dropped(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 2);
    bed_join_all(&b, 2);
    struct bed_report report = {.n = 2, .incarnation = 1, .flags = BT_FEEDBACK_PAIR | 0x20};
    for (uint16_t id = 1; id <= 4; id++) {
        bed_send(&b, id);
        bed_discard(&b);
        report.received = report.served = id;
        report.req_id = id;
        report.n = id <= 2 ? 2 : 1; /* what is new goes the long way, the same again the short one */
        bed_feedback(&b, 0, &report);
    }
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 4);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_REJECTED), 0);
    bed_close(&b);
}

static void latency_pairs_are_bounded_and_checked(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 2, 1);
    b.config.policy = BT_ROUTER_ROUND_ROBIN;
    bed_build(&b);
    bed_join_all(&b, 1);
    for (uint32_t i = 0; i < 300; i++) {
        bed_send(&b, (uint16_t)i);
        bed_discard(&b);
    }
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED), 300);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FULL), 300 - 256);
    struct bed_report report = {.received = 150, .served = 1, .n = 1, .incarnation = 1, .flags = BT_FEEDBACK_PAIR};
    bed_feedback(&b, 1, &report); /* pair 0 went to worker 0 */
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNKNOWN), 1);
    bed_feedback(&b, 0, &report);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 1);
    bed_feedback(&b, 0, &report); /* the network's copy */
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 1);
    bed_close(&b);
}

/* Sends 256 requests, 1 µs apart, and ends all but 16, in strides; each end comes twice, and the copy ends nothing. */
static void end_in_strides(struct bed *b, struct bed_report *report, uint32_t stride, bool ended[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        b->now += 1000;
        bed_send(b, (uint16_t)(1000 + i));
        bed_discard(b);
    }
    report->received += 256;
    memset(ended, 0, 256 * sizeof *ended);
    for (uint32_t i = 0; i < 256 - 16; i++) {
        uint64_t finished = bed_counter(b, BT_RC_PAIRS_FINISHED);
        report->served++;
        report->req_id = (uint16_t)(1000 + i * stride % 256);
        ended[i * stride % 256] = true;
        bed_feedback(b, 0, report);
        bed_feedback(b, 0, report);
        assert_int_equal(bed_counter(b, BT_RC_PAIRS_FINISHED), finished + 1);
    }
}

/* The table full to its limit, so that many pairs share a slot: each is found once, whichever ends first, and its place
 * is used again. What nobody ends expires after 10 s, oldest first. */
static void latency_pairs_end_in_any_order(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 1);
    b.config.policy = BT_ROUTER_RANDOM;
    bed_build(&b);
    struct bed_report report = {.n = 1, .incarnation = 1, .flags = BT_FEEDBACK_PAIR};
    for (uint32_t stride = 1; stride < 256; stride += 50) {
        bool ended[256];
        bed_feedback(
            &b, 0,
            &(struct bed_report){.n = 1, .incarnation = 1, .served = report.served, .received = report.received});
        uint64_t start = b.now, left = 16;
        end_in_strides(&b, &report, stride, ended);
        for (uint32_t i = 0; i < 256; i++) {
            bed_tick(&b, start + (i + 1) * 1000 + 10 * SEC - 1 - b.now);
            assert_int_equal(bed_pairs(&b), left);
            bed_tick(&b, 1);
            left -= ended[i] ? 0 : 1;
            assert_int_equal(bed_pairs(&b), left);
        }
        assert_int_equal(left, 0);
    }
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FULL), 0);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNANSWERED), 6 * 16);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latency_runs_from_arrival_to_feedback),
        cmocka_unit_test(r204_the_time_is_that_of_reception),
        cmocka_unit_test(cancelled_says_nothing_without_dropped),
        cmocka_unit_test(latency_pairs_are_bounded_and_checked),
        cmocka_unit_test(latency_pairs_end_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
