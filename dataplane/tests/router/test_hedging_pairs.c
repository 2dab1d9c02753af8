// SPDX-License-Identifier: Apache-2.0
// Hedged requests in the router: a request counts once however its two copies end, admission
// included, and no credit is lost with a copy.
#include <string.h>

#include "router/hedging_bed.h"
#include "router/objective.h"

static struct hedging_bed h;

static uint64_t answered(void)
{
    uint64_t inf = 0, counted = 0;
    const struct bt_hist_slices *s = bt_router_latency(h.b.r);
    for (unsigned i = 0; i < BT_HIST_SLICES; i++) {
        inf += s->slice[i].inf;
        for (unsigned k = 0; k < BT_HIST_BUCKETS; k++) {
            counted += s->slice[i].bucket[k];
        }
    }
    return counted | inf << 32;
}

/* the first completion is the request's, the later one is counted and says nothing more. */
static void r242_two_completions_are_one_request(void **state)
{
    (void)state;
    int to[2];
    for (int first = 0; first < 2; first++) {
        hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
        assert_int_equal(hedging_send(&h, 9, to), 2);
        h.b.now += MS;
        hedging_finish(&h, to[first], 9, false);
        h.b.now += MS;
        hedging_finish(&h, to[1 - first], 9, false);
        assert_int_equal(answered(), 1);
        assert_int_equal(bed_counter(&h.b, BT_RC_PAIRS_FINISHED), 1);
        assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_LATE), 1);
        assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_WON), first);
        assert_int_equal(bed_counter(&h.b, BT_RC_PAIRS_UNKNOWN), 0);
        assert_int_equal(hedging_stats(&h).hedging_kept, 0);
        assert_int_equal(hedging_stats(&h).outstanding, 0);
        assert_int_equal(bed_pairs(&h.b), 0);
        bed_close(&h.b);
    }
}

/* A lost copy, or a lost first: its worker's credit comes back, and the request is answered. */
static void r111_a_lost_copy_gives_its_credit_back(void **state)
{
    (void)state;
    int to[2];
    for (int lost = 0; lost < 2; lost++) {
        hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
        hedging_send(&h, 9, to);
        h.received[to[lost]]--;
        hedging_finish(&h, to[1 - lost], 9, false);
        for (int i = 0; i < 40; i++) { /* idle workers report */
            bed_tick(&h.b, 100 * MS);
            hedging_report(&h);
        }
        assert_int_equal(hedging_stats(&h).outstanding, 0);
        bed_tick(&h.b, 10 * SEC);
        assert_int_equal(answered(), 1);
        assert_int_equal(bed_counter(&h.b, BT_RC_PAIRS_UNANSWERED), 0);
        assert_int_equal(bed_pairs(&h.b), 0);
        assert_int_equal(hedging_stats(&h).hedging_kept, 0);
        bed_close(&h.b);
    }
}

/* Neither answers: one request, one +inf. */
static void both_unanswered_is_one_request(void **state)
{
    (void)state;
    int to[2];
    hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
    hedging_send(&h, 9, to);
    bed_tick(&h.b, 11 * SEC);
    assert_int_equal(answered(), UINT64_C(1) << 32);
    assert_int_equal(bed_counter(&h.b, BT_RC_PAIRS_UNANSWERED), 1);
    assert_int_equal(hedging_stats(&h).hedging_kept, 0);
    bed_close(&h.b);
}

/* The id is used again before either answered: one given up, and the new one is a request of its own. */
static void a_reused_id_gives_up_both(void **state)
{
    (void)state;
    int to[2];
    hedging_open(&h, 4, 1, BT_HEDGING_LOAD_AWARE);
    hedging_send(&h, 9, to);
    bed_tick(&h.b, 400 * MS); /* longer than T_loss */
    int again[2];
    assert_int_equal(hedging_send(&h, 9, again), 2);
    assert_int_equal(bed_counter(&h.b, BT_RC_PAIRS_UNANSWERED), 1);
    hedging_finish(&h, again[0], 9, false);
    hedging_finish(&h, again[1], 9, false);
    bed_tick(&h.b, 20 * SEC);
    assert_int_equal(answered(), 1 | UINT64_C(1) << 32);
    assert_int_equal(hedging_stats(&h).hedging_kept, 0);
    bed_close(&h.b);
}

