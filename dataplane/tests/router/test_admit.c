// SPDX-License-Identifier: Apache-2.0
// Admission control in the router (spec/sven.md): what it makes of packets, pairs and silence. The loop alone is in
// test_admission.c.
#include <stdlib.h>
#include <string.h>

#include "router/bed.h"
#include "router/objective.h"

static void open_with(struct bed *b, uint32_t workers, uint32_t n, enum bt_admission_mode mode)
{
    bed_defaults(b, workers, n);
    b->config.admission = objective(BT_CONTROL_TRACK);
    b->config.admission.mode = mode;
    bed_build(b);
    bed_join_all(b, n);
}

/* Worker w has served request req_id, the served-th of its own. */
static void finish_at(struct bed *b, uint32_t w, uint16_t req_id, uint64_t served, uint32_t n, bool dropped)
{
    bed_feedback(b, w,
                 &(struct bed_report){.received = served,
                                      .served = served,
                                      .n = n,
                                      .incarnation = 1,
                                      .req_id = req_id,
                                      .flags = (uint8_t)(BT_FEEDBACK_PAIR | (dropped ? BT_FEEDBACK_DROPPED : 0))});
}

static void finish(struct bed *b, uint16_t req_id, uint64_t served, uint32_t n, bool dropped)
{
    finish_at(b, 0, req_id, served, n, dropped);
}

static struct bt_router_stats stats_of(const struct bed *b)
{
    struct bt_router_stats s;
    bt_router_read_stats(b->r, b->now, &s);
    return s;
}

/* What an SLO's status, budget and alerts are made of: the last minute. */
static const struct bt_hist *objective_record(const struct bed *b)
{
    static struct bt_hist h;
    bt_hist_slices_merge(bt_router_latency(b->r), b->now, 60, &h, &(struct bt_hist_window){0});
    return &h;
}

/* Sends `total` requests through a router of one fast worker, each answered after latency_ns; returns how many DROPs
 * came back. Every DROP must carry its own request's id. */
static unsigned drive(struct bed *b, unsigned total, uint64_t latency_ns, uint64_t gap_ns, uint64_t *served)
{
    unsigned drops = 0;
    for (unsigned i = 0; i < total; i++) {
        uint16_t id = (uint16_t)i;
        bed_send(b, id);
        if (b->out.n == 1 && b->out.head->data[2] >> 4 == BT_DROP) {
            assert_true(bed_take_drop(b, id));
            drops++;
        } else {
            assert_int_equal(bed_take(b), 0);
            b->now += latency_ns;
            finish(b, id, ++*served, 1, false);
        }
        bed_tick(b, gap_ns);
    }
    return drops;
}

/* with nothing to refuse, admission control changes no byte of what is forwarded. */
static void r227_dr_0_is_transparent(void **state)
{
    (void)state;
    static struct bed off, on;
    open_with(&off, 4, 2, BT_ADMISSION_OBSERVE);
    open_with(&on, 4, 2, BT_ADMISSION_REJECT);
    for (uint16_t i = 0; i < 2000; i++) {
        for (unsigned k = 0; k < 2; k++) {
            struct bed *b = k == 0 ? &off : &on;
            bed_request(b, i, i % 7 == 0 ? BT_POLICY_STICKY : BT_POLICY_UNRESTRICTED, i % 50);
        }
        struct bt_pkt *x = bed_packet(&off), *y = bed_packet(&on);
        assert_true((x == NULL) == (y == NULL));
        if (x != NULL) {
            assert_int_equal(x->len, y->len);
            assert_memory_equal(x->data, y->data, x->len);
            assert_true(bt_addr_eq(&x->dst, &y->dst) && bt_addr_eq(&x->src, &y->src));
            bt_pool_put(off.pool, x);
            bt_pool_put(on.pool, y);
        }
        if (i % 5 == 4) {
            uint32_t w = i / 5 % 4;
            struct bed_report report = {.n = 2, .incarnation = 1, .served = bed_row(&off, w).sent};
            report.received = report.served;
            bed_feedback(&off, w, &report);
            bed_feedback(&on, w, &report);
        }
        bed_tick(&off, US);
        bed_tick(&on, US);
        bed_discard(&off);
        bed_discard(&on);
    }
    assert_int_equal(bed_counter(&on, BT_RC_DROP_ADMISSION), 0);
    assert_int_equal(bed_counter(&on, BT_RC_FORWARDED), bed_counter(&off, BT_RC_FORWARDED));
    bed_close(&off);
    bed_close(&on);
}

