// SPDX-License-Identifier: Apache-2.0
// What hedging measures, to the digit: the delay after which a copy is sent, and what two executions of the
// same request say of hiccups.
#include <string.h>

#include "router/hedging_bed.h"
#include "router/objective.h"

static struct hedging_bed h;
static uint16_t id;

static void open_with(uint32_t workers, enum bt_hedging_mode mode, uint32_t probe_per_million)
{
    hedging_open(&h, workers, 1, mode);
    h.b.config.hedging.probe_per_million = probe_per_million;
    bed_apply(&h.b);
    id = 0;
}

static int close_bed(void **state)
{
    (void)state;
    bed_close(&h.b);
    return 0;
}

/* --- the delay --------------------------------------------------------------------------------------------------- */

/* So many requests, of which none has a copy, take so long each. */
static void measure(unsigned requests, uint64_t took, bool dropped)
{
    int to[2];
    for (unsigned i = 0; i < requests; i++) {
        assert_int_equal(hedging_send(&h, ++id, to), 1);
        h.b.now += took;
        hedging_finish(&h, to[0], id, dropped);
    }
}

/* What is waited; a report is when the router looks whether it knows more. */
static uint64_t delay(void)
{
    hedging_report(&h);
    return hedging_stats(&h).hedging_delay_ns;
}

static uint64_t bucket_of(uint64_t ns)
{
    return bt_hist_value(bt_hist_index(ns));
}

/* ten beyond the 95th percentile are 200. What a worker dropped took no time that means anything. */
static void r250_two_hundred_samples(void **state)
{
    (void)state;
    open_with(2, BT_HEDGING_DELAYED, 0);
    measure(199, 100 * US, false);
    measure(50, 100 * US, true);
    h.b.now += SEC;
    assert_int_equal(delay(), 0);
    measure(1, 100 * US, false);
    assert_int_equal(delay(), bucket_of(100 * US));
}

/* it is of first copies. */
static void r250_copies_are_no_samples(void **state)
{
    (void)state;
    open_with(4, BT_HEDGING_DELAYED, 1000000);
    for (unsigned i = 0; i < 200; i++) {
        int to[2];
        assert_int_equal(hedging_send(&h, ++id, to), 2);
        h.b.now += MS;
        hedging_finish(&h, to[i % 2], id, false);
        hedging_finish(&h, to[1 - i % 2], id, false);
        if (i == 198) {
            h.b.now += SEC;
            assert_int_equal(delay(), 0);
        }
    }
    assert_int_equal(delay(), bucket_of(MS));
}

/* anew each second, from what came since. */
static void r250_the_delay_follows(void **state)
{
    (void)state;
    open_with(2, BT_HEDGING_DELAYED, 0);
    measure(200, 300 * US, false); /* 60 ms */
    assert_int_equal(delay(), 0);  /* a second is not over */
    h.b.now += SEC;
    assert_int_equal(delay(), bucket_of(300 * US));
    measure(200, 100 * US, false); /* 20 ms */
    h.b.now += SEC - 20 * MS - 1;
    assert_int_equal(delay(), bucket_of(300 * US));
    h.b.now += 1;
    assert_int_equal(delay(), bucket_of(100 * US));
    h.b.now += SEC;
    assert_int_equal(delay(), bucket_of(100 * US)); /* nothing came since: as it is */
    h.b.config.hedging.budget_percent = 3;
    bed_apply(&h.b);
    assert_int_equal(delay(), bucket_of(100 * US));
    h.b.config.hedging.per_100k = 94000; /* of another percentile nothing is known */
    bed_apply(&h.b);
    assert_int_equal(delay(), 0);
}

/* --- hiccups ----------------------------------------------------------------------------------------------------- */

/* Two executions, of which the first to end took so long, and the other so much longer. */
static void compare(unsigned pairs, uint64_t lesser, uint64_t differ)
{
    int to[2];
    for (unsigned i = 0; i < pairs; i++) {
        assert_int_equal(hedging_send(&h, ++id, to), 2);
        h.b.now += lesser;
        hedging_finish(&h, to[i % 2], id, false);
        h.b.now += differ;
        hedging_finish(&h, to[1 - i % 2], id, false);
    }
}

/* The shortest time that is counted with longer ones than this is. */
static uint64_t beyond(uint64_t ns)
{
    uint64_t next = ns;
    while (bt_hist_index(next) == bt_hist_index(ns)) {
        next++;
    }
    return next;
}