/* admission hears of each request once, whatever its copies do. */
static void r210_admission_hears_of_it_once(void **state)
{
    (void)state;
    enum { BOTH, COPY_ONLY, FIRST_ONLY, NEITHER, DROPPED, WAYS };
    for (int way = 0; way < WAYS; way++) {
        int to[2];
        hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
        h.b.config.admission = objective(BT_CONTROL_TRACK);
        h.b.config.admission.slo_ns = 10 * MS;
        bed_apply(&h.b);
        hedging_send(&h, 9, to);
        h.b.now += MS;
        if (way == BOTH || way == FIRST_ONLY || way == DROPPED) {
            hedging_finish(&h, to[0], 9, way == DROPPED);
        }
        if (way == BOTH || way == COPY_ONLY || way == DROPPED) {
            hedging_finish(&h, to[1], 9, false);
        }
        bed_tick(&h.b, 200 * MS); /* T_max of admission is 100 ms */
        if (way == FIRST_ONLY || way == NEITHER) {
            hedging_finish(&h, to[1], 9, false); /* too late for it */
        }
        bed_tick(&h.b, 20 * SEC);
        struct bt_router_stats s = hedging_stats(&h);
        uint64_t told =
            s.admission_class[0].within + s.admission_class[0].exceeded + s.admission_unknown + s.admission_dropped;
        assert_int_equal(s.admission_class[0].arrived, 1);
        assert_int_equal(told, 1);
        assert_int_equal(s.admission_class[0].exceeded, way == NEITHER);
        assert_int_equal(s.admission_dropped, way == DROPPED);
        bed_close(&h.b);
    }
}

/* Pairs of executions, of which one had a hiccup in so many of a hundred. */
static void probe(struct bt_rng *g, unsigned pairs, unsigned hiccups)
{
    int to[2];
    for (unsigned i = 0; i < pairs; i++) {
        uint16_t id = (uint16_t)i;
        assert_int_equal(hedging_send(&h, id, to), 2);
        h.b.now += 50 * US + bt_rng_below(g, 100000);
        hedging_finish(&h, to[0], id, false);
        h.b.now += bt_rng_below(g, 100) < hiccups ? 1500 * US : 1;
        hedging_finish(&h, to[1], id, false);
        h.b.now += 10 * US;
    }
}

static void open_probing(struct bt_rng *g)
{
    hedging_open(&h, 4, 1, BT_HEDGING_PROBE);
    h.b.config.hedging.probe_per_million = 1000000;
    bed_apply(&h.b);
    bt_rng_seed(g, 11);
}

/* two executions that began together differ by the jitter alone, whatever the request costs. */
static void r252_probes_find_the_hiccups(void **state)
{
    (void)state;
    struct bt_rng g;
    open_probing(&g);
    probe(&g, 20000, 2); /* of one of the two: p = 1 % */
    struct bt_router_stats s = hedging_stats(&h);
    assert_int_equal(s.jitter_compared, 20000);
    assert_true(s.service_ns > 95 * US && s.service_ns < 105 * US);
    assert_true(s.jitter_hiccups_ppm > 8500 && s.jitter_hiccups_ppm < 11500);
    assert_true(s.hiccup_ns > 1480 * US && s.hiccup_ns < 1520 * US);
    bed_close(&h.b);
}

/* where more than half of the pairs differ, every other execution has a hiccup, not none and not all. */
static void r252_as_many_hiccups_as_there_can_be(void **state)
{
    (void)state;
    struct bt_rng g;
    open_probing(&g);
    probe(&g, 200, 100);
    assert_int_equal(hedging_stats(&h).jitter_hiccups_ppm, 500000);
    bed_close(&h.b);
}