/* dr = 0.99 over 10⁶ requests: 99 ± 0.5 % DROPs, each to its client, and no request is forgotten. */
static void r227_dr_99_drops_what_it_should(void **state)
{
    (void)state;
    static struct bed b;
    uint64_t served = 0;
    open_with(&b, 1, 1, BT_ADMISSION_REJECT);
    for (unsigned i = 0; stats_of(&b).admission_class[0].share < BT_ADMISSION_MOST; i++) { /* overload */
        drive(&b, 300, 5 * MS, 10 * US, &served);
        assert_true(i < 3000);
    }
    uint64_t before = bed_counter(&b, BT_RC_DROP_ADMISSION);
    unsigned drops = 0;
    for (unsigned i = 0; i < 1000; i++) {
        drops += drive(&b, 1000, 5 * MS, 1 * US, &served);
    }
    assert_in_range(drops, 985000, 995000);
    assert_int_equal(bed_counter(&b, BT_RC_DROP_ADMISSION) - before, drops);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNANSWERED), 0);
    bed_close(&b);
}

/* Of `total` requests of a policy, one after the other to a router whose level refuses 99 %: how many were refused. */
static unsigned refused_of(struct bed *b, unsigned total, uint8_t policy)
{
    uint64_t before = bed_counter(b, BT_RC_DROP_ADMISSION);
    for (unsigned i = 0; i < total; i++) {
        bed_request(b, (uint16_t)(100 + i), policy, 10);
        bed_discard(b);
    }
    return (unsigned)(bed_counter(b, BT_RC_DROP_ADMISSION) - before);
}

/* Everybody says that it is there: a worker of which nothing is heard for long is not idle but gone. */
static void all_speak(struct bed *b, const uint64_t *served)
{
    for (uint32_t w = 0; w < 4; w++) {
        bed_feedback(b, w, &(struct bed_report){.received = served[w], .served = served[w], .n = 2, .incarnation = 1});
    }
}

/* Four workers that answer too late until 99 % are to be refused; then all are idle. */
static void open_refusing(struct bed *b, enum bt_router_policy policy, enum bt_admission_controller controller,
                          uint8_t asked)
{
    uint64_t served[4] = {0};
    bed_defaults(b, 4, 2);
    b->config.admission = objective(controller);
    b->config.admission.droppable |= 1u << BT_POLICY_STICKY;
    b->config.policy = policy;
    bed_build(b);
    bed_join_all(b, 2);
    for (unsigned i = 0; stats_of(b).admission_class[asked].share < BT_ADMISSION_MOST; i++) {
        bed_request(b, (uint16_t)i, asked, 10);
        int w = bed_take(b);
        b->now += 400 * US;
        if (w >= 0) {
            finish_at(b, (uint32_t)w, (uint16_t)i, ++served[w], 2, false);
        }
        if (i % 10 == 0) {
            all_speak(b, served);
        }
        bed_tick(b, US);
        assert_true(i < 4000000);
    }
}

/* a request that finds an idle worker is let in whatever the share; a worker with one request is not idle. */
static void r260_who_finds_an_idle_worker_is_let_in(void **state)
{
    (void)state;
    static struct bed b;
    const enum bt_router_policy least[] = {BT_ROUTER_JBSQ, BT_ROUTER_JSQ};
    for (unsigned k = 0; k < 2; k++) {
        open_refusing(&b, least[k], BT_CONTROL_TRACK, BT_POLICY_UNRESTRICTED);
        assert_int_equal(refused_of(&b, 4, BT_POLICY_UNRESTRICTED), 0);
        assert_in_range(refused_of(&b, 100, BT_POLICY_UNRESTRICTED), 90, 100);
        bed_close(&b);
    }
}

