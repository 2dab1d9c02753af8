// SPDX-License-Identifier: Apache-2.0
// Packets bear the times at which they were received, and threads read their clocks for themselves: a router is told a
// time before one it knows already. Its own never goes back, whichever way it is told.
#include <string.h>

#include "router/bed.h"
#include "router/state.h"

static struct bed b;

/* Both workers are idle, and so much time is known. */
static int open_bed(void **state)
{
    (void)state;
    bed_defaults(&b, 2, 1);
    bed_build(&b);
    bed_join_all(&b, 1);
    bed_tick(&b, 10 * MS);
    return 0;
}

static int close_bed(void **state)
{
    (void)state;
    bed_close(&b);
    return 0;
}

static void served(uint64_t at, uint32_t w, uint16_t id)
{
    b.now = at;
    bed_feedback(&b, w,
                 &(struct bed_report){
                     .received = 1, .served = 1, .n = 1, .incarnation = 1, .flags = BT_FEEDBACK_PAIR, .req_id = id});
}

/* Sum of the times that requests waited in the router. */
static uint64_t waited(unsigned requests)
{
    static struct bt_hist h;
    bt_hist_slices_merge(bt_router_hold(b.r), b.r->now, 60, &h, &(struct bt_hist_window){0});
    assert_int_equal(h.total, requests);
    return h.sum_ns;
}

/* A request that was received before the router's time, and is told of with its own. */
static void of_a_request(void **state)
{
    (void)state;
    uint64_t known = b.now;
    b.now = known - 4 * MS;
    bed_send(&b, 1);
    assert_int_equal(b.r->now, known);
    assert_int_equal(waited(1), 4 * MS); /* until it was decided */
    b.now = known + MS;
    bed_send(&b, 2);
    assert_int_equal(b.r->now, known + MS);
}

static void of_feedback(void **state)
{
    (void)state;
    uint64_t known = b.now;
    bed_send(&b, 1);
    int w = bed_take(&b);
    served(known - 4 * MS, (uint32_t)w, 1);
    assert_int_equal(b.r->now, known);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_FINISHED), 1);
    b.now = known;
    assert_int_equal(bed_row(&b, (uint32_t)w).feedback_age_ns, 0);
    b.now = known + MS;
    bed_feedback(&b, (uint32_t)w, &(struct bed_report){.received = 1, .served = 1, .n = 1, .incarnation = 1});
    assert_int_equal(b.r->now, known + MS);
}

/* A tick of long ago takes nothing that is held for too old, and makes nobody suspect. */
static void of_a_tick(void **state)
{
    (void)state;
    uint64_t known = b.now;
    for (uint16_t id = 1; id <= 3; id++) {
        bed_send(&b, id);
    }
    b.now = known - 9 * MS;
    bed_tick(&b, 0);
    assert_int_equal(b.r->now, known);
    assert_int_equal(bed_held(&b), 1);
    assert_int_equal(bed_counter(&b, BT_RC_SUSPECTED), 0);
    bed_tick(&b, 10 * MS);
    assert_int_equal(b.r->now, known + MS);
}

/* Who is suspect is given up T_max after the router's time, not after the one that was told. */
static void of_an_unreachable_worker(void **state)
{
    (void)state;
    uint64_t known = b.now;
    bed_send(&b, 1);
    uint32_t w = (uint32_t)bed_take(&b);
    bt_router_unreachable(b.r, known - 9 * MS, &b.members[w]);
    assert_int_equal(b.r->now, known);
    assert_true(bed_row(&b, w).suspect);
    bed_tick(&b, b.config.request_timeout_ns - MS);
    assert_int_equal(bed_counter(&b, BT_RC_FORGOTTEN), 0);
    bed_tick(&b, 200 * MS); /* and the time until workers are looked at */
    assert_int_equal(bed_counter(&b, BT_RC_FORGOTTEN), 1);
    bt_router_unreachable(b.r, b.now + MS, &b.members[w]);
    assert_int_equal(b.r->now, b.now + MS);
}

static void of_a_configuration(void **state)
{
    (void)state;
    uint64_t known = b.now;
    struct bt_router_refusal why;
    assert_true(bt_router_apply(b.r, known - 9 * MS, &b.config, &why));
    assert_int_equal(b.r->now, known);
    assert_true(bt_router_apply(b.r, known + MS, &b.config, &why));
    assert_int_equal(b.r->now, known + MS);
}

/* It has been quiet for a second when a second has gone by on its own clock. */
static void of_draining(void **state)
{
    (void)state;
    uint64_t known = b.now;
    bt_router_drain(b.r, known - 9 * MS);
    assert_int_equal(b.r->now, known);
    assert_false(bt_router_drained(b.r, known + SEC - 1, SEC));
    assert_true(bt_router_drained(b.r, known + SEC, SEC));
    assert_false(bt_router_drained(b.r, known - 1, 0));
    bt_router_drain(b.r, known + 5 * SEC); /* it has begun already */
    assert_true(bt_router_drained(b.r, known + SEC, SEC));
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, open_bed, close_bed)
    const struct CMUnitTest tests[] = {
        EACH(of_a_request),       EACH(of_feedback), EACH(of_a_tick), EACH(of_an_unreachable_worker),
        EACH(of_a_configuration), EACH(of_draining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
