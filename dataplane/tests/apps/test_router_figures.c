// SPDX-License-Identifier: Apache-2.0
// Which figure of a router is told by which name on its control socket.
#include "router_control_bed.h"

#include "wire/mcase.h"

#include <stdio.h>
#include <string.h>

static struct bt_ctl_samples samples;

static const struct bt_ctl_samples *ask(void)
{
    memset(&samples, 0, sizeof samples);
    router_ctl_app.counters(&bed.app, &samples);
    return &samples;
}

// Of that name, and with that label's value (NULL: without a label); it is there once. UINT64_MAX: it is not there.
static uint64_t figure(const struct bt_ctl_sample *s, size_t n, const char *name, const char *label)
{
    uint64_t found = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct bt_counter_desc *d = &s[i].desc;
        if (strcmp(d->name, name) == 0 &&
            (label == NULL ? d->value == NULL : d->value != NULL && strcmp(d->value, label) == 0)) {
            assert_true(found == UINT64_MAX);
            found = s[i].value;
        }
    }
    return found;
}

static uint64_t counter(const char *name, const char *label)
{
    ask();
    return figure(samples.counters, samples.n_counters, name, label);
}

static uint64_t gauge(const char *name, const char *label)
{
    ask();
    return figure(samples.gauges, samples.n_gauges, name, label);
}

static void gauges_are_the_routers(void **state)
{
    struct bt_router_stats *s = &bed.stats;
    (void)state;
    *s = (struct bt_router_stats){.held = 1,
                                  .held_limit = 2,
                                  .oldest_held_ns = 3,
                                  .outstanding = 4,
                                  .pairs = 5,
                                  .members = 6,
                                  .joined = 7,
                                  .eligible = 8,
                                  .suspect = 9,
                                  .ejected = 10,
                                  .draining = 11,
                                  .router_draining = true};
    static const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"router_held", 1},
        {"router_held_limit", 2},
        {"router_oldest_held_nanoseconds", 3},
        {"router_outstanding", 4},
        {"router_pairs", 5},
        {"router_members", 6},
        {"router_members_joined", 7},
        {"router_members_eligible", 8},
        {"router_members_suspect", 9},
        {"router_members_ejected", 10},
        {"router_members_draining", 11},
        {"router_draining", 1},
        {"router_buffers_in_use", 88},
        {"router_fast_path", 1},
        {"router_admission_enforcing", 0},
        {"router_hedging", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (gauge(rows[i].name, NULL) != rows[i].value) {
            fail_msg("%s is %llu", rows[i].name, (unsigned long long)gauge(rows[i].name, NULL));
        }
    }
    assert_int_equal(ask()->n_gauges, sizeof rows / sizeof rows[0]);
}

static void counters_are_the_routers_and_those_of_its_ios(void **state)
{
    struct bt_router_stats *s = &bed.stats;
    (void)state;
    for (unsigned i = 0; i < BT_ROUTER_COUNTERS; i++) {
        s->counter[i] = 1000 + i;
    }
    for (unsigned m = 0; m < BT_M_COUNT; m++) {
        s->malformed[m] = 5000 + m;
    }
    ask();
    for (unsigned i = 0; i < BT_ROUTER_COUNTERS; i++) {
        assert_int_equal(samples.counters[i].value, 1000 + i);
        assert_string_equal(samples.counters[i].desc.name, bt_router_counter_descs[i].name);
    }
    for (unsigned m = 1; m < BT_M_COUNT; m++) {
        assert_int_equal(counter("router_discarded_total", bt_mcase_name((enum bt_mcase)m)), 5000 + m);
    }
    assert_true(counter("router_discarded_total", bt_mcase_name((enum bt_mcase)0)) ==
                UINT64_MAX); // accepted is not discarded
    assert_int_equal(counter("io_one_total", NULL), 1);
    assert_int_equal(counter("io_two_total", NULL), 2);
    bed.app.two.feedback_io = &bed.feedback_io;
    assert_int_equal(counter("io_one_total", NULL), 11);
    assert_int_equal(counter("io_two_total", NULL), 22);
}

