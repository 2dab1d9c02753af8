// SPDX-License-Identifier: Apache-2.0
// Credit accounting alone: absolute counters in, outstanding out (spec/jbsq-router.md §2).
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "router/credit.h"
#include "unit.h"

#define LOSS UINT64_C(200000000)

static struct bt_credit started(uint64_t received, uint64_t served)
{
    struct bt_credit c;
    memset(&c, 0, sizeof c);
    struct bt_credit_report report = {received, served, 10};
    assert_int_equal(bt_credit_report(&c, &report, 0, 1, LOSS), BT_CREDIT_RESTARTED);
    return c;
}

static enum bt_credit_verdict take(struct bt_credit *c, const struct bt_credit_report *report, uint64_t sent,
                                   uint64_t now, uint64_t loss)
{
    enum bt_credit_verdict verdict = bt_credit_report(c, report, sent, now, loss);
    if (verdict == BT_CREDIT_FRESH || verdict == BT_CREDIT_RESTARTED) {
        bt_credit_settle(c, sent);
    }
    return verdict;
}

static enum bt_credit_verdict say(struct bt_credit *c, uint64_t sent, uint64_t received, uint64_t served, uint64_t now)
{
    struct bt_credit_report report = {received, served, 10};
    return take(c, &report, sent, now, LOSS);
}

static uint64_t out(const struct bt_credit *c, uint64_t sent)
{
    return bt_credit_outstanding(sent, bt_credit_settled(c));
}

static void r109_feedback_sets_never_increments(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(say(&c, 7, 7, 3, 2), BT_CREDIT_FRESH);
        assert_int_equal(out(&c, 7), 4);
    }
    assert_int_equal(say(&c, 7, 7, 7, 3), BT_CREDIT_FRESH); /* three in between were lost */
    assert_int_equal(out(&c, 7), 0);
}

/* The short path takes what grew in order and leaves everything else, untouched, to the long one. */
static void r109_short_path_takes_only_what_is_in_order(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    uint64_t outstanding = 0;
    say(&c, 9, 9, 6, 2);
    const struct {
        uint64_t received, served;
    } odd[] = {
        {8, 7},  /* received less than before: M-22 */
        {9, 5},  /* stale */
        {9, 6},  /* the same again */
        {10, 7}, /* more than was sent */
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct bt_credit before = c;
        assert_false(bt_credit_in_order(&c, odd[i].received, odd[i].served, 9, 3, &outstanding));
        assert_memory_equal(&before, &c, sizeof c);
    }
    assert_false(bt_credit_in_order(&c, 9, 7, 9, 2 + LOSS, &outstanding)); /* history is due */
    assert_true(bt_credit_in_order(&c, 9, 7, 9, 3, &outstanding));
    assert_int_equal(outstanding, 2);
    assert_int_equal(out(&c, 9), 2);
}

static void r109_older_served_is_ignored(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    say(&c, 9, 9, 6, 2);
    assert_int_equal(say(&c, 9, 9, 5, 3), BT_CREDIT_STALE);
    assert_int_equal(say(&c, 9, 8, 5, 3), BT_CREDIT_STALE);
    assert_int_equal(say(&c, 9, 0, 0, 3), BT_CREDIT_STALE);
    assert_int_equal(out(&c, 9), 3);
}

static void r109_counters_wrap(void **state)
{
    (void)state;
    struct bt_credit c = started(UINT64_MAX - 1, UINT64_MAX - 1);
    assert_int_equal(say(&c, 5, 3, UINT64_MAX, 2), BT_CREDIT_FRESH);
    assert_int_equal(out(&c, 5), 4);
    assert_int_equal(say(&c, 5, 3, 3, 3), BT_CREDIT_FRESH);
    assert_int_equal(out(&c, 5), 0);
    assert_int_equal(say(&c, 5, 3, UINT64_MAX, 3), BT_CREDIT_STALE);
}

static void m22_contradictions_change_nothing(void **state)
{
    (void)state;
    struct bt_credit c = started(100, 90);
    say(&c, 10, 110, 95, 2);
    struct bt_credit before = c;
    assert_int_equal(say(&c, 10, 111, 112, 3), BT_CREDIT_BACKWARDS); /* served more than received */
    assert_int_equal(say(&c, 10, 109, 96, 3), BT_CREDIT_BACKWARDS);  /* one back, one forth */
    assert_int_equal(say(&c, 10, 111, 94, 3), BT_CREDIT_BACKWARDS);
    struct bt_credit_report old = {500, 500, 9};
    assert_int_equal(take(&c, &old, 10, 3, LOSS), BT_CREDIT_BACKWARDS); /* a former life */
    assert_memory_equal(&c, &before, sizeof c);
}

