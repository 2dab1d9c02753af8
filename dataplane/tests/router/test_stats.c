// SPDX-License-Identifier: Apache-2.0
// What a router tells about itself: each number under its name, seen while it is not 0.
#include <stdio.h>
#include <string.h>

#include "router/hedging_bed.h"
#include "router/objective.h"
#include "router/state.h"

/* What docs/reference/metrics.md calls each of them. */
static const char *const names[BT_ROUTER_COUNTERS] = {
    [BT_RC_REQUESTS] = "requests_total",
    [BT_RC_FORWARDED] = "forwarded_total",
    [BT_RC_FORWARDED_STICKY] = "forwarded_sticky_total",
    [BT_RC_FORWARDED_LEGACY] = "forwarded_legacy_total",
    [BT_RC_FORWARDED_BARE] = "forwarded_unmarked_total",
    [BT_RC_HELD] = "held_total reason=no_credit",
    [BT_RC_HELD_BACK] = "held_total reason=hold_back",
    [BT_RC_DROP_QUEUE_FULL] = "dropped_total reason=queue_full",
    [BT_RC_DROP_QUEUE_TIMEOUT] = "dropped_total reason=queue_timeout",
    [BT_RC_DROP_NO_MEMBERS] = "dropped_total reason=no_members",
    [BT_RC_DROP_NO_MASTER] = "dropped_total reason=no_master",
    [BT_RC_DROP_POLICY] = "dropped_total reason=policy",
    [BT_RC_DROP_NO_ROOM] = "dropped_total reason=no_room",
    [BT_RC_DROP_OPTION] = "dropped_total reason=critical_option",
    [BT_RC_DROP_ADMISSION] = "dropped_total reason=admission",
    [BT_RC_DEGRADED] = "degraded_total result=marked",
    [BT_RC_DEGRADE_NO_ROOM] = "degraded_total result=no_room",
    [BT_RC_FEEDBACK] = "feedback_total kind=applied",
    [BT_RC_FEEDBACK_STALE] = "feedback_total kind=stale",
    [BT_RC_FEEDBACK_LEGACY] = "feedback_legacy_total",
    [BT_RC_JOINED] = "worker_events_total event=joined",
    [BT_RC_LEFT] = "worker_events_total event=left",
    [BT_RC_RESTARTED] = "worker_events_total event=restarted",
    [BT_RC_FORGOTTEN] = "worker_events_total event=forgotten",
    [BT_RC_SUSPECTED] = "worker_events_total event=suspected",
    [BT_RC_READMITTED] = "worker_events_total event=readmitted",
    [BT_RC_UNREACHABLE] = "worker_events_total event=unreachable",
    [BT_RC_UNREACHABLE_BEHIND] = "worker_events_total event=unreachable_not_seen",
    [BT_RC_EJECTED] = "worker_events_total event=ejected",
    [BT_RC_EJECTION_SPARED] = "worker_events_total event=ejection_spared",
    [BT_RC_CREDITS_RECLAIMED] = "credits_reclaimed_total",
    [BT_RC_CREDITS_LOST] = "requests_lost_total",
    [BT_RC_CREDIT_RESCANS] = "credit_rescans_total",
    [BT_RC_PAIRS_FINISHED] = "pairs_total result=finished",
    [BT_RC_PAIRS_REJECTED] = "pairs_total result=rejected",
    [BT_RC_PAIRS_UNANSWERED] = "pairs_total result=unanswered",
    [BT_RC_PAIRS_FULL] = "pairs_total result=not_watched",
    [BT_RC_PAIRS_UNKNOWN] = "pairs_total result=unknown",
    [BT_RC_PAIRS_OVERDUE] = "pairs_total result=overdue",
    [BT_RC_PAIRS_UNSEEN] = "pairs_total result=unseen",
    [BT_RC_PAIRS_BEHIND] = "pairs_total result=thread_behind",
    [BT_RC_HEDGES_SENT] = "hedges_total result=sent",
    [BT_RC_HEDGES_NO_IDLE] = "hedges_total result=no_idle_worker",
    [BT_RC_HEDGES_BUSY] = "hedges_total result=busy",
    [BT_RC_HEDGES_BUDGET] = "hedges_total result=budget",
    [BT_RC_HEDGES_NO_BUFFER] = "hedges_total result=no_buffer",
    [BT_RC_HEDGES_NO_ROOM] = "hedges_total result=no_room",
    [BT_RC_HEDGES_UNSUITED] = "hedges_total result=unsuited",
    [BT_RC_HEDGES_WON] = "hedge_completions_total result=won",
    [BT_RC_HEDGES_LATE] = "hedge_completions_total result=late",
    [BT_RC_CANCELS_SENT] = "cancels_total result=sent",
    [BT_RC_CANCELS_HONOURED] = "cancels_total result=honoured",
    [BT_RC_CANCELS_TOO_LATE] = "cancels_total result=too_late",
    [BT_RC_CANCELS_UNHEARD] = "cancels_total result=unheard",
    [BT_RC_CANCELS_NO_BUFFER] = "cancels_total result=no_buffer",
    [BT_RC_PREEMPTIONS] = "preemptions_total",
    [BT_RC_CONFIGS_APPLIED] = "configs_total result=applied",
    [BT_RC_CONFIGS_REFUSED] = "configs_total result=refused",
};