static void admission_is_told_of_the_classes_that_came(void **state)
{
    struct bt_router_stats *s = &bed.stats;
    (void)state;
    s->admission_mode = BT_ADMISSION_DEGRADE;
    s->admission_unknown = 1;
    s->admission_decisions = 2;
    s->admission_extensions = 3;
    s->admission_stalls = 4;
    s->admission_class[7] = (struct bt_admission_class_stats){5, 6, 7, 8, BT_ADMISSION_ONE / 4};
    s->admission_class[0].arrived = 9;
    assert_int_equal(gauge("router_admission_enforcing", NULL), 1);
    assert_int_equal(counter("router_admission_unknown_total", NULL), 1);
    assert_int_equal(counter("router_admission_periods_total", "decided"), 2);
    assert_int_equal(counter("router_admission_periods_total", "extended"), 3);
    assert_int_equal(counter("router_admission_periods_total", "stalled"), 4);
    assert_int_equal(counter("router_admission_arrived_total", "7"), 5);
    assert_int_equal(counter("router_admission_refused_total", "7"), 6);
    assert_int_equal(counter("router_admission_within_total", "7"), 7);
    assert_int_equal(counter("router_admission_exceeded_total", "7"), 8);
    assert_int_equal(gauge("router_admission_refused_millionths", "7"), 250000);
    assert_int_equal(counter("router_admission_arrived_total", "0"), 9);
    assert_int_equal(gauge("router_admission_refused_millionths", "0"), 0);
    for (unsigned c = 1; c < 7; c++) {
        const char name[] = {(char)('0' + c), '\0'};
        assert_true(counter("router_admission_arrived_total", name) == UINT64_MAX);
    }
}

static void hedging_is_told_while_it_is_on(void **state)
{
    struct bt_router_stats *s = &bed.stats;
    (void)state;
    s->hedging_kept = 1;
    s->hedging_delay_ns = 2;
    s->hedging_busy_ppm = 3;
    s->jitter_compared = 4;
    s->jitter_hiccups_ppm = 5;
    s->hiccup_ns = 6;
    s->service_ns = 7;
    static const char *const names[] = {"router_hedging_kept",
                                        "router_hedging_delay_nanoseconds",
                                        "router_hedging_busy_millionths",
                                        "router_jitter_compared",
                                        "router_jitter_hiccup_millionths",
                                        "router_jitter_hiccup_nanoseconds",
                                        "router_jitter_service_nanoseconds"};
    for (unsigned on = 0; on < 2; on++) {
        s->hedging_mode = on ? BT_HEDGING_PROBE : BT_HEDGING_OFF;
        assert_int_equal(gauge("router_hedging", NULL), on);
        for (unsigned i = 0; i < 7; i++) {
            assert_true(gauge(names[i], NULL) == (on ? i + 1 : UINT64_MAX));
        }
    }
}