static void r112_first_feedback_gives_the_real_backlog(void **state)
{
    (void)state;
    struct bt_credit c = started(1000, 997); /* a new router in front of a busy worker */
    assert_int_equal(out(&c, 0), 3);
    say(&c, 2, 1002, 1000, 2);
    assert_int_equal(out(&c, 2), 2);
}

static void r112_new_incarnation_starts_over(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    say(&c, 50, 48, 40, 2);
    struct bt_credit_report reborn = {1, 0, 11};
    assert_int_equal(take(&c, &reborn, 51, 3, LOSS), BT_CREDIT_RESTARTED);
    assert_int_equal(out(&c, 51), 1);
    struct bt_credit_report served = {1, 1, 11};
    assert_int_equal(take(&c, &served, 51, 4, LOSS), BT_CREDIT_FRESH);
    assert_int_equal(out(&c, 51), 0);
    struct bt_credit_report wrapped = {0, 0, 11u + 0x7fffffffu};
    assert_int_equal(take(&c, &wrapped, 51, 5, LOSS), BT_CREDIT_RESTARTED);
}

/* What was on its way during a restart is received by the new life though the router had written it off. */
static void r112_stragglers_after_a_restart_do_not_give_credit(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    struct bt_credit_report reborn = {0, 0, 11}, late = {2, 0, 11}, done = {2, 2, 11};
    take(&c, &reborn, 20, 3, LOSS);
    assert_int_equal(out(&c, 20), 0);
    take(&c, &late, 20, 4, LOSS);
    assert_int_equal(out(&c, 20), 2);
    take(&c, &done, 20, 5, LOSS);
    assert_int_equal(out(&c, 20), 0);
    assert_int_equal(out(&c, 23), 3); /* and not 1 */
}

static void r111_lost_requests_are_found_after_t_loss(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    uint64_t now = 1;
    for (; now < LOSS / 2; now += LOSS / 20) {
        say(&c, 5, 3, 3, now); /* two of five never arrived */
    }
    assert_int_equal(out(&c, 5), 2); /* too early to tell */
    for (; now < 2 * LOSS; now += LOSS / 20) {
        say(&c, 5, 3, 3, now);
    }
    assert_int_equal(out(&c, 5), 0);
    assert_int_equal(bt_credit_lost(&c), 2);
    say(&c, 6, 4, 4, now); /* still two missing in all */
    assert_int_equal(out(&c, 6), 0);
}

static void r111_a_late_request_is_taken_back(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    uint64_t now = 1;
    for (; now < 3 * LOSS; now += LOSS / 16) {
        say(&c, 5, 4, 4, now);
    }
    assert_int_equal(bt_credit_lost(&c), 1);
    say(&c, 5, 5, 4, now); /* it was only late */
    assert_int_equal(bt_credit_lost(&c), 0);
    assert_int_equal(out(&c, 5), 1);
    say(&c, 5, 5, 5, now);
    assert_int_equal(out(&c, 5), 0);
}

static void r111_requests_younger_than_t_loss_are_not_lost(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    uint64_t sent = 0;
    /* A path of nearly T_loss: what was sent ten steps ago arrives now. Nothing is lost, nothing may be called lost. */
    uint64_t history[400];
    for (uint64_t step = 0; step < 400; step++) {
        history[step] = ++sent;
        uint64_t received = step >= 10 ? history[step - 10] : 0;
        say(&c, sent, received, received, 1 + step * LOSS / 11);
        assert_int_equal(bt_credit_lost(&c), 0);
        assert_int_equal(out(&c, sent), sent - received);
    }
}

static void r110_legacy_counts_and_leaks_are_reclaimed(void **state)
{
    (void)state;
    struct bt_credit c;
    memset(&c, 0, sizeof c);
    bt_credit_legacy(&c, 3);
    assert_int_equal(out(&c, 3), 2);
    assert_int_equal(bt_credit_reclaim(&c, 3, 1), 1);
    assert_int_equal(bt_credit_reclaim(&c, 3, 5), 1); /* no more than it owes */
    assert_int_equal(bt_credit_reclaim(&c, 3, 1), 0);
    assert_int_equal(c.reclaimed, 2);
    bt_credit_legacy(&c, 3); /* the FEEDBACK was only late: no credit beyond what was sent */
    assert_int_equal(out(&c, 4), 1);
}