/* ... but not where the policy does not look for one, to a sticky master, or by the published controller. */
static void r260_only_where_the_worker_would_be_idle(void **state)
{
    (void)state;
    static struct bed b;
    open_refusing(&b, BT_ROUTER_RANDOM, BT_CONTROL_TRACK, BT_POLICY_UNRESTRICTED);
    assert_in_range(refused_of(&b, 100, BT_POLICY_UNRESTRICTED), 90, 100);
    bed_close(&b);
    open_refusing(&b, BT_ROUTER_JBSQ, BT_CONTROL_TRACK, BT_POLICY_STICKY);
    assert_in_range(refused_of(&b, 100, BT_POLICY_STICKY), 90, 100);
    bed_close(&b);
    open_refusing(&b, BT_ROUTER_JBSQ, BT_CONTROL_AIAD, BT_POLICY_UNRESTRICTED);
    assert_in_range(refused_of(&b, 100, BT_POLICY_UNRESTRICTED), 90, 100);
    bed_close(&b);
}

/* a worker dies under load. No slow FEEDBACK is seen, yet the share within the objective falls. */
static void r228_a_dead_worker_raises_the_share(void **state)
{
    (void)state;
    static struct bed b;
    uint64_t served[20] = {0};
    uint32_t highest = 0;
    bed_defaults(&b, 20, 64);
    b.config.admission = objective(BT_CONTROL_TRACK);
    b.config.policy = BT_ROUTER_ROUND_ROBIN;
    bed_build(&b);
    bed_join_all(&b, 64);
    for (unsigned i = 0; i < 3000; i++) { /* worker 7 answers nothing, and never will */
        bed_send(&b, (uint16_t)i);
        int w = bed_take(&b);
        if (w >= 0 && w != 7) {
            finish_at(&b, (uint32_t)w, (uint16_t)i, ++served[w], 64, false);
        }
        bed_discard(&b);
        bed_tick(&b, 20 * US);
        uint32_t share_now = stats_of(&b).admission_class[0].share;
        highest = share_now > highest ? share_now : highest;
    }
    assert_true(bed_counter(&b, BT_RC_PAIRS_OVERDUE) > 0);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNSEEN), 0);
    assert_true(highest > BT_ADMISSION_ONE / 10);
    assert_int_equal(stats_of(&b).admission_class[0].exceeded, bed_counter(&b, BT_RC_PAIRS_OVERDUE));
    bed_close(&b);
}

/* a lost FEEDBACK is no sample of the loop, and its pair does not stay. To the objective it is a request
 * that was never answered. */
static void r229_lost_feedback_is_no_violation_to_the_loop_alone(void **state)
{
    (void)state;
    static struct bed b;
    uint64_t served = 0;
    unsigned lost = 0;
    open_with(&b, 1, 8, BT_ADMISSION_REJECT);
    for (unsigned i = 0; i < 20000; i++) {
        uint16_t id = (uint16_t)i;
        bed_send(&b, id);
        assert_int_equal(bed_take(&b), 0);
        b.now += 100 * US;
        served++;
        if (i % 100 == 50) {
            lost++;
        } else {
            finish(&b, id, served, 8, false);
        }
        bed_tick(&b, 0);
    }
    bed_tick(&b, 10 * MS);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_OVERDUE), 0);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNSEEN), lost);
    assert_int_equal(stats_of(&b).admission_unknown, lost);
    assert_int_equal(stats_of(&b).admission_class[0].within, 20000 - lost);
    assert_int_equal(stats_of(&b).admission_class[0].exceeded, 0);
    assert_int_equal(stats_of(&b).admission_class[0].share, 0);
    const struct bt_hist *h = bt_router_class_latency(b.r, 0);
    assert_int_equal(h->total, 20000 - lost);
    assert_int_equal(bt_hist_percentile(h, 99000), bt_hist_value(bt_hist_index(100 * US))); /* bias: no bucket */
    assert_int_equal(objective_record(&b)->inf, 0); /* nobody has waited for as long as the request timeout */
    bed_tick(&b, 11 * SEC);
    assert_int_equal(stats_of(&b).pairs, 0);
    assert_int_equal(objective_record(&b)->inf, lost);
    assert_int_equal(objective_record(&b)->total, 20000); /* the lost ones with them */
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNANSWERED), lost);
    assert_int_equal(stats_of(&b).admission_class[0].exceeded, 0);
    bed_close(&b);
}

