// SPDX-License-Identifier: Apache-2.0
// Copies that the router takes back: which, when, and that no credit and no request is
// lost by it.
#include <string.h>

#include "router/hedging_bed.h"
#include "router/objective.h"

static struct hedging_bed h;

/* What left the router last: requests and CANCELs in order. */
struct left {
    int n, worker[8];
    bool cancel[8];
    uint32_t copy[8];
    uint16_t id[8];
};

static int worker_of(const struct bt_addr *a)
{
    for (uint32_t w = 0; w < h.b.config.members_n; w++) {
        if (bt_addr_eq(&h.b.members[w], a)) {
            return (int)w;
        }
    }
    return -1;
}

static struct left take(void)
{
    struct left out = {.n = 0};
    struct bt_pkt *pkt;
    while ((pkt = bed_packet(&h.b)) != NULL) {
        struct bt_r2p2_hdr hdr;
        assert_int_equal(bt_r2p2_decode(pkt->data, pkt->len, BT_ROLE_SERVER, &hdr), BT_M_OK);
        assert_true(out.n < 8);
        int i = out.n++;
        out.worker[i] = worker_of(&pkt->dst);
        out.cancel[i] = hdr.type == BT_CANCEL;
        out.copy[i] = hdr.opt.present & BT_HAS_COPY ? hdr.opt.copy : 0;
        out.id[i] = hdr.req_id;
        if (out.cancel[i]) {
            assert_int_equal(hdr.payload_len, 0);
            assert_true(bt_addr_eq(&hdr.opt.forwarded, &h.b.client));
            assert_true(bt_addr_eq(&pkt->src, &h.b.requests));
            assert_int_equal(pkt->tx_as_src, 0);
            assert_int_equal(pkt->local, BT_ROUTER_PORT_REQUEST);
            if (h.b.config.keys != NULL) {
                assert_int_equal(bt_tag_verify(pkt->data, pkt->len, &hdr, &h.b.keys, &pkt->src, &pkt->dst),
                                 BT_TAG_VALID);
            }
        } else if (out.worker[i] >= 0) {
            h.received[out.worker[i]]++;
        }
        bt_pool_put(h.b.pool, pkt);
    }
    return out;
}

static void open_with(uint32_t workers, uint32_t n, enum bt_hedging_cancellation cancellation)
{
    hedging_open(&h, workers, n, BT_HEDGING_LOAD_AWARE);
    h.b.config.hedging.cancellation = cancellation;
    bed_apply(&h.b);
    h.b.now += MS;
}

static uint64_t step = 10; /* ns between two packets */

static struct left request(uint16_t id)
{
    h.b.now += step;
    bed_send(&h.b, id);
    return take();
}

static struct left say(int w, const struct bed_report *report)
{
    h.b.now += step;
    bed_feedback(&h.b, (uint32_t)w, report);
    return take();
}

static struct bed_report end_of(int w, uint16_t id, uint8_t flags)
{
    h.served[w]++;
    return (struct bed_report){.received = h.received[w],
                               .served = h.served[w],
                               .n = h.n,
                               .incarnation = 1,
                               .req_id = id,
                               .flags = (uint8_t)(BT_FEEDBACK_PAIR | flags)};
}

static struct left ended(int w, uint16_t id, uint8_t flags)
{
    struct bed_report report = end_of(w, id, flags);
    return say(w, &report);
}

static struct left finish(int w, uint16_t id)
{
    return ended(w, id, 0);
}

static struct left let_go(int w, uint16_t id)
{
    return ended(w, id, BT_FEEDBACK_DROPPED | BT_FEEDBACK_CANCELLED);
}

static uint64_t count(enum bt_router_counter c)
{
    return bed_counter(&h.b, c);
}

/* Nothing is owed, kept or watched; no request counts twice. */
static void nothing_left(uint64_t requests)
{
    struct bt_router_stats s = hedging_stats(&h);
    assert_int_equal(s.outstanding, 0);
    assert_int_equal(s.hedging_kept, 0);
    assert_int_equal(s.hedging_pairs, 0);
    assert_int_equal(bed_pairs(&h.b), 0);
    assert_int_equal(count(BT_RC_PAIRS_FINISHED), requests);
    assert_int_equal(count(BT_RC_PAIRS_UNKNOWN), 0);
    assert_int_equal(count(BT_RC_CANCELS_SENT),
                     count(BT_RC_CANCELS_HONOURED) + count(BT_RC_CANCELS_TOO_LATE) + count(BT_RC_CANCELS_UNHEARD));
    bed_close(&h.b);
}

