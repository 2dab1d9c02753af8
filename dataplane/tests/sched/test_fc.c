// SPDX-License-Identifier: Apache-2.0
// Flow control by waiting time: the closed forms (F-3 to F-8, F-21), the server's half (F-10 to F-18), the client's
// half (F-31 to F-48) and the 16 bits between them.
#include <math.h>

#include "rpc/fc_sender.h"
#include "sched/fc_receiver.h"
#include "unit.h"
#include "wire/fc_signal.h"

static const struct bt_fc_objective refined = {100e3, 0.99, 1, BT_FC_REFINED};
static const struct bt_fc_objective paper = {100e3, 0.99, 1, BT_FC_PAPER};

static bool near(double a, double b, double by)
{
    return fabs(a - b) <= by;
}

/* --- loads --- */

static void f3_loads_as_published(void **state)
{
    static const struct {
        double cv2, paper, refined;
    } rows[] = {{0, 0.8128, 0.782}, {1, 0.6847, 0.592}, {2.25, 0.5720, 0.400}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(near(bt_fc_solve(&paper, 10e3, rows[i].cv2), rows[i].paper, 1e-4));
        assert_true(near(bt_fc_solve(&refined, 10e3, rows[i].cv2), rows[i].refined, 1e-3)); /* F-6 */
    }
    assert_true(near(bt_fc_solve(&paper, 10e3, 249.5), 0.0170, 1e-4));
}

/* Exact for exponential services: Pr[W > t] of M/M/k. */
static void f21_more_cores_take_more(void **state)
{
    struct bt_fc_objective o = refined;
    double before = 0;
    (void)state;
    for (o.cores = 1; o.cores <= 16; o.cores++) {
        double load = bt_fc_solve(&o, 10e3, 1);
        assert_true(load > before);
        before = load;
    }
    assert_true(near(before, 0.972, 1e-3));
    assert_true(near(bt_fc_solve(&refined, 10e3, 1), 0.592, 1e-3));
}

static void f8_loads_stay_within_bounds(void **state)
{
    struct bt_fc_objective wide = {1e9, 0.5, 16, BT_FC_REFINED};
    (void)state;
    assert_true(near(bt_fc_load(&paper, 10e3, 249.5), BT_FC_LOAD_MIN, 0));
    assert_true(near(bt_fc_load(&wide, 10e3, 0), BT_FC_LOAD_MAX, 0));
}

/* --- the 16 bits --- */

static void f31_every_value_says_something(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        struct bt_fc_signal s = bt_fc_read((uint16_t)bits);
        assert_int_equal(s.idle, bits == 0 || bits >= 0x8000);
        assert_true(s.value <= BT_FC_VALUE_MAX && (s.idle || s.value > 0));
        uint16_t again = s.idle ? bt_fc_write_idle(s.value) : bt_fc_write_tokens(s.value);
        assert_int_equal(again, bits == 0 ? 0x81f4 : bits);
    }
    assert_int_equal(bt_fc_write_tokens(5), 0x0005);
    assert_int_equal(bt_fc_write_idle(500), 0x81f4);
    assert_int_equal(bt_fc_write_tokens(0), 0x81f4); /* never 0x0000 */
    assert_int_equal(bt_fc_write_tokens(40000), 0x7fff);
    assert_int_equal(bt_fc_write_idle(1u << 20), 0xffff);
}

/* --- the server --- */

struct server {
    struct bt_fc_receiver r;
    uint64_t now;
};

/* One request of c, `gap` after the one before, that takes `service`. */
static bool request(struct server *s, struct bt_fc_conn *c, uint64_t gap, uint64_t service)
{
    s->now += gap;
    if (!bt_fc_arrived(&s->r, c, s->now)) {
        return false;
    }
    bt_fc_served(&s->r, c, s->now, s->now + service);
    return true;
}

static void serve(struct server *s, struct bt_fc_conn *c, uint32_t connections, uint32_t requests, uint64_t gap)
{
    for (uint32_t i = 0; i < requests; i++) {
        request(s, &c[i % connections], gap, 10000);
    }
}

static void begin(struct server *s, const struct bt_fc_objective *o)
{
    s->now = 1000000000;
    bt_fc_receiver_init(&s->r, o, s->now);
}

static void f12_nothing_is_throttled_before_a_thousand_samples(void **state)
{
    struct server s;
    struct bt_fc_conn c = {0};
    (void)state;
    begin(&s, &paper);
    serve(&s, &c, 1, BT_FC_SAMPLES - 1, 5000); /* twice what one core can do */
    assert_int_equal(bt_fc_advertise(&s.r, &c, s.now + 600000), BT_FC_TOKENS);
    assert_false(s.r.throttling);
    serve(&s, &c, 1, 400, 5000);
    assert_true(s.r.throttling);
    assert_true(near(s.r.mean_ns, 10000, 1));
    assert_true(near(s.r.load, 0.8128, 1e-3)); /* all alike: c² is 0 */
}