/* a request that the worker's counters show unfinished is a violation to both. */
static void r210_the_unfinished_are_a_violation_to_both(void **state)
{
    (void)state;
    static struct bed b;
    open_with(&b, 2, 8, BT_ADMISSION_REJECT);
    for (uint16_t id = 0; id < 12; id++) {
        bed_send(&b, id);
    }
    bed_discard(&b);
    bed_tick(&b, 3 * MS); /* ten times the objective; worker 1 says that it has served none of its six */
    bed_feedback(&b, 1, &(struct bed_report){.received = 6, .served = 0, .n = 8, .incarnation = 1});
    bed_tick(&b, 0);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_OVERDUE), 12);
    assert_int_equal(stats_of(&b).admission_class[0].exceeded, 12);
    assert_int_equal(stats_of(&b).admission_unknown, 0);
    bed_tick(&b, 11 * SEC);
    assert_int_equal(objective_record(&b)->inf, 12);
    assert_int_equal(objective_record(&b)->total, 12);
    assert_int_equal(stats_of(&b).admission_class[0].exceeded, 12); /* once each */
    bed_close(&b);
}

static void open_legacy(struct bed *b, uint64_t slo_ns)
{
    bed_defaults(b, 1, 64);
    b->config.legacy_peers = true;
    b->config.forwarding = BT_FORWARD_TRANSPARENT;
    b->config.admission = objective(BT_CONTROL_TRACK);
    b->config.admission.slo_ns = slo_ns;
    bed_build(b);
    bed_send(b, 60000); /* the first one makes it known, and its n with it */
    assert_int_equal(bed_take(b), 0);
    bed_legacy(b, 0, 60000);
}

/* a legacy worker counts nothing. That it answered a later request shows that only FEEDBACK was lost, however
 * many were lost before. */
static void r210_a_legacy_worker_shows_it_by_what_came_later(void **state)
{
    (void)state;
    static struct bed b;
    unsigned lost = 0;
    open_legacy(&b, 300 * US);
    for (unsigned i = 0; i < 20000; i++) {
        bed_send(&b, (uint16_t)i);
        bed_discard(&b);
        b.now += 100 * US;
        if (i % 1000 == 50) {
            lost++;
        } else {
            bed_legacy(&b, 0, (uint16_t)i);
        }
        bed_tick(&b, i % 1000 == 999 ? 300 * MS : 0); /* and credit is taken back */
    }
    bed_tick(&b, 10 * MS);
    assert_true(bed_counter(&b, BT_RC_CREDITS_RECLAIMED) > 0);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_UNSEEN), lost);
    assert_int_equal(stats_of(&b).admission_unknown, lost);
    assert_int_equal(stats_of(&b).admission_class[0].exceeded, 0);
    bed_close(&b);
}

/* ... and where it answers nothing later nobody can know: a violation. That credit is taken back tells of
 * the router's patience, not of what the worker did. */
