// SPDX-License-Identifier: Apache-2.0
// Hedged requests in the router: which requests get one, when, and where it goes (R-36, R-240, R-241, R-243, R-249 to
// What becomes of the two is in test_hedging_pairs.c.
#include <string.h>

#include "router/hedging_bed.h"

static struct hedging_bed h;

/* two idle workers, never the same; the only idle one; none. */
static void r240_an_arrival_takes_two_idle_workers(void **state)
{
    (void)state;
    int to[2], second[2];
    hedging_open(&h, 3, 1, BT_HEDGING_LOAD_AWARE);
    assert_int_equal(hedging_send(&h, 1, to), 2);
    assert_int_not_equal(to[0], to[1]);
    assert_int_equal(hedging_send(&h, 2, second), 1);
    assert_int_equal(second[0], 3 - to[0] - to[1]);
    assert_int_equal(hedging_send(&h, 3, second), 0); /* held */
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_SENT), 1);
    assert_int_equal(bed_counter(&h.b, BT_RC_FORWARDED), 2); /* requests, not packets */
    bed_close(&h.b);
}

/* idle workers take turns with copies: none gets the next one, too, while another is idle. */
static void r240_copies_take_turns(void **state)
{
    (void)state;
    int to[2], before = -1;
    unsigned copies[4] = {0};
    hedging_open(&h, 4, 1, BT_HEDGING_LOAD_AWARE);
    for (uint16_t id = 1; id <= 400; id++) {
        assert_int_equal(hedging_send(&h, id, to), 2);
        assert_int_not_equal(to[1], before);
        before = to[1];
        copies[before]++;
        hedging_finish(&h, to[0], id, false);
        hedging_finish(&h, to[1], id, false);
    }
    for (unsigned w = 0; w < 4; w++) {
        assert_in_range(copies[w], 80, 120);
    }
    bed_close(&h.b);
}

/* the copy is the request, byte for byte, and says whose it is as the first one does. */
static void r36_the_copy_is_the_request(void **state)
{
    (void)state;
    for (int forwarding = BT_FORWARD_ENCAPSULATED; forwarding <= BT_FORWARD_TRANSPARENT; forwarding++) {
        hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
        h.b.config.forwarding = (enum bt_router_forwarding)forwarding;
        bed_apply(&h.b);
        bed_request_as(
            &h.b, (struct bt_r2p2_hdr){.req_id = 77, .opt = {.present = BT_HAS_CLASS | BT_HAS_TRACE, .class_id = 5}},
            1300);
        struct bt_pkt *first = bed_packet(&h.b), *copy = bed_packet(&h.b);
        assert_non_null(copy);
        assert_int_equal(first->len, copy->len);
        assert_memory_equal(first->data, copy->data, first->len);
        assert_true(bt_addr_eq(&first->src, &copy->src));
        assert_false(bt_addr_eq(&first->dst, &copy->dst));
        assert_int_equal(first->tx_as_src, copy->tx_as_src);
        assert_int_equal(first->local, copy->local);
        assert_int_equal(first->t_rx_ns, copy->t_rx_ns);
        bt_pool_put(h.b.pool, first);
        bt_pool_put(h.b.pool, copy);
        bed_close(&h.b);
    }
}

/* who becomes free takes what waits; when nothing does, the request that is on its way longest. */
static void r241_a_free_worker_copies_the_oldest(void **state)
{
    (void)state;
    int a[2], b[2], c[2], d[2];
    hedging_open(&h, 3, 1, BT_HEDGING_LOAD_AWARE);
    hedging_send(&h, 1, a); /* on two */
    hedging_send(&h, 2, b);
    hedging_send(&h, 3, c); /* waits */
    hedging_send(&h, 4, d);
    hedging_finish(&h, a[0], 1, false);
    assert_int_equal(hedging_copy(&h), a[0]); /* 3 */
    assert_int_equal(h.b.out.n, 0);
    hedging_finish(&h, a[1], 1, false);
    assert_int_equal(hedging_copy(&h), a[1]); /* 4 */
    hedging_finish(&h, a[0], 3, false);
    assert_int_equal(hedging_copy(&h), a[0]); /* a copy of 2, which is older than 4 */
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_SENT), 2);
    hedging_finish(&h, a[0], 2, false);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_WON), 1);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_NO_IDLE), 0); /* it waited for its copy, and had it */
    assert_int_equal(hedging_copy(&h), a[0]);                     /* a copy of 4 */
    bed_close(&h.b);
}