static void r128_counters_stand_under_their_names(void **state)
{
    (void)state;
    for (unsigned i = 0; i < BT_ROUTER_COUNTERS; i++) {
        const struct bt_counter_desc *d = &bt_router_counter_descs[i];
        char text[128];
        assert_non_null(d->name);
        if (d->label != NULL) {
            snprintf(text, sizeof text, "%s %s=%s", d->name, d->label, d->value);
        } else {
            assert_null(d->value);
            snprintf(text, sizeof text, "%s", d->name);
        }
        assert_int_equal(strncmp(text, "router_", 7), 0);
        assert_string_equal(text + 7, names[i]);
    }
}

static struct bt_router_stats stats_of(const struct bed *b)
{
    struct bt_router_stats s;
    bt_router_read_stats(b->r, b->now, &s);
    return s;
}

/* the queue. */
static void r128_what_waits(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 2, 1);
    b.config.central_limit = 77;
    bed_build(&b);
    bed_join_all(&b, 1);
    bed_send(&b, 1);
    bed_send(&b, 2);
    struct bt_router_stats s = stats_of(&b);
    assert_int_equal(s.held, 0);
    assert_int_equal(s.held_limit, 77);
    assert_int_equal(s.oldest_held_ns, 0);
    assert_int_equal(s.outstanding, 2);
    assert_int_equal(s.pairs, 2);
    assert_false(s.router_draining);
    bed_send(&b, 3);
    b.now += 3 * MS;
    bed_send(&b, 4);
    b.now += 4 * MS;
    bt_router_drain(b.r, b.now);
    s = stats_of(&b);
    assert_int_equal(s.held, 2);
    assert_int_equal(s.oldest_held_ns, 7 * MS);
    assert_int_equal(s.outstanding, 2);
    assert_true(s.router_draining);
    bt_router_read_stats(b.r, b.now - 8 * MS, &s); /* a clock behind that of the packets */
    assert_int_equal(s.oldest_held_ns, 0);
    bed_close(&b);
}

/* workers by what they are, each kind so many that no other number is the same. */
static void r128_how_workers_are(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 16, 1);
    for (uint32_t w = 0; w < 14; w++) {
        bed_join(&b, w, 1);
    }
    for (uint16_t id = 0; id < 14; id++) {
        bed_send(&b, id);
    }
    bt_router_unreachable(b.r, b.now, &b.members[0]);
    for (uint32_t w = 1; w < 4; w++) {
        bed_feedback(&b, w, &(struct bed_report){.received = 1, .n = 1, .incarnation = 1, .flags = BT_FEEDBACK_LEAVE});
    }
    struct bt_router_stats s = stats_of(&b);
    assert_int_equal(s.members, 16);
    assert_int_equal(s.joined, 14);
    assert_int_equal(s.suspect, 1);
    assert_int_equal(s.ejected, 0);
    assert_int_equal(s.eligible, 10);
    assert_int_equal(s.draining, 0);
    b.config.members_n = 12; /* two that owe a request, and two that owe nothing and go at the next tick */
    bed_apply(&b);
    bed_tick(&b, 0);
    s = stats_of(&b);
    assert_int_equal(s.members, 12);
    assert_int_equal(s.joined, 12);
    assert_int_equal(s.suspect, 1);
    assert_int_equal(s.eligible, 8);
    assert_int_equal(s.draining, 2);
    assert_int_equal(s.outstanding, 14); /* theirs, too */
    bed_close(&b);
}