/* the first answer takes the other copy back, by its own number; its credit comes with its FEEDBACK. */
static void r245_an_answer_takes_the_other_copy_back(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        for (int tagged = 0; tagged < 2; tagged++) {
            open_with(2, 1, BT_HEDGING_CANCEL_ANSWERED);
            if (tagged) {
                bed_use_keys(&h.b);
                bed_apply(&h.b);
            }
            struct left sent = request(9);
            assert_int_equal(sent.n, 2);
            assert_true(sent.copy[0] != 0 && sent.copy[1] != 0 && sent.copy[0] != sent.copy[1]);
            struct left then = finish(sent.worker[first], 9);
            assert_int_equal(then.n, 1);
            assert_true(then.cancel[0]);
            assert_int_equal(then.worker[0], sent.worker[1 - first]);
            assert_int_equal(then.copy[0], sent.copy[1 - first]);
            assert_int_equal(then.id[0], 9);
            assert_int_equal(hedging_stats(&h).outstanding, 1); /* until it says so */
            assert_int_equal(let_go(sent.worker[1 - first], 9).n, 0);
            assert_int_equal(count(BT_RC_CANCELS_HONOURED), 1);
            assert_int_equal(count(BT_RC_HEDGES_LATE), 0);
            assert_int_equal(count(BT_RC_HEDGES_WON), first);
            nothing_left(1);
        }
    }
}

/* served before the CANCEL came: late, as without one. Lost without a word: T_max, and the credit by R-111. */
static void r275_too_late_or_never_heard_of(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_ANSWERED);
    struct left sent = request(9);
    finish(sent.worker[0], 9);
    finish(sent.worker[1], 9);
    assert_int_equal(count(BT_RC_CANCELS_TOO_LATE), 1);
    assert_int_equal(count(BT_RC_HEDGES_LATE), 1);
    sent = request(10);
    finish(sent.worker[0], 10);
    h.served[sent.worker[1]]++; /* its FEEDBACK is lost */
    hedging_report(&h);
    bed_tick(&h.b, 11 * SEC);
    assert_int_equal(count(BT_RC_CANCELS_UNHEARD), 1);
    assert_int_equal(count(BT_RC_PAIRS_UNANSWERED), 0);
    nothing_left(2);
}

/* None: nothing is numbered, nothing taken back. */
static void none_is_as_before(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_NONE);
    struct left sent = request(9);
    assert_int_equal(sent.copy[0], 0);
    assert_int_equal(finish(sent.worker[0], 9).n, 0);
    assert_int_equal(request(10).n, 1);
    finish(sent.worker[1], 9);
    finish(sent.worker[0], 10);
    assert_int_equal(count(BT_RC_CANCELS_SENT), 0);
    bed_discard(&h.b);
    bed_close(&h.b);
}

/* a newcomer that finds nobody idle goes where the copy runs that began last, behind its CANCEL, with n of 1 and
 * of more; what survives is an ordinary request, and may be copied again. */
static void r246_a_newcomer_takes_the_place_of_the_last_copy(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 3; n += 2) {
        open_with(4, n, BT_HEDGING_CANCEL_PREEMPTIVE);
        struct left a = request(1), b = request(2);
        assert_int_equal(a.n, 2);
        assert_int_equal(b.n, 2);
        assert_int_equal(hedging_stats(&h).hedging_pairs, 2);
        struct left c = request(3); /* of b's, which began last: both at once, either of them */
        assert_int_equal(c.n, 2);
        assert_true(c.cancel[0] && !c.cancel[1]);
        assert_int_equal(c.id[0], 2);
        assert_int_equal(c.id[1], 3);
        assert_int_equal(c.worker[0], c.worker[1]);
        int k = c.worker[0] == b.worker[1];
        assert_int_equal(c.worker[0], b.worker[k]);
        assert_int_equal(c.copy[0], b.copy[k]);
        assert_int_equal(bed_outstanding(&h.b, (uint32_t)c.worker[0]), 2);
        assert_int_equal(count(BT_RC_PREEMPTIONS), 1);
        assert_int_equal(bed_held(&h.b), 0);
        assert_int_equal(let_go(c.worker[0], 2).n, 0); /* nobody is idle */
        assert_int_equal(bed_outstanding(&h.b, (uint32_t)c.worker[0]), 1);
        struct left again = finish(c.worker[0], 3); /* idle: the oldest that runs alone is copied */
        assert_int_equal(again.n, 1);
        assert_int_equal(again.id[0], 2);
        assert_int_equal(again.worker[0], c.worker[0]);
        assert_true((int32_t)(again.copy[0] - c.copy[0]) > 0); /* */
        struct left end = finish(again.worker[0], 2);
        assert_int_equal(end.n, 1);
        assert_int_equal(end.worker[0], b.worker[1 - k]);
        assert_int_equal(end.copy[0], b.copy[1 - k]);
        let_go(end.worker[0], 2);
        finish(a.worker[0], 1);
        let_go(a.worker[1], 1);
        nothing_left(3);
    }
}