/* no copy while a request waits, even if a worker is idle: here of a family that nobody may send it to. */
static void r243_what_waits_comes_first(void **state)
{
    (void)state;
    int to[2];
    hedging_open(&h, 2, 2, BT_HEDGING_LOAD_AWARE);
    for (uint16_t id = 1; id <= 4; id++) {
        hedging_send(&h, id, to);
    }
    assert_true(bed_held(&h.b) > 0);
    uint64_t sent = bed_counter(&h.b, BT_RC_HEDGES_SENT);
    bed_tick(&h.b, MS);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_SENT), sent);
    bed_close(&h.b);
}

/* sticky requests and those of several packets are sent once. */
static void r249_only_what_may_run_twice(void **state)
{
    (void)state;
    hedging_open(&h, 4, 1, BT_HEDGING_LOAD_AWARE);
    bed_request(&h.b, 1, BT_POLICY_STICKY, 8);
    assert_int_equal(h.b.out.n, 1);
    bed_discard(&h.b);
    uint8_t bytes[64];
    struct bt_r2p2_hdr first = {.type = BT_REQUEST, .first = true, .ext = true, .req_id = 2, .count_or_index = 3};
    size_t head = bt_r2p2_encode(bytes, sizeof bytes, &first);
    memset(bytes + head, 0, 14);
    bed_request_bytes(&h.b, &h.b.client, bytes, head + 14);
    assert_int_equal(h.b.out.n, 1);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_SENT), 0);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_UNSUITED), 2);
    bed_close(&h.b);
}

/* nor those that are longer than what is kept. */
static void r249_only_what_can_be_kept(void **state)
{
    (void)state;
    hedging_open(&h, 4, 1, BT_HEDGING_LOAD_AWARE);
    h.b.config.max_payload = 2000;
    bed_apply(&h.b);
    bed_request(&h.b, 1, BT_POLICY_UNRESTRICTED, 1472 - BT_R2P2_HEADER);
    assert_int_equal(h.b.out.n, 2);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_UNSUITED), 0);
    bed_request(&h.b, 2, BT_POLICY_UNRESTRICTED, 1473 - BT_R2P2_HEADER);
    assert_int_equal(h.b.out.n, 3);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_UNSUITED), 1);
    bed_discard(&h.b);
    bed_close(&h.b);
}

/* after the measured percentile, and not before it is known. */
static void r250_delayed_waits_for_the_percentile(void **state)
{
    (void)state;
    int to[2];
    hedging_open(&h, 2, 1, BT_HEDGING_DELAYED);
    assert_int_equal(hedging_send(&h, 1, to), 1);
    bed_tick(&h.b, 500 * MS);
    assert_int_equal(h.b.out.n, 0);
    assert_int_equal(hedging_stats(&h).hedging_delay_ns, 0);
    hedging_finish(&h, to[0], 1, false);
    for (uint16_t id = 2; id < 402; id++) { /* one in 25 takes 3 ms, the others 1 ms */
        assert_int_equal(hedging_send(&h, id, to), 1);
        h.b.now += id % 25 == 0 ? 3 * MS : MS;
        hedging_finish(&h, to[0], id, false);
        if (id == 150) { /* a second has gone by, but not ten samples beyond the percentile: 200 are needed */
            h.b.now += SEC;
            hedging_report(&h);
            assert_int_equal(hedging_stats(&h).hedging_delay_ns, 0);
        }
    }
    h.b.now += SEC;
    hedging_report(&h);
    uint64_t delay = hedging_stats(&h).hedging_delay_ns;
    assert_true(delay >= MS && delay <= 102 * MS / 100);
    assert_int_equal(hedging_send(&h, 500, to), 1);
    assert_int_equal(bt_router_next(h.b.r) <= h.b.now + delay, 1);
    bed_tick(&h.b, delay - 1);
    assert_int_equal(h.b.out.n, 0);
    bed_tick(&h.b, 1);
    assert_int_equal(hedging_copy(&h), 1 - to[0]);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_SENT), 1);
    bed_close(&h.b);
}