static void r210_of_a_silent_legacy_worker_all_are_overdue(void **state)
{
    (void)state;
    static struct bed b;
    open_legacy(&b, 100 * MS); /* ten times that is longer than the patience of R-110 */
    for (uint16_t id = 0; id < 4; id++) {
        bed_send(&b, id);
    }
    bed_discard(&b);
    for (unsigned i = 0; i < 1000; i++) {
        bed_tick(&b, MS);
    }
    assert_true(bed_counter(&b, BT_RC_CREDITS_RECLAIMED) > 0);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_OVERDUE), 4);
    assert_int_equal(stats_of(&b).admission_class[0].exceeded, 4);
    assert_int_equal(stats_of(&b).admission_unknown, 0);
    bed_tick(&b, 11 * SEC);
    assert_int_equal(objective_record(&b)->inf, 4);
    bed_close(&b);
}

/* what is judged is judged once; a FEEDBACK that comes after all changes nothing. */
static void r210_the_late_are_counted_once(void **state)
{
    (void)state;
    static struct bed b;
    open_with(&b, 1, 1, BT_ADMISSION_REJECT);
    bed_send(&b, 7);
    assert_int_equal(bed_take(&b), 0);
    bed_tick(&b, 3 * MS - 1);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_OVERDUE), 0);
    bed_tick(&b, 1);
    assert_int_equal(bed_counter(&b, BT_RC_PAIRS_OVERDUE), 1);
    finish(&b, 7, 1, 1, false);
    struct bt_router_stats s = stats_of(&b);
    assert_int_equal(s.admission_class[0].exceeded, 1);
    assert_int_equal(s.admission_class[0].within, 0);
    assert_int_equal(s.counter[BT_RC_PAIRS_FINISHED], 1); /* the histogram of all has its latency */
    bed_send(&b, 8);
    assert_int_equal(bed_take(&b), 0);
    finish(&b, 8, 2, 1, true); /* dropped by the worker: no sample */
    s = stats_of(&b);
    assert_int_equal(s.admission_class[0].exceeded + s.admission_class[0].within, 1);
    bed_send(&b, 9);
    assert_int_equal(bed_take(&b), 0);
    bed_tick(&b, 2 * SEC); /* the id is used again before any FEEDBACK: unknown, not fast */
    bed_send(&b, 9);
    bed_discard(&b);
    assert_int_equal(stats_of(&b).admission_class[0].within, 0);
    bed_close(&b);
}

/* a copy made by the network is admitted like any request, but only one of the two is watched. */
static void r209_a_copy_is_unknown(void **state)
{
    (void)state;
    static struct bed b;
    open_with(&b, 1, 8, BT_ADMISSION_REJECT);
    for (unsigned i = 0; i < 2; i++) {
        bed_send(&b, 7);
        assert_int_equal(bed_take(&b), 0);
        assert_int_equal(stats_of(&b).admission_unknown, i);
    }
    finish(&b, 7, 1, 8, false);
    finish(&b, 7, 2, 8, false);
    struct bt_router_stats s = stats_of(&b);
    assert_int_equal(s.counter[BT_RC_PAIRS_UNKNOWN], 1);
    assert_int_equal(s.admission_class[0].arrived, s.admission_class[0].within + s.admission_unknown);
    bed_close(&b);
}

static void send_class(struct bed *b, uint16_t req_id, uint8_t policy, uint8_t class, uint8_t flags)
{
    struct bt_options opt = {.present = BT_HAS_CLASS, .class_id = class, .class_flags = flags};
    bed_request_as(b, (struct bt_r2p2_hdr){.policy = policy, .req_id = req_id, .opt = opt}, 8);
}

/* header policies, and priorities by option kind 3. A write stays a write whatever it asks for. */
static void r214_the_class_of_a_request(void **state)
{
    (void)state;
    static struct bed b;
    open_with(&b, 1, 64, BT_ADMISSION_REJECT);
    const struct {
        uint8_t policy, asked, class;
    } cases[] = {{0, 0, 0}, {0, 3, 0}, {0, 4, 4}, {0, 7, 7}, {0, 200, 7}, {1, 0, 1}, {1, 6, 1}};
    for (uint16_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t before = stats_of(&b).admission_class[cases[i].class].arrived;
        send_class(&b, i, cases[i].policy, cases[i].asked, 0);
        assert_int_equal(stats_of(&b).admission_class[cases[i].class].arrived, before + 1);
        bed_discard(&b);
        finish(&b, i, i + 1u, 64, false);
        assert_int_equal(stats_of(&b).admission_class[cases[i].class].within, before + 1);
    }
    bed_close(&b);
}