/* Admission comes on and hedging goes off while the other copy of an answered request runs: nothing is heard of it. */
static void r210_a_copy_that_is_forgotten_is_not_judged(void **state)
{
    (void)state;
    int to[2];
    hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
    hedging_send(&h, 9, to);
    hedging_finish(&h, to[0], 9, false);
    h.b.config.admission = objective(BT_CONTROL_TRACK);
    h.b.config.admission.slo_ns = 10 * MS;
    h.b.config.hedging.mode = BT_HEDGING_OFF;
    bed_apply(&h.b);
    bed_tick(&h.b, 200 * MS); /* T_max of admission is 100 ms */
    bed_tick(&h.b, 20 * SEC);
    struct bt_router_stats s = hedging_stats(&h);
    assert_int_equal(s.admission_unknown + s.admission_class[0].within + s.admission_class[0].exceeded, 0);
    assert_int_equal(bed_pairs(&h.b), 0);
    bed_close(&h.b);
}

/* what was once is forgotten, by 20,000 pairs at a time. */
static void r252_hiccups_that_ended_are_forgotten(void **state)
{
    (void)state;
    struct bt_rng g;
    open_probing(&g);
    probe(&g, 20000, 10);
    probe(&g, 20000, 0);
    struct bt_router_stats s = hedging_stats(&h);
    assert_int_equal(s.jitter_compared, 40000);
    assert_true(s.jitter_hiccups_ppm > 20000);
    probe(&g, 1, 0);
    s = hedging_stats(&h);
    assert_int_equal(s.jitter_compared, 20001);
    assert_int_equal(s.jitter_hiccups_ppm, 0);
    bed_close(&h.b);
}

/* Switched off and on again while copies are on their way: nothing is kept, nothing counts twice. */
static void it_may_be_switched_under_load(void **state)
{
    (void)state;
    int a[2], b[2];
    hedging_open(&h, 5, 1, BT_HEDGING_LOAD_AWARE);
    hedging_send(&h, 1, a);
    hedging_send(&h, 2, b);
    hedging_finish(&h, a[1], 1, false); /* its first is still on the way */
    struct bt_hedging_config on = h.b.config.hedging;
    bed_discard(&h.b);
    h.b.config.hedging.mode = BT_HEDGING_OFF;
    bed_apply(&h.b);
    assert_false(bt_router_notes_requests(h.b.r));
    hedging_finish(&h, a[0], 1, false);
    hedging_finish(&h, b[1], 2, false);
    hedging_finish(&h, b[0], 2, false);
    assert_int_equal(bed_counter(&h.b, BT_RC_PAIRS_FINISHED), 2);
    assert_int_equal(answered(), 2);
    h.b.config.hedging = on;
    bed_apply(&h.b);
    assert_int_equal(hedging_stats(&h).hedging_kept, 0);
    assert_int_equal(hedging_send(&h, 3, a), 2);
    hedging_finish(&h, a[0], 3, false);
    hedging_finish(&h, a[1], 3, false);
    assert_int_equal(answered(), 3);
    bed_close(&h.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r242_two_completions_are_one_request),
        cmocka_unit_test(r111_a_lost_copy_gives_its_credit_back),
        cmocka_unit_test(both_unanswered_is_one_request),
        cmocka_unit_test(a_reused_id_gives_up_both),
        cmocka_unit_test(r210_admission_hears_of_it_once),
        cmocka_unit_test(r252_probes_find_the_hiccups),
        cmocka_unit_test(r252_as_many_hiccups_as_there_can_be),
        cmocka_unit_test(r210_a_copy_that_is_forgotten_is_not_judged),
        cmocka_unit_test(r252_hiccups_that_ended_are_forgotten),
        cmocka_unit_test(it_may_be_switched_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