/* copies begin only while few enough workers are busy, and are bounded as a share of requests. */
static void r251_gate_and_budget(void **state)
{
    (void)state;
    int to[2];
    hedging_open(&h, 4, 1, BT_HEDGING_LOAD_AWARE);
    h.b.config.hedging.busy_percent = 49;
    bed_apply(&h.b);
    assert_int_equal(hedging_send(&h, 1, to), 2); /* one of four was busy */
    assert_int_equal(hedging_send(&h, 2, to), 1); /* three of four */
    hedging_finish(&h, to[0], 2, false);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_BUSY), 1);
    bed_close(&h.b);

    hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
    h.b.config.hedging.budget_percent = 25;
    bed_apply(&h.b);
    unsigned copies = 0;
    for (uint16_t id = 1; id <= 400; id++) {
        unsigned n = hedging_send(&h, id, to);
        copies += n - 1u;
        hedging_finish(&h, to[0], id, false);
        if (n == 2) {
            hedging_finish(&h, to[1], id, false);
        }
        assert_true(copies * 4u <= id);
    }
    assert_int_equal(copies, 100);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_SENT), 100);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_BUDGET), 300);
    bed_close(&h.b);
}

/* what was not spent is saved up, for 64 copies at most. */
static void r251_a_budget_is_saved_up(void **state)
{
    (void)state;
    int to[2];
    hedging_open(&h, 1, 64, BT_HEDGING_LOAD_AWARE); /* nobody else is there to have copies */
    for (uint16_t id = 1; id <= 200; id++) {
        assert_int_equal(hedging_send(&h, id, to), 1);
        hedging_finish(&h, to[0], id, false);
    }
    h.b.config.members_n = 2;
    h.b.config.hedging.budget_percent = 1;
    bed_apply(&h.b);
    bed_join(&h.b, 1, 64);
    unsigned copies = 0;
    for (uint16_t id = 201; id <= 301; id++) {
        unsigned n = hedging_send(&h, id, to);
        copies += n - 1u;
        hedging_finish(&h, to[0], id, false);
        if (n == 2) {
            hedging_finish(&h, to[1], id, false);
        }
        assert_int_equal(copies, id < 265 ? id - 200 : id < 301 ? 64 : 65);
    }
    bed_close(&h.b);
}

/* how busy first copies keep the workers, for who decides whether second ones pay. */
static void r254_busy_is_what_arrivals_see(void **state)
{
    (void)state;
    int to[2];
    hedging_open(&h, 4, 1, BT_HEDGING_PROBE);
    assert_int_equal(hedging_stats(&h).hedging_busy_ppm, 0);
    hedging_send(&h, 1, to); /* stays */
    hedging_send(&h, 2, to); /* sees it, after one that saw nobody busy: of 4 and, smoothed by a 256th, 4 */
    assert_int_equal(hedging_stats(&h).hedging_busy_ppm, 125244);
    hedging_finish(&h, to[0], 2, false);
    for (uint16_t id = 3; id <= 3000; id++) {
        assert_int_equal(hedging_send(&h, id, to), 1);
        hedging_finish(&h, to[0], id, false);
    }
    assert_in_range(hedging_stats(&h).hedging_busy_ppm, 245000, 251000);
    bed_close(&h.b);

    hedging_open(&h, 4, 1, BT_HEDGING_LOAD_AWARE);
    for (uint16_t id = 1; id <= 3000; id += 2) { /* its copy is busy, too, and does not count */
        int second[2];
        assert_int_equal(hedging_send(&h, id, to), 2);
        assert_int_equal(hedging_send(&h, id + 1u, second), 2);
        hedging_finish(&h, to[0], id, false);
        hedging_finish(&h, to[1], id, false);
        hedging_finish(&h, second[0], id + 1u, false);
        hedging_finish(&h, second[1], id + 1u, false);
    }
    assert_in_range(hedging_stats(&h).hedging_busy_ppm, 120000, 130000);
    bed_close(&h.b);
}