static void f13_f14_throttled_late_and_released_later(void **state)
{
    struct server s;
    struct bt_fc_conn c[4] = {{0}};
    (void)state;
    begin(&s, &paper);
    serve(&s, c, 4, 4000, 16000); /* 0.625, and 0.8 of rho* is 0.650 */
    assert_false(s.r.throttling);
    assert_int_equal(bt_fc_advertise(&s.r, &c[0], s.now), BT_FC_TOKENS);
    serve(&s, c, 4, 4000, 15000); /* 0.667 */
    assert_true(s.r.throttling);
    serve(&s, c, 4, 8000, 16000); /* back below the one, not below the other: 0.569 */
    assert_true(s.r.throttling);
    serve(&s, c, 4, 40000, 18500); /* 0.541 */
    assert_false(s.r.throttling);
}

/* The lane's rate is shared by weight: 10 us, rho* of 0.8128, 81.28 requests a millisecond for nine tenths and one. */
static void f16_tokens_follow_the_weights(void **state)
{
    struct server s;
    struct bt_fc_conn c[2] = {{.weight = 9}, {.weight = 1}};
    uint64_t silence[2] = {0}, silences[2] = {0};
    (void)state;
    begin(&s, &paper);
    for (uint32_t i = 0; i < 40000; i++) { /* both ask for more than they get */
        struct bt_fc_conn *one = &c[i % 2];
        request(&s, one, 6000, 10000);
        struct bt_fc_signal signal = bt_fc_read(bt_fc_advertise(&s.r, one, s.now));
        silence[i % 2] += signal.idle ? signal.value : 0;
        silences[i % 2] += signal.idle;
    }
    assert_true(s.r.throttling && s.r.counts.throttled > 0 && silences[1] > 0);
    assert_true(silences[0] == 0 || silence[0] / silences[0] < silence[1] / silences[1] / 4);
}

/* Silences have different lengths, or all who were told the same at once would come back at once. */
static void f16_silences_differ(void **state)
{
    struct server s;
    struct bt_fc_conn c[64] = {{0}};
    uint32_t different = 0;
    (void)state;
    begin(&s, &paper);
    serve(&s, c, 64, 20000, 6000);
    uint16_t before = 0;
    for (uint32_t i = 0; i < 64; i++) {
        struct bt_fc_conn same = c[0];
        uint16_t bits = bt_fc_advertise(&s.r, &same, s.now);
        assert_true(bt_fc_read(bits).idle);
        different += bits != before;
        before = bits;
    }
    assert_true(different > 48);
}

static void f17_silent_connections_take_nothing(void **state)
{
    struct server s;
    struct bt_fc_conn c[100] = {{0}};
    (void)state;
    begin(&s, &paper);
    serve(&s, c, 100, 10000, 15000);
    assert_true(near(s.r.active, 100, 1e-6));
    serve(&s, c, 2, 4000, 15000); /* 60 ms without a word of 98 */
    assert_true(near(s.r.active, 2, 1e-6));
    assert_true(request(&s, &c[50], 15000, 10000)); /* a waking one has its token */
    assert_true(near(s.r.active, 3, 1e-6));
    bt_fc_gone(&s.r, &c[50]);
    assert_true(near(s.r.active, 2, 1e-6));
}

/* A clock that goes back makes nobody count twice. */
static void f17_each_counts_once_whatever_the_clock_does(void **state)
{
    struct server s;
    struct bt_fc_conn c[3] = {{0}};
    (void)state;
    begin(&s, &paper);
    serve(&s, c, 2, 2000, 15000);
    s.now -= 900000000;
    for (int i = 0; i < 20; i++) {
        request(&s, &c[2], 9000000, 10000);
        assert_true(s.r.active < 3.5);
    }
}

/* F-18: who does not do as it is told is refused, and costs the others nothing. */
static void f18_a_deaf_sender_is_refused(void **state)
{
    struct server s;
    struct bt_fc_conn c[2] = {{0}};
    (void)state;
    begin(&s, &paper);
    for (uint32_t i = 0; i < 100000; i++) { /* one in twenty is of the good one, which may have twice as many */
        struct bt_fc_conn *one = &c[i % 20 != 0];
        if (s.now += 2000, bt_fc_arrived(&s.r, one, s.now)) {
            bt_fc_served(&s.r, one, s.now, s.now + 10000);
        } else {
            assert_ptr_equal(one, &c[1]);
        }
    }
    assert_true(s.r.counts.refused > 50000);
    assert_true(c[0].pending == 0 && c[1].pending == 0 && s.r.pending == 0);
}