/* marked instead of dropped, in the option the client wrote or in a new one; measured apart. */
static void r225_degrade_marks_instead_of_dropping(void **state)
{
    (void)state;
    static struct bed b;
    uint64_t served = 0;
    unsigned marked = 0, spared = 0;
    open_with(&b, 1, 1, BT_ADMISSION_DEGRADE);
    for (unsigned i = 0; i < 30000; i++) {
        uint16_t id = (uint16_t)i;
        if (i % 3 == 0) {
            bed_send(&b, id);
        } else {
            send_class(&b, id, 0, 0, i % 3 == 1 ? BT_CLASS_NON_DROPPABLE : 0);
        }
        struct bt_pkt *pkt = bed_packet(&b);
        struct bt_r2p2_hdr hdr;
        assert_non_null(pkt);
        assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr), BT_M_OK);
        bool has = (hdr.opt.present & BT_HAS_CLASS) != 0 && (hdr.opt.class_flags & BT_CLASS_DEGRADED) != 0;
        assert_int_equal(hdr.payload_len, 8);
        assert_int_equal(hdr.payload[0], 0x5a);
        assert_true((hdr.opt.present & BT_HAS_FORWARDED) != 0 && bt_addr_eq(&hdr.opt.forwarded, &b.client));
        spared += i % 3 == 1 && has;
        marked += has;
        bt_pool_put(b.pool, pkt);
        b.now += 2 * MS;
        finish(&b, id, ++served, 1, false);
        bed_tick(&b, 10 * US);
    }
    assert_int_equal(spared, 0); /* non-droppable */
    assert_true(marked > 5000);
    assert_int_equal(bed_counter(&b, BT_RC_DEGRADED), marked);
    assert_int_equal(bed_counter(&b, BT_RC_DROP_ADMISSION), 0);
    assert_int_equal(bt_router_class_latency(b.r, BT_ADMISSION_CLASSES)->total, marked);
    assert_int_equal(bt_router_class_latency(b.r, 0)->total, 30000 - marked);
    bed_close(&b);
}

static void r225_degrade_needs_workers_that_read_options(void **state)
{
    (void)state;
    static struct bed b;
    struct bt_router_refusal why = {0};
    open_with(&b, 1, 1, BT_ADMISSION_REJECT);
    b.config.admission.mode = BT_ADMISSION_DEGRADE;
    b.config.legacy_peers = true;
    assert_false(bt_router_apply(b.r, b.now, &b.config, &why));
    assert_string_equal(why.field, "service.admission.mode");
    b.config.legacy_peers = false;
    b.config.admission.slo_ns = 1;
    assert_false(bt_router_apply(b.r, b.now, &b.config, &why));
    assert_string_equal(why.field, "service.admission.latencyMicroseconds");
    bed_close(&b);
}

/* who is marked waits like everybody; what finds the queue full, or waits too long in it, is dropped. */
static void r225_degrade_drops_where_the_queue_ends(void **state)
{
    (void)state;
    static struct bed b;
    bed_defaults(&b, 1, 1);
    b.config.admission = objective(BT_CONTROL_TRACK);
    b.config.admission.mode = BT_ADMISSION_DEGRADE;
    b.config.central_limit = 2;
    bed_build(&b);
    bed_join_all(&b, 1);
    for (uint16_t id = 1; id <= 4; id++) {
        bed_send(&b, id);
    }
    assert_int_equal(bed_take(&b), 0);
    assert_true(bed_take_drop(&b, 4));
    bed_tick(&b, b.config.max_queue_ns);
    assert_true(bed_take_drop(&b, 2) && bed_take_drop(&b, 3));
    assert_int_equal(bed_counter(&b, BT_RC_DROP_QUEUE_FULL), 1);
    assert_int_equal(bed_counter(&b, BT_RC_DROP_QUEUE_TIMEOUT), 2);
    assert_int_equal(bed_counter(&b, BT_RC_DROP_ADMISSION), 0);
    bed_close(&b);
}