/* Requests lost while others keep coming: the credit must come back without waiting for silence. */
static void r111_lost_requests_do_not_hide_behind_later_ones(void **state)
{
    (void)state;
    struct bt_credit c = started(0, 0);
    uint64_t sent = 0, received = 0, now = 1;
    for (int step = 0; step < 4000; step++) {
        now += LOSS / 100;
        uint64_t index = sent++;
        if (step % 100 == 50) {
            continue; /* lost */
        }
        received++;
        struct bt_credit_report report = {received, received, 10};
        bt_credit_report(&c, &report, sent, now, LOSS);
        bt_credit_finished(&c, index);
        bt_credit_settle(&c, sent);
        /* One loss per T_loss, found within T_loss and an eighth: at most two are not known yet. */
        assert_true(out(&c, sent) <= 2);
    }
    assert_in_range(bt_credit_lost(&c), 38, 40);
}

#define PATHS  256
#define LATEST 1000 /* longest way of a request */

/* A worker and a lossy, duplicating, reordering path in both directions. */
struct model {
    struct bt_rng rng;
    struct bt_credit c;
    uint64_t sent, arrived, served, now;
    uint32_t incarnation, n;
    uint64_t flying_n, restarted_at;
    uint64_t flying[PATHS], flying_index[PATHS]; /* arrival times of requests on their way; 0 = free */
    uint64_t queue[PATHS];                       /* indices at the worker, any order */
    uint64_t backlog;
    struct {
        uint64_t at, index;
        bool pair;
        struct bt_credit_report report;
    } words[PATHS];
    bool finished[8192];
};

static uint64_t short_paths; /* reports that were in order */

static void model_send(struct model *m)
{
    uint64_t index = m->sent++;
    if (bt_rng_below(&m->rng, 100) < 5) {
        return; /* lost */
    }
    for (int i = 0; i < PATHS; i++) {
        if (m->flying[i] == 0) {
            m->flying[i] = m->now + 1 + bt_rng_below(&m->rng, LATEST);
            m->flying_index[i] = index;
            m->flying_n++;
            return;
        }
    }
    fail_msg("more requests on the way than a router may send");
}

static void model_speak(struct model *m, bool pair, uint64_t index)
{
    int copies = bt_rng_below(&m->rng, 100) < 10 ? 0 : bt_rng_below(&m->rng, 100) < 10 ? 2 : 1;
    for (int i = 0; i < PATHS && copies > 0; i++) {
        if (m->words[i].at == 0) {
            m->words[i].at = m->now + 1 + bt_rng_below(&m->rng, 3000);
            m->words[i].report = (struct bt_credit_report){m->arrived, m->served, m->incarnation};
            m->words[i].pair = pair;
            m->words[i].index = index;
            copies--;
        }
    }
}

static void model_serve(struct model *m)
{
    uint32_t which = bt_rng_below(&m->rng, (uint32_t)m->backlog);
    uint64_t index = m->queue[which];
    m->queue[which] = m->queue[--m->backlog];
    m->served++;
    model_speak(m, true, index);
}

static void model_restart(struct model *m)
{
    m->incarnation++;
    m->arrived = m->served = m->backlog = 0;
    m->restarted_at = m->now;
}

/* The short path does what the long one does, or nothing. */
static void check_short_path(const struct model *m, const struct bt_credit_report *report)
{
    struct bt_credit brief = m->c, full = m->c;
    uint64_t outstanding;
    bool in_order = report->incarnation == m->c.incarnation &&
                    bt_credit_in_order(&brief, report->received, report->served, m->sent, m->now, &outstanding);
    if (in_order) {
        assert_int_equal(bt_credit_report(&full, report, m->sent, m->now, 10000), BT_CREDIT_FRESH);
        bt_credit_settle(&full, m->sent);
        assert_int_equal(outstanding, out(&full, m->sent));
    }
    assert_memory_equal(&brief, &full, sizeof full);
    short_paths += in_order ? 1 : 0;
}

static void model_hear(struct model *m, int i)
{
    m->words[i].at = 0;
    check_short_path(m, &m->words[i].report);
    enum bt_credit_verdict v = bt_credit_report(&m->c, &m->words[i].report, m->sent, m->now, 10000);
    /* Only words of a former life may be refused. */
    assert_true(v != BT_CREDIT_BACKWARDS || m->words[i].report.incarnation != m->c.incarnation);
    if (v == BT_CREDIT_BACKWARDS) {
        return;
    }
    if (m->words[i].pair && !m->finished[m->words[i].index]) {
        m->finished[m->words[i].index] = true;
        bt_credit_finished(&m->c, m->words[i].index);
    }
    bt_credit_settle(&m->c, m->sent);
}