/* among copies that began at once each is as likely; the first one of a request also. */
static void r246_equals_are_drawn(void **state)
{
    (void)state;
    int firsts = 0;
    for (int i = 0; i < 200; i++) {
        if (i % 50 == 0) {
            open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
        }
        uint16_t id = (uint16_t)(2 * i + 1);
        struct left a = request(id), b = request((uint16_t)(id + 1));
        int k = b.worker[0] == a.worker[1];
        firsts += !k;
        let_go(b.worker[0], id);
        finish(b.worker[0], (uint16_t)(id + 1)); /* the other is copied there */
        finish(a.worker[1 - k], id);
        let_go(b.worker[0], id);
        if (i % 50 == 49) {
            nothing_left(100);
        }
    }
    assert_true(firsts > 60 && firsts < 140);
}

/* with nobody to take back, newcomers wait as ever, and nothing is taken from probes. */
static void r274_probes_are_left_alone(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
    h.b.config.hedging.probe_per_million = 1000000;
    bed_apply(&h.b);
    struct left a = request(1);
    assert_int_equal(a.n, 2);
    assert_int_equal(request(2).n, 0);
    assert_int_equal(bed_held(&h.b), 1);
    struct left b = finish(a.worker[0], 1); /* no CANCEL; the one that waited */
    assert_int_equal(b.n, 1);
    assert_int_equal(b.id[0], 2);
    h.b.now += MS;
    finish(a.worker[1], 1);
    assert_int_equal(count(BT_RC_CANCELS_SENT), 0);
    assert_int_equal(hedging_stats(&h).jitter_compared, 1);
    take();
    bed_discard(&h.b);
    bed_close(&h.b);
}

/* what was taken back, or might have been, measures nothing. */
static void r274_only_probes_measure(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_ANSWERED);
    struct left a = request(1);
    finish(a.worker[0], 1);
    h.b.now += MS;
    finish(a.worker[1], 1);
    assert_int_equal(hedging_stats(&h).jitter_compared, 0);
    nothing_left(1);
}

/* The pre-empted copy was served before its CANCEL came: it is the answer, and the survivor is taken back. */
static void a_preempted_copy_may_still_answer(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
    struct left a = request(1), b = request(2);
    int k = b.worker[0] == a.worker[1];
    struct left then = finish(b.worker[0], 1);
    assert_int_equal(then.n, 1);
    assert_true(then.cancel[0]);
    assert_int_equal(then.worker[0], a.worker[1 - k]);
    assert_int_equal(count(BT_RC_CANCELS_TOO_LATE), 1);
    let_go(then.worker[0], 1);
    finish(b.worker[0], 2);
    take();
    struct bt_router_stats s = hedging_stats(&h);
    assert_true(s.outstanding <= 1); /* perhaps a copy of 2 */
    bed_discard(&h.b);
    bed_close(&h.b);
}

/* A newcomer goes to no worker that may not be chosen: then it waits, and takes the place once that may be again. */
static void r246_only_where_a_newcomer_may_go(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
    struct left a = request(1);
    for (int i = 0; i < 2; i++) {
        bt_router_unreachable(h.b.r, h.b.now, &h.b.members[i]);
    }
    assert_int_equal(request(2).n, 0);
    assert_int_equal(bed_held(&h.b), 1);
    hedging_report(&h); /* both are heard again */
    struct left b = take();
    assert_int_equal(b.n, 2);
    assert_true(b.cancel[0]);
    assert_int_equal(b.id[1], 2);
    assert_int_equal(bed_held(&h.b), 0);
    int k = b.worker[0] == a.worker[1];
    let_go(b.worker[0], 1);
    finish(b.worker[0], 2);
    finish(a.worker[1 - k], 1);
    let_go(b.worker[0], 1);
    nothing_left(2);
}