/* Of a stream nothing can be left out: such a request came once, of somebody who takes part. */
static void f18_what_is_kept_all_the_same_is_learned_once(void **state)
{
    struct server s;
    struct bt_fc_conn c = {0};
    (void)state;
    begin(&s, &paper);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        s.now += 2000;
        if (!bt_fc_arrived(&s.r, &c, s.now)) {
            bt_fc_kept(&s.r, &c);
            kept++;
        }
        assert_true(c.pending == 1 && s.r.pending == 1 && s.r.arrivals == i + 1);
        bt_fc_served(&s.r, &c, s.now, s.now + 10000);
    }
    assert_true(kept == s.r.counts.refused && kept > 50000);
    assert_true(near(s.r.gap_ns, 2000, 0) && s.r.passed == 0);
}

static void f10_what_was_not_measured_is_not_learned(void **state)
{
    struct server s;
    struct bt_fc_conn c = {0};
    (void)state;
    begin(&s, &paper);
    serve(&s, &c, 1, 2000, 20000);
    double mean = s.r.mean_ns;
    assert_true(bt_fc_arrived(&s.r, &c, s.now));
    bt_fc_served(&s.r, &c, s.now, s.now - 1); /* a clock set back */
    assert_true(bt_fc_arrived(&s.r, &c, s.now));
    bt_fc_served(&s.r, &c, s.now, 0); /* nobody said when it ended */
    assert_int_equal(s.r.counts.clock_back, 1);
    assert_int_equal(s.r.counts.unmeasured, 1);
    assert_true(near(s.r.mean_ns, mean, 0) && s.r.pending == 0);
    s.now -= 900000000; /* and one that goes back under all of it */
    serve(&s, &c, 1, 100, 20000);
    assert_true(isfinite(bt_fc_offered(&s.r, s.now)) && bt_fc_offered(&s.r, s.now) >= 0);
}

static void f8_dispersed_services_are_told(void **state)
{
    struct server s;
    struct bt_fc_conn c = {0};
    (void)state;
    begin(&s, &paper);
    for (uint32_t i = 0; i < 20000; i++) {
        request(&s, &c, 20000, i % 1000 == 0 ? 5005000 : 5000);
    }
    assert_true(s.r.counts.dispersed > 0);
    assert_true(s.r.load >= BT_FC_LOAD_MIN);
}

/* --- the client --- */

static void f40_tokens_are_spent_and_refusals_say_when(void **state)
{
    struct bt_fc_sender s;
    uint64_t wait;
    (void)state;
    bt_fc_sender_init(&s);
    assert_true(bt_fc_try_take(&s, 100, &wait)); /* one, before anything is known */
    assert_false(bt_fc_try_take(&s, 100, &wait));
    assert_int_equal(wait, 500000);
    bt_fc_ended(&s);
    bt_fc_signalled(&s, 200, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(bt_fc_try_take(&s, 200, &wait));
        assert_int_equal(wait, 0);
    }
    assert_false(bt_fc_try_take(&s, 200, &wait));
    assert_int_equal(s.refused, 2);
}

/* F-32: tokens are counted from what was answered, so that what is under way is among them. */
static void f32_tokens_are_absolute(void **state)
{
    struct bt_fc_sender s;
    uint64_t wait;
    (void)state;
    bt_fc_sender_init(&s);
    bt_fc_signalled(&s, 0, 4);
    for (int i = 0; i < 4; i++) {
        assert_true(bt_fc_try_take(&s, 0, &wait));
    }
    bt_fc_ended(&s);
    bt_fc_signalled(&s, 1, 4); /* said before the other three arrived there */
    assert_true(bt_fc_try_take(&s, 1, &wait));
    assert_false(bt_fc_try_take(&s, 1, &wait));
}

static void f42_f43_silence_ends_with_one_token(void **state)
{
    struct bt_fc_sender s;
    uint64_t wait;
    (void)state;
    bt_fc_sender_init(&s);
    bt_fc_signalled(&s, 1000000, bt_fc_write_idle(300));
    assert_false(bt_fc_try_take(&s, 1299999, &wait));
    assert_int_equal(wait, 1);
    assert_true(bt_fc_try_take(&s, 1300000, &wait));
    assert_false(bt_fc_try_take(&s, 1300000, &wait));
    bt_fc_signalled(&s, 1300001, bt_fc_write_idle(30000));
    bt_fc_signalled(&s, 1300002, 2); /* F-43: tokens end it */
    assert_true(bt_fc_try_take(&s, 1300002, &wait));
    bt_fc_signalled(&s, 2000000, 0x8000); /* F-31: one at once */
    assert_true(bt_fc_try_take(&s, 2000000, &wait));
    bt_fc_signalled(&s, 3000000, 0x0000); /* no deadlock: a period */
    assert_false(bt_fc_try_take(&s, 3499999, &wait));
    assert_true(bt_fc_try_take(&s, 3500000, &wait));
}