/* the row of a worker that joined, was given five, says that four came and two were served; one was lost. */
static void r128_the_row_of_a_worker(void **state)
{
    (void)state;
    struct bed b;
    struct bt_router_member_stats row;
    bed_open(&b, 2, 8);
    row = bed_row(&b, 1);
    assert_false(row.joined || row.eligible || row.leaving || row.suspect || row.ejected);
    assert_true(row.feedback_age_ns == UINT64_MAX);
    assert_false(bt_router_member(b.r, b.now, 2, &row));
    bed_feedback(&b, 1, &(struct bed_report){.n = 6, .incarnation = 9, .flags = BT_FEEDBACK_JOIN});
    for (uint16_t id = 0; id < 5; id++) {
        bed_send(&b, id);
    }
    bed_discard(&b);
    struct bed_report said = {.received = 4, .served = 2, .n = 6, .incarnation = 9, .flags = BT_FEEDBACK_PERIODIC};
    for (int i = 0; i < 10; i++) { /* longer than T_loss */
        bed_tick(&b, 50 * MS);
        bed_feedback(&b, 1, &said);
    }
    b.now += 11 * MS;
    row = bed_row(&b, 1);
    assert_true(bt_addr_eq(&row.addr, &b.members[1]));
    assert_true(row.joined && row.eligible);
    assert_false(row.suspect || row.ejected || row.leaving || row.legacy);
    assert_int_equal(row.n, 6);
    assert_int_equal(row.sent, 5);
    assert_int_equal(row.done, 2);
    assert_int_equal(row.lost, 1);
    assert_int_equal(row.outstanding, 2);
    assert_int_equal(row.reclaimed, 0);
    assert_int_equal(row.incarnation, 9);
    assert_int_equal(row.feedback_age_ns, 11 * MS);
    assert_true(bt_router_member(b.r, b.now - 12 * MS, 1, &row));
    assert_int_equal(row.feedback_age_ns, 0); /* a clock behind that of the packets */
    said.n = 9;                               /* more than the router gives */
    said.flags = BT_FEEDBACK_LEAVE;
    bed_feedback(&b, 1, &said);
    row = bed_row(&b, 1);
    assert_int_equal(row.n, 8);
    assert_true(row.leaving && row.joined);
    assert_false(row.eligible);
    bed_close(&b);
}

/* and of one that speaks the short form: three given, one answered, one taken back. */
static void r128_the_row_of_a_legacy_worker(void **state)
{
    (void)state;
    struct bed b;
    bed_defaults(&b, 1, 3);
    b.config.legacy_peers = true;
    b.config.forwarding = BT_FORWARD_TRANSPARENT;
    bed_build(&b);
    bed_send(&b, 1);
    bed_legacy(&b, 0, 1);
    bed_send(&b, 2);
    bed_send(&b, 3);
    bed_discard(&b);
    assert_int_equal(bed_counter(&b, BT_RC_FORWARDED_LEGACY), 3);
    for (int t = 0; bed_counter(&b, BT_RC_CREDITS_RECLAIMED) == 0; t++) {
        assert_true(t < 250);
        bed_tick(&b, MS);
    }
    struct bt_router_member_stats row = bed_row(&b, 0);
    assert_true(row.legacy && row.joined && row.eligible);
    assert_int_equal(row.n, 3);
    assert_int_equal(row.sent, 3);
    assert_int_equal(row.done, 1);
    assert_int_equal(row.reclaimed, 1);
    assert_int_equal(row.lost, 0);
    assert_int_equal(row.outstanding, 1);
    assert_int_equal(row.incarnation, 0);
    bed_close(&b);
}