/* The same worker is not asked to let go of a second one while it has more than it granted. */
static void r246_once_beyond_the_credit(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
    struct left a = request(1);
    struct left b = request(2);
    assert_int_equal(b.n, 2);
    assert_int_equal(request(3).n, 0); /* no pair is left */
    assert_int_equal(bed_held(&h.b), 1);
    assert_int_equal(bed_outstanding(&h.b, (uint32_t)b.worker[0]), 2);
    let_go(b.worker[0], 1);
    assert_int_equal(bed_held(&h.b), 1); /* that was the credit 2 used */
    struct left c = finish(b.worker[0], 2);
    assert_int_equal(c.n, 1);
    assert_int_equal(c.id[0], 3);
    int k = b.worker[0] == a.worker[1];
    finish(a.worker[1 - k], 1);
    take();
    bed_discard(&h.b);
    bed_close(&h.b);
}

/* all at one instant, so that either copy of 2 might be taken back; but one worker has 2 in place of what it has
 * not let go of yet, and gets nothing more. */
static void r275_never_two_beyond_the_credit(void **state)
{
    (void)state;
    step = 0;
    open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
    for (uint16_t id = 1; id < 120; id += 3) {
        struct left a = request(id), b = request((uint16_t)(id + 1));
        int full = b.worker[0], other = a.worker[a.worker[0] == full];
        struct left c = finish(other, id);
        assert_int_equal(c.n, 1);
        assert_int_equal(c.id[0], id + 1);
        struct left d = request((uint16_t)(id + 2));
        assert_int_equal(d.n, 2);
        assert_int_equal(d.worker[1], other);
        assert_int_equal(bed_outstanding(&h.b, (uint32_t)full), 2);
        let_go(full, id);
        let_go(other, (uint16_t)(id + 1));
        finish(full, (uint16_t)(id + 1));
        finish(other, (uint16_t)(id + 2));
        let_go(full, (uint16_t)(id + 2));
    }
    nothing_left(120);
    step = 10;
}

/* admission hears once, whatever is taken back. */
static void r210_admission_hears_of_it_once(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
        h.b.config.admission = objective(BT_CONTROL_TRACK);
        h.b.config.admission.slo_ns = 10 * MS;
        bed_apply(&h.b);
        struct left a = request(1), b = request(2);
        int k = b.worker[0] == a.worker[1];
        if (way != 1) {
            let_go(b.worker[0], 1);
        }
        bed_tick(&h.b, way == 2 ? 200 * MS : MS); /* T_max of admission is 100 ms */
        finish(b.worker[0], 2);
        finish(a.worker[1 - k], 1);
        take();
        bed_tick(&h.b, 20 * SEC);
        struct bt_router_stats s = hedging_stats(&h);
        uint64_t told =
            s.admission_class[0].within + s.admission_class[0].exceeded + s.admission_unknown + s.admission_dropped;
        assert_int_equal(s.admission_class[0].arrived, 2);
        assert_int_equal(told, 2);
        bed_discard(&h.b);
        bed_close(&h.b);
    }
}

/* R-139a: what a worker let go is neither a success nor a failure of it; who lets go unasked, dropped it. */
static void r272_a_copy_nobody_took_back_was_dropped(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_ANSWERED);
    struct left a = request(1);
    let_go(a.worker[0], 1);
    assert_int_equal(count(BT_RC_CANCELS_HONOURED), 0);
    assert_int_equal(count(BT_RC_PAIRS_REJECTED), 1);
    finish(a.worker[1], 1);
    take();
    bed_discard(&h.b);
    bed_close(&h.b);
}

/* the network repeats what a worker said of a copy; meanwhile a later one of the same request runs there. It is
 * not taken to have ended, whether it is to be taken back as well or not, and owes its credit on. */