/* a hiccup is beyond four mean service times; p of 2p(1 - p) = h. */
static void r252_probability_and_mean(void **state)
{
    (void)state;
    open_with(4, BT_HEDGING_PROBE, 1000000);
    compare(82, 100 * US, 400 * US); /* not beyond */
    compare(9, 50 * US, beyond(400 * US));
    compare(9, 150 * US, 2 * MS);
    struct bt_router_stats s = hedging_stats(&h);
    assert_int_equal(s.jitter_compared, 100);
    assert_int_equal(s.service_ns, 100 * US);
    assert_int_equal(s.jitter_hiccups_ppm, 100000); /* 0.1: 0.18 of them differ */
    assert_int_equal(s.hiccup_ns, (bucket_of(beyond(400 * US)) + bucket_of(2 * MS)) / 2);
}

/* 4 of 100: (1 - sqrt(0.92)) / 2 is 0.02041685. */
static void r252_to_the_nearest_millionth(void **state)
{
    (void)state;
    open_with(4, BT_HEDGING_PROBE, 1000000);
    compare(96, 100 * US, 0);
    assert_int_equal(hedging_stats(&h).hiccup_ns, 0);
    assert_int_equal(hedging_stats(&h).jitter_hiccups_ppm, 0);
    compare(4, 100 * US, MS);
    assert_int_equal(hedging_stats(&h).jitter_hiccups_ppm, 20417);
    assert_int_equal(hedging_stats(&h).hiccup_ns, bucket_of(MS));
}

/* an execution that took no time at all is one, too. */
static void r252_an_answer_at_once(void **state)
{
    (void)state;
    open_with(4, BT_HEDGING_PROBE, 1000000);
    compare(1, 0, MS);
    assert_int_equal(hedging_stats(&h).jitter_compared, 1);
    assert_int_equal(hedging_stats(&h).service_ns, 1);
}

/* what one of the workers dropped is not compared, whichever comes first. */
static void r252_what_was_dropped_is_not_compared(void **state)
{
    (void)state;
    open_with(4, BT_HEDGING_PROBE, 1000000);
    for (int dropped = 0; dropped < 2; dropped++) {
        int to[2];
        assert_int_equal(hedging_send(&h, ++id, to), 2);
        h.b.now += MS;
        hedging_finish(&h, to[0], id, dropped == 0);
        h.b.now += MS;
        hedging_finish(&h, to[1], id, dropped == 1);
        assert_int_equal(hedging_stats(&h).jitter_compared, 0);
    }
    compare(1, MS, MS);
    assert_int_equal(hedging_stats(&h).jitter_compared, 1);
}

/* nor what had company: another request on the same worker, before it or behind it. */
static void r252_what_had_company_is_not_compared(void **state)
{
    (void)state;
    int one[2], two[2];
    hedging_open(&h, 2, 2, BT_HEDGING_PROBE);
    h.b.config.hedging.probe_per_million = 1000000;
    bed_apply(&h.b);
    assert_int_equal(hedging_send(&h, 1, one), 2);
    assert_int_equal(hedging_send(&h, 2, two), 1); /* nobody is idle: behind one of them */
    h.b.now += MS;
    for (int k = 0; k < 2; k++) {
        hedging_finish(&h, one[k], 1, false);
    }
    hedging_finish(&h, two[0], 2, false);
    assert_int_equal(hedging_stats(&h).jitter_compared, 0);
    id = 2;
    compare(1, MS, MS);
    assert_int_equal(hedging_stats(&h).jitter_compared, 1);
}

/* the mean is of those that are remembered, 20,000 at a time. */
static void r252_the_mean_is_of_what_is_remembered(void **state)
{
    (void)state;
    open_with(4, BT_HEDGING_PROBE, 1000000);
    compare(20000, 50 * US, 0);
    compare(20000, 100 * US, 0);
    assert_int_equal(hedging_stats(&h).jitter_compared, 40000);
    assert_int_equal(hedging_stats(&h).service_ns, 75 * US);
    compare(1, 100 * US, 0);
    assert_int_equal(hedging_stats(&h).jitter_compared, 20001);
    assert_int_equal(hedging_stats(&h).service_ns, 100 * US);
    h.b.config.hedging.mode = BT_HEDGING_OFF;
    bed_apply(&h.b);
    h.b.config.hedging.mode = BT_HEDGING_PROBE; /* anew */
    bed_apply(&h.b);
    assert_int_equal(hedging_stats(&h).jitter_compared, 0);
    assert_int_equal(hedging_stats(&h).service_ns, 0);
    compare(1, 30 * US, 0);
    assert_int_equal(hedging_stats(&h).service_ns, 30 * US);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_teardown(name, close_bed)
    const struct CMUnitTest tests[] = {
        EACH(r250_two_hundred_samples),
        EACH(r250_copies_are_no_samples),
        EACH(r250_the_delay_follows),
        EACH(r252_probability_and_mean),
        EACH(r252_to_the_nearest_millionth),
        EACH(r252_an_answer_at_once),
        EACH(r252_what_was_dropped_is_not_compared),
        EACH(r252_what_had_company_is_not_compared),
        EACH(r252_the_mean_is_of_what_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