/* of a request of many packets the first decides. The others are not the router's, and get no DROP. */
static void r215_the_first_packet_decides(void **state)
{
    (void)state;
    static struct bed b;
    const uint8_t first[] = {0xcc, 8, 0x00, 0x80 | 0x20, 0, 1, 0, 2, 'a'},
                  second[] = {0xcc, 8, 0x00, 0x40, 0, 1, 0, 1, 'b'};
    open_refusing(&b, BT_ROUTER_RANDOM, BT_CONTROL_TRACK, BT_POLICY_UNRESTRICTED);
    uint64_t drops = bed_counter(&b, BT_RC_DROP_ADMISSION), arrived = bed_counter(&b, BT_RC_REQUESTS);
    for (unsigned i = 0; i < 100; i++) {
        bed_request_bytes(&b, &b.client, first, sizeof first);
        bed_discard(&b);
        bed_request_bytes(&b, &b.client, second, sizeof second);
        assert_null(bed_packet(&b));
    }
    assert_in_range(bed_counter(&b, BT_RC_DROP_ADMISSION) - drops, 90, 100);
    assert_int_equal(bed_counter(&b, BT_RC_REQUESTS) - arrived, 100);
    bed_close(&b);
}

/* Requests on their way when it is switched on or off are neither lost nor misjudged. */
static void it_may_be_switched_under_load(void **state)
{
    (void)state;
    static struct bed b;
    uint64_t served = 0;
    open_with(&b, 1, 64, BT_ADMISSION_OBSERVE);
    for (unsigned round = 0; round < 200; round++) {
        for (uint16_t i = 0; i < 20; i++) {
            send_class(&b, (uint16_t)(round * 20 + i), 0, (uint8_t)(i % 8), 0);
        }
        bed_discard(&b);
        b.config.admission.mode = round % 2 == 0 ? BT_ADMISSION_REJECT : BT_ADMISSION_OBSERVE;
        bed_apply(&b);
        for (uint16_t i = 0; i < 20; i++) {
            if (round % 4 != 3 || i % 2 == 0) {
                finish(&b, (uint16_t)(round * 20 + i), ++served, 64, false);
            } else {
                served++;
            }
        }
        bed_tick(&b, 4 * MS);
    }
    bed_tick(&b, 11 * SEC);
    assert_int_equal(stats_of(&b).pairs, 0);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r227_dr_0_is_transparent),
        cmocka_unit_test(r227_dr_99_drops_what_it_should),
        cmocka_unit_test(r260_who_finds_an_idle_worker_is_let_in),
        cmocka_unit_test(r260_only_where_the_worker_would_be_idle),
        cmocka_unit_test(r228_a_dead_worker_raises_the_share),
        cmocka_unit_test(r229_lost_feedback_is_no_violation_to_the_loop_alone),
        cmocka_unit_test(r210_the_unfinished_are_a_violation_to_both),
        cmocka_unit_test(r210_a_legacy_worker_shows_it_by_what_came_later),
        cmocka_unit_test(r210_of_a_silent_legacy_worker_all_are_overdue),
        cmocka_unit_test(r210_the_late_are_counted_once),
        cmocka_unit_test(r209_a_copy_is_unknown),
        cmocka_unit_test(r214_the_class_of_a_request),
        cmocka_unit_test(r225_degrade_marks_instead_of_dropping),
        cmocka_unit_test(r225_degrade_needs_workers_that_read_options),
        cmocka_unit_test(r225_degrade_drops_where_the_queue_ends),
        cmocka_unit_test(r215_the_first_packet_decides),
        cmocka_unit_test(it_may_be_switched_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