static void the_state_is_the_routers_and_its_members(void **state)
{
    struct bt_ctl_member members[4] = {0};
    struct bt_ctl_state st = {.members = members};
    struct bt_router_stats *s = &bed.stats;
    (void)state;
    *s = (struct bt_router_stats){.held = 1,
                                  .held_limit = 2,
                                  .router_draining = true,
                                  .hedging_mode = BT_HEDGING_DELAYED,
                                  .hedging_delay_ns = 3,
                                  .hedging_busy_ppm = 4,
                                  .jitter_compared = 5,
                                  .jitter_hiccups_ppm = 6,
                                  .hiccup_ns = 7,
                                  .service_ns = 8};
    s->counter[BT_RC_HEDGES_SENT] = 11;
    s->counter[BT_RC_HEDGES_WON] = 12;
    s->counter[BT_RC_CANCELS_HONOURED] = 13;
    s->counter[BT_RC_PREEMPTIONS] = 14;
    bed.member[0] = (struct bt_router_member_stats){.addr = bt_addr_v4u(0x0a000002, 8000),
                                                    .joined = true,
                                                    .suspect = true,
                                                    .n = 21,
                                                    .outstanding = 22,
                                                    .sent = 23,
                                                    .done = 24,
                                                    .lost = 25,
                                                    .incarnation = 26,
                                                    .feedback_age_ns = 27999999};
    bed.member[1] = (struct bt_router_member_stats){.eligible = true, .ejected = true, .feedback_age_ns = UINT64_MAX};
    router_ctl_app.state(&bed.app, &st);
    assert_true(st.is_router && st.draining && st.fast_path.active);
    assert_int_equal(st.uptime_ns, 600 * MS);
    assert_true(st.held == 1 && st.held_limit == 2);
    const struct bt_ctl_hedging *h = &st.hedging;
    assert_string_equal(h->mode, "Delayed");
    assert_true(h->copies == 11 && h->won == 12 && h->cancelled == 13 && h->preempted == 14);
    assert_true(h->delay_ns == 3 && h->busy_ppm == 4 && h->compared == 5 && h->hiccup_ppm == 6);
    assert_true(h->hiccup_ns == 7 && h->service_ns == 8);
    assert_int_equal(st.n_members, 2);
    const struct bt_ctl_member *m = members;
    assert_true(bt_addr_eq(&m[0].addr, &bed.member[0].addr));
    assert_true(m[0].joined && m[0].suspect && !m[0].eligible && !m[0].ejected);
    assert_true(m[0].n == 21 && m[0].outstanding == 22 && m[0].sent == 23 && m[0].done == 24);
    assert_true(m[0].lost == 25 && m[0].incarnation == 26 && m[0].feedback_age_ms == 27);
    assert_true(!m[1].joined && !m[1].suspect && m[1].eligible && m[1].ejected);
    assert_int_equal(m[1].feedback_age_ms, -1); // never heard
}

static void histograms_and_traces_are_found_by_their_names(void **state)
{
    static const char *const none[] = {
        "", "class", "class8", "class-", "class/", "class:", "class00", "Marked", "classs", "latenc", "marked2"};
    char name[] = "class0";
    (void)state;
    assert_string_equal((const char *)router_ctl_app.slices(&bed.app, "latency"), "latency");
    assert_string_equal((const char *)router_ctl_app.slices(&bed.app, "hold"), "hold");
    assert_null(router_ctl_app.slices(&bed.app, "service"));
    for (unsigned c = 0; c < 8; c++) {
        name[5] = (char)('0' + c);
        assert_int_equal(*(const char *)router_ctl_app.totals(&bed.app, name), '0' + (char)c);
    }
    assert_int_equal(*(const char *)router_ctl_app.totals(&bed.app, "marked"), '8');
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_null(router_ctl_app.totals(&bed.app, none[i]));
    }
    assert_ptr_equal(router_ctl_app.traces(&bed.app), &bed.app.traces);
    router_ctl_app.leave(&bed.app);
    assert_int_equal(bed.drained_at, ROUTER_NOW);
    assert_string_equal(router_ctl_app.role, "router");
    assert_string_equal(router_ctl_app.histogram_source, "Router");
    assert_string_equal(router_ctl_app.histogram_names, "latency, hold, class0 to class7, marked");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(gauges_are_the_routers, router_control_open),
        cmocka_unit_test_setup(counters_are_the_routers_and_those_of_its_ios, router_control_open),
        cmocka_unit_test_setup(admission_is_told_of_the_classes_that_came, router_control_open),
        cmocka_unit_test_setup(hedging_is_told_while_it_is_on, router_control_open),
        cmocka_unit_test_setup(the_state_is_the_routers_and_its_members, router_control_open),
        cmocka_unit_test_setup(histograms_and_traces_are_found_by_their_names, router_control_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