static void r272_a_repeated_word_is_of_the_earlier_copy(void **state)
{
    (void)state;
    for (int wanted = 0; wanted < 2; wanted++) {
        open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
        struct left a = request(1), b = request(2);
        int w = b.worker[0], other = a.worker[a.worker[0] == w];
        struct bed_report said = end_of(w, 1, BT_FEEDBACK_DROPPED | BT_FEEDBACK_CANCELLED);
        say(w, &said);
        struct left again = finish(w, 2);
        assert_int_equal(again.n, 1);
        assert_int_equal(again.id[0], 1);
        assert_int_equal(again.worker[0], w);
        if (wanted) {
            assert_true(finish(other, 1).cancel[0]);
        }
        assert_int_equal(say(w, &said).n, 0);
        assert_int_equal(bed_outstanding(&h.b, (uint32_t)w), 1);
        assert_int_equal(count(BT_RC_CANCELS_HONOURED), 1);
        assert_int_equal(count(BT_RC_PAIRS_UNKNOWN), 1);
        if (wanted) {
            let_go(w, 1);
        } else {
            finish(w, 1);
            let_go(other, 1);
        }
        assert_int_equal(count(BT_RC_CANCELS_HONOURED), 2);
        assert_int_equal(hedging_stats(&h).outstanding, 0);
        assert_int_equal(bed_pairs(&h.b), 0);
        bed_close(&h.b);
    }
}

/* A restarted worker knows nothing of the copy: its pair goes at T_max, its credit with the new incarnation. */
static void r112_a_restart_loses_no_credit(void **state)
{
    (void)state;
    open_with(2, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
    struct left a = request(1), b = request(2);
    uint32_t w = (uint32_t)b.worker[0];
    h.received[w] = h.served[w] = 0;
    bed_feedback(&h.b, w, &(struct bed_report){.n = 1, .incarnation = 2, .flags = BT_FEEDBACK_JOIN});
    int k = b.worker[0] == a.worker[1];
    finish(a.worker[1 - k], 1);
    bed_tick(&h.b, 11 * SEC);
    bed_discard(&h.b);
    struct bt_router_stats s = hedging_stats(&h);
    assert_int_equal(s.hedging_kept, 0);
    assert_int_equal(bed_pairs(&h.b), 0);
    assert_int_equal(count(BT_RC_PAIRS_UNANSWERED), 1); /* 2: its client asks again */
    assert_int_equal(count(BT_RC_PAIRS_FINISHED), 1);
    bed_close(&h.b);
}

/* Switched off while copies are being taken back. */
static void it_may_be_switched_off(void **state)
{
    (void)state;
    open_with(4, 1, BT_HEDGING_CANCEL_PREEMPTIVE);
    struct left a = request(1), b = request(2), c = request(3);
    struct left d = finish(a.worker[0], 1); /* 1 is answered, its other copy is asked for */
    assert_true(d.cancel[0]);
    h.b.config.hedging.mode = BT_HEDGING_OFF;
    bed_apply(&h.b);
    int k = c.worker[0] == b.worker[1];
    let_go(a.worker[1], 1);
    let_go(c.worker[0], 2);
    finish(c.worker[0], 3);
    finish(b.worker[1 - k], 2);
    assert_int_equal(count(BT_RC_PAIRS_FINISHED), 3);
    assert_int_equal(count(BT_RC_PAIRS_REJECTED), 0);
    bed_tick(&h.b, 11 * SEC);
    assert_int_equal(count(BT_RC_PAIRS_UNANSWERED), 0);
    bed_discard(&h.b);
    bed_close(&h.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r245_an_answer_takes_the_other_copy_back),
        cmocka_unit_test(r275_too_late_or_never_heard_of),
        cmocka_unit_test(none_is_as_before),
        cmocka_unit_test(r246_a_newcomer_takes_the_place_of_the_last_copy),
        cmocka_unit_test(r246_equals_are_drawn),
        cmocka_unit_test(r274_probes_are_left_alone),
        cmocka_unit_test(r274_only_probes_measure),
        cmocka_unit_test(a_preempted_copy_may_still_answer),
        cmocka_unit_test(r246_only_where_a_newcomer_may_go),
        cmocka_unit_test(r246_once_beyond_the_credit),
        cmocka_unit_test(r275_never_two_beyond_the_credit),
        cmocka_unit_test(r210_admission_hears_of_it_once),
        cmocka_unit_test(r272_a_copy_nobody_took_back_was_dropped),
        cmocka_unit_test(r272_a_repeated_word_is_of_the_earlier_copy),
        cmocka_unit_test(r112_a_restart_loses_no_credit),
        cmocka_unit_test(it_may_be_switched_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