/* each request that should have had a copy counts one reason, when it ends. */
static void r253_every_missing_copy_has_its_reason(void **state)
{
    (void)state;
    int a[2], b[2];
    hedging_open(&h, 1, 2, BT_HEDGING_LOAD_AWARE);
    hedging_send(&h, 1, a);
    hedging_send(&h, 2, b);
    hedging_finish(&h, 0, 1, false);
    hedging_finish(&h, 0, 2, false);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_NO_IDLE), 2);
    struct bt_pkt *taken[512];
    unsigned n = 0;
    bed_close(&h.b);

    hedging_open(&h, 2, 1, BT_HEDGING_LOAD_AWARE);
    while (n < 511 && (taken[n] = bt_pool_get(h.b.pool)) != NULL) {
        n++;
    }
    assert_int_equal(hedging_send(&h, 3, a), 1); /* the last packet is the request's own */
    while (n > 0) {
        bt_pool_put(h.b.pool, taken[--n]);
    }
    hedging_finish(&h, a[0], 3, false);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_NO_BUFFER), 1);
    bed_close(&h.b);
}

static void refused_in(struct bt_hedging_config hedging, enum bt_router_policy policy, const char *field)
{
    struct bt_router_refusal why = {0};
    struct bt_router_config config = h.b.config;
    config.hedging = hedging;
    config.policy = policy;
    assert_false(bt_router_apply(h.b.r, h.b.now, &config, &why));
    assert_string_equal(why.field, field);
}

static void taken(struct bt_hedging_config hedging)
{
    h.b.config.hedging = hedging;
    bed_apply(&h.b);
}

static void a_configuration_is_judged(void **state)
{
    (void)state;
    hedging_open(&h, 2, 1, BT_HEDGING_OFF);
    const struct bt_hedging_config good = {BT_HEDGING_DELAYED, 50, 5, 95000, 1000};
    struct bt_hedging_config c = good;
    refused_in(c, BT_ROUTER_JSQ, "service.hedging.mode");
    c.mode = BT_HEDGING_MODES;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.mode");
    c = good;
    c.cancellation = BT_HEDGING_CANCELLATIONS;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.cancellation");
    c.mode = BT_HEDGING_OFF; /* even so */
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.cancellation");
    c = good;
    c.busy_percent = 0;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.busyPercent");
    c.busy_percent = 101;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.busyPercent");
    c = good;
    c.budget_percent = 0;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.budgetPercent");
    c.budget_percent = 101;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.budgetPercent");
    c = good;
    c.per_100k = 99991;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.percentilePer100000");
    c.per_100k = 49999;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.percentilePer100000");
    taken((struct bt_hedging_config){BT_HEDGING_DELAYED, 1, 1, 50000, 0, 0});
    taken((struct bt_hedging_config){BT_HEDGING_DELAYED, 100, 100, 99990, 1000000, BT_HEDGING_CANCEL_PREEMPTIVE});
    taken((struct bt_hedging_config){BT_HEDGING_LOAD_AWARE, 50, 5, 0, 0, 0}); /* no percentile is asked for */
    taken((struct bt_hedging_config){.mode = BT_HEDGING_OFF});
    c = good;
    c.probe_per_million = 1000001;
    refused_in(c, BT_ROUTER_JBSQ, "service.hedging.probePerMillion");
    assert_false(bt_router_notes_requests(h.b.r));
    h.b.config.hedging = good;
    bed_apply(&h.b);
    assert_true(bt_router_notes_requests(h.b.r));
    bed_close(&h.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r240_an_arrival_takes_two_idle_workers),
        cmocka_unit_test(r240_copies_take_turns),
        cmocka_unit_test(r36_the_copy_is_the_request),
        cmocka_unit_test(r241_a_free_worker_copies_the_oldest),
        cmocka_unit_test(r243_what_waits_comes_first),
        cmocka_unit_test(r249_only_what_may_run_twice),
        cmocka_unit_test(r249_only_what_can_be_kept),
        cmocka_unit_test(r250_delayed_waits_for_the_percentile),
        cmocka_unit_test(r251_gate_and_budget),
        cmocka_unit_test(r251_a_budget_is_saved_up),
        cmocka_unit_test(r254_busy_is_what_arrivals_see),
        cmocka_unit_test(r253_every_missing_copy_has_its_reason),
        cmocka_unit_test(a_configuration_is_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