/* The reply with the signal was lost, and no other is to come. */
static void f42_a_lost_signal_blocks_for_a_period_only(void **state)
{
    struct bt_fc_sender s;
    uint64_t wait;
    (void)state;
    bt_fc_sender_init(&s);
    bt_fc_signalled(&s, 0, bt_fc_write_idle(1));
    assert_true(bt_fc_try_take(&s, 1000, &wait));
    bt_fc_ended(&s); /* given up */
    s.tokens = 0;
    assert_false(bt_fc_try_take(&s, 400000, &wait));
    assert_int_equal(wait, 101000);
    assert_true(bt_fc_try_take(&s, 501000, &wait));
}

static void f48_another_replica_is_asked(void **state)
{
    struct bt_fc_sender a, b, *const both[] = {&a, &b};
    uint64_t wait;
    (void)state;
    bt_fc_sender_init(&a);
    bt_fc_sender_init(&b);
    bt_fc_signalled(&a, 0, bt_fc_write_idle(700));
    bt_fc_signalled(&b, 0, 1);
    assert_int_equal(bt_fc_take_any(both, 2, 0, 10, &wait), 1);
    assert_int_equal(wait, 0);
    bt_fc_signalled(&b, 0, bt_fc_write_idle(200));
    assert_int_equal(bt_fc_take_any(both, 2, 1, 10, &wait), 2);
    assert_int_equal(wait, 199990);
}

/* What was pending of one that is gone is pending no more, its weight stays, and of the rest nothing is known. */
static void f17_of_one_that_is_gone_its_weight_is_left(void **state)
{
    struct server s;
    struct bt_fc_conn c = {.weight = 3}, other = {0};
    (void)state;
    begin(&s, &paper);
    for (int i = 0; i < 3; i++) {
        assert_true(bt_fc_arrived(&s.r, &c, s.now));
        assert_true(bt_fc_arrived(&s.r, &other, s.now));
    }
    bt_fc_passed(&s.r, &other, s.now);
    assert_true(c.pending == 3 && other.pending == 4 && s.r.pending == 7);
    bt_fc_dropped(&s.r, &other);
    assert_true(c.pending == 3 && other.pending == 3 && s.r.pending == 6);
    assert_true(near(s.r.active, 4, 1e-6));
    bt_fc_gone(&s.r, &c);
    assert_true(near(s.r.active, 1, 1e-6));
    assert_int_equal(s.r.pending, 3);
    assert_true(c.pending == 0 && near(c.weight, 3, 1e-9) && !bt_fc_active(&s.r, &c));
    bt_fc_dropped(&s.r, &c); /* nothing of it is pending */
    assert_true(c.pending == 0 && s.r.pending == 3);
    bt_fc_gone(&s.r, &c); /* twice is once */
    assert_true(near(s.r.active, 1, 1e-6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f3_loads_as_published),
        cmocka_unit_test(f21_more_cores_take_more),
        cmocka_unit_test(f8_loads_stay_within_bounds),
        cmocka_unit_test(f31_every_value_says_something),
        cmocka_unit_test(f12_nothing_is_throttled_before_a_thousand_samples),
        cmocka_unit_test(f13_f14_throttled_late_and_released_later),
        cmocka_unit_test(f16_tokens_follow_the_weights),
        cmocka_unit_test(f16_silences_differ),
        cmocka_unit_test(f17_silent_connections_take_nothing),
        cmocka_unit_test(f17_each_counts_once_whatever_the_clock_does),
        cmocka_unit_test(f18_a_deaf_sender_is_refused),
        cmocka_unit_test(f18_what_is_kept_all_the_same_is_learned_once),
        cmocka_unit_test(f10_what_was_not_measured_is_not_learned),
        cmocka_unit_test(f8_dispersed_services_are_told),
        cmocka_unit_test(f40_tokens_are_spent_and_refusals_say_when),
        cmocka_unit_test(f32_tokens_are_absolute),
        cmocka_unit_test(f42_f43_silence_ends_with_one_token),
        cmocka_unit_test(f42_a_lost_signal_blocks_for_a_period_only),
        cmocka_unit_test(f48_another_replica_is_asked),
        cmocka_unit_test(f17_of_one_that_is_gone_its_weight_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