static void model_deliver(struct model *m)
{
    for (int i = 0; i < PATHS; i++) {
        if (m->flying[i] != 0 && m->flying[i] <= m->now) {
            m->flying[i] = 0;
            m->flying_n--;
            m->arrived++;
            m->queue[m->backlog++] = m->flying_index[i];
        }
        if (m->words[i].at != 0 && m->words[i].at <= m->now) {
            model_hear(m, i);
        }
    }
}

/* young counts the finished requests after past, however the history moved under them. */
static void check_young(const struct model *m)
{
    uint32_t young = 0;
    for (uint64_t i = m->c.past; i < m->sent; i++) {
        young += m->finished[i] ? 1 : 0;
    }
    assert_int_equal(m->c.young, young);
}

static void model_step(struct model *m, bool restarts)
{
    m->now += 1 + bt_rng_below(&m->rng, 200);
    model_deliver(m);
    if (m->c.known && out(&m->c, m->sent) < m->n && bt_rng_below(&m->rng, 2) == 0) {
        model_send(m);
    }
    if (m->backlog > 0 && bt_rng_below(&m->rng, 3) == 0) {
        model_serve(m);
    } else if (m->backlog == 0 && bt_rng_below(&m->rng, 10) == 0) {
        model_speak(m, false, 0);
    }
    if (restarts && bt_rng_below(&m->rng, 1500) == 0) {
        model_restart(m);
    }
    if (m->sent % 16 == 0) {
        check_young(m);
    }
    /* nothing travels longer than T_loss here, so without restarts the worker never has more than n. */
    assert_true(restarts || m->backlog + m->flying_n <= m->n);
}

static void model_run(uint64_t seed, bool restarts, uint64_t *sent)
{
    static struct model m;
    memset(&m, 0, sizeof m);
    bt_rng_seed(&m.rng, seed);
    m.now = 1;
    m.n = 1 + (uint32_t)(seed % 5);
    for (int step = 0; step < 6000; step++) {
        model_step(&m, restarts);
    }
    *sent += m.sent;
    /* after silence nothing is outstanding: no credit leaked. */
    for (int step = 0; step < 100; step++) {
        m.now += 500;
        model_deliver(&m);
        while (m.backlog > 0) {
            model_serve(&m);
        }
        model_speak(&m, false, 0);
    }
    if (out(&m.c, m.sent) != 0) {
        fail_msg("seed %llu: %llu credits leaked", (unsigned long long)seed, (unsigned long long)out(&m.c, m.sent));
    }
}

static uint64_t first_seed(void)
{
    const char *text = getenv("BT_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

static void r137_worker_never_has_more_than_n(void **state)
{
    (void)state;
    uint64_t sent = 0;
    for (uint64_t seed = first_seed(); seed < first_seed() + SEEDS(200); seed++) {
        model_run(seed, false, &sent);
    }
    print_message("seeds %llu..+%d, %llu requests\n", (unsigned long long)first_seed(), SEEDS(200) - 1,
                  (unsigned long long)sent);
    assert_true(sent > SEEDS(100000)); /* and the credits did circulate */
    assert_true(short_paths > sent / 5);
}

static void r108_no_credit_leaks_over_restarts(void **state)
{
    (void)state;
    uint64_t sent = 0;
    for (uint64_t seed = first_seed(); seed < first_seed() + SEEDS(200); seed++) {
        model_run(seed, true, &sent);
    }
    print_message("seeds %llu..+%d, %llu requests\n", (unsigned long long)first_seed(), SEEDS(200) - 1,
                  (unsigned long long)sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r109_feedback_sets_never_increments),
        cmocka_unit_test(r109_short_path_takes_only_what_is_in_order),
        cmocka_unit_test(r109_older_served_is_ignored),
        cmocka_unit_test(r109_counters_wrap),
        cmocka_unit_test(m22_contradictions_change_nothing),
        cmocka_unit_test(r112_first_feedback_gives_the_real_backlog),
        cmocka_unit_test(r112_new_incarnation_starts_over),
        cmocka_unit_test(r112_stragglers_after_a_restart_do_not_give_credit),
        cmocka_unit_test(r111_lost_requests_are_found_after_t_loss),
        cmocka_unit_test(r111_a_late_request_is_taken_back),
        cmocka_unit_test(r111_requests_younger_than_t_loss_are_not_lost),
        cmocka_unit_test(r110_legacy_counts_and_leaks_are_reclaimed),
        cmocka_unit_test(r111_lost_requests_do_not_hide_behind_later_ones),
        cmocka_unit_test(r137_worker_never_has_more_than_n),
        cmocka_unit_test(r108_no_credit_leaks_over_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