/* hedging, with three requests on their way, of which two have copies, one of them a probe. */
static void r128_what_hedging_keeps(void **state)
{
    (void)state;
    static struct hedging_bed h;
    int to[2];
    hedging_open(&h, 5, 1, BT_HEDGING_LOAD_AWARE);
    h.b.config.hedging.cancellation = BT_HEDGING_CANCEL_ANSWERED;
    bed_apply(&h.b);
    assert_int_equal(hedging_stats(&h).hedging_mode, BT_HEDGING_LOAD_AWARE);
    assert_int_equal(hedging_send(&h, 1, to), 2);
    h.b.config.hedging.probe_per_million = 1000000; /* a probe's copies are not taken back */
    bed_apply(&h.b);
    assert_int_equal(hedging_send(&h, 2, to), 2);
    assert_int_equal(hedging_send(&h, 3, to), 1);
    struct bt_router_stats s = hedging_stats(&h);
    assert_int_equal(s.hedging_kept, 3);
    assert_int_equal(s.hedging_pairs, 1);
    h.b.config.hedging.mode = BT_HEDGING_DELAYED;
    bed_apply(&h.b);
    assert_int_equal(hedging_stats(&h).hedging_mode, BT_HEDGING_DELAYED);
    assert_int_equal(hedging_stats(&h).hedging_kept, 3);
    h.b.config.hedging.mode = BT_HEDGING_OFF;
    bed_apply(&h.b);
    s = hedging_stats(&h);
    assert_int_equal(s.hedging_mode, BT_HEDGING_OFF);
    assert_int_equal(s.hedging_kept, 0);
    bed_close(&h.b);
}

/* requests that find no room to be kept go out alone. */
static void r253_no_room_to_keep_it(void **state)
{
    (void)state;
    struct hedging_bed h = {.n = 64};
    int to[2];
    bed_defaults(&h.b, 32, 64);
    h.b.config.hedging =
        (struct bt_hedging_config){.mode = BT_HEDGING_PROBE, .busy_percent = 100, .budget_percent = 100};
    h.b.max_hedges = 4;
    bed_build(&h.b);
    bed_join_all(&h.b, 64);
    for (uint16_t id = 1; id <= 6; id++) {
        assert_int_equal(hedging_send(&h, id, to), 1);
    }
    assert_int_equal(hedging_stats(&h).hedging_kept, 4);
    assert_int_equal(bed_counter(&h.b, BT_RC_HEDGES_NO_ROOM), 2);
    bed_close(&h.b);
}

/* admission; what it counted is made up. */
static void r128_what_admission_tells(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 64);
    assert_int_equal(stats_of(&b).admission_mode, BT_ADMISSION_OBSERVE);
    b.config.admission = objective(BT_CONTROL_TRACK);
    bed_apply(&b);
    struct bt_admission *a = b.r->admission_room;
    a->unknown = 11;
    a->decisions = 12;
    a->extensions = 13;
    a->stalls = 14;
    a->dropped = 15;
    struct bt_router_stats s = stats_of(&b);
    assert_int_equal(s.admission_mode, BT_ADMISSION_REJECT);
    assert_int_equal(s.admission_controller, BT_CONTROL_TRACK);
    assert_int_equal(s.admission_unknown, 11);
    assert_int_equal(s.admission_decisions, 12);
    assert_int_equal(s.admission_extensions, 13);
    assert_int_equal(s.admission_stalls, 14);
    assert_int_equal(s.admission_dropped, 15);
    b.config.admission.mode = BT_ADMISSION_DEGRADE;
    b.config.admission.controller = BT_CONTROL_AIAD;
    bed_apply(&b);
    s = stats_of(&b);
    assert_int_equal(s.admission_mode, BT_ADMISSION_DEGRADE);
    assert_int_equal(s.admission_controller, BT_CONTROL_AIAD);
    bed_close(&b);
}

/* a configuration that took effect, and one that did not. */
static void r128_configurations(void **state)
{
    (void)state;
    struct bed b;
    bed_open(&b, 1, 1);
    assert_int_equal(bed_counter(&b, BT_RC_CONFIGS_APPLIED), 1);
    b.config.depth = 2;
    bed_apply(&b);
    struct bt_router_config bad = b.config;
    bad.depth = 0;
    struct bt_router_refusal why;
    assert_false(bt_router_apply(b.r, b.now, &bad, &why));
    assert_int_equal(bed_counter(&b, BT_RC_CONFIGS_APPLIED), 2);
    assert_int_equal(bed_counter(&b, BT_RC_CONFIGS_REFUSED), 1);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r128_counters_stand_under_their_names),
        cmocka_unit_test(r128_what_waits),
        cmocka_unit_test(r128_how_workers_are),
        cmocka_unit_test(r128_the_row_of_a_worker),
        cmocka_unit_test(r128_the_row_of_a_legacy_worker),
        cmocka_unit_test(r128_what_hedging_keeps),
        cmocka_unit_test(r253_no_room_to_keep_it),
        cmocka_unit_test(r128_what_admission_tells),
        cmocka_unit_test(r128_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
