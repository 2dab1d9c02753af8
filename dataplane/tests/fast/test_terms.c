// SPDX-License-Identifier: Apache-2.0
// When decisions are lent to the program, on what terms and for how long, and what a router keeps them for. Times are
// made up: the program itself takes no packet here.
#include "fast/twins.h"

#include <string.h>

static struct twins t;
static struct bt_fast *f;

#define READ_NS  (10 * MS)
#define LEASE_NS (250 * MS)
#define REST_NS  (5 * MS)

static int open_lent(void **state)
{
    (void)state;
    f = NULL;
    if (!twins_open(&t, 8, 3, false, false)) {
        t.fast = NULL;
        return 0;
    }
    f = t.fast;
    f->rest_ns = REST_NS;
    return 0;
}

static int close_lent(void **state)
{
    (void)state;
    twins_tear_down(&t);
    return 0;
}

static void turn(uint64_t later)
{
    t.lending.now += later;
    bt_fast_turn(f, t.lending.r, t.lending.now, &t.lending.out);
}

static void take_back(void)
{
    bt_fast_take_back(f, t.lending.r, t.lending.now, &t.lending.out);
}

/* The first loan. */
static void begin(void)
{
    twins_need_program(&t);
    assert_false(bt_fast_lent(f));
    assert_int_equal(f->log->open, 0);
    turn(0);
    assert_true(bt_fast_lent(f));
    assert_int_equal(f->log->open, 1);
    assert_int_equal(f->loans, 1);
    assert_int_equal(bt_fast_why_not(f), BT_LEND_YES);
    assert_int_equal(bt_fast_judge(f, t.lending.r), BT_LEND_YES);
}

static void terms_that_change_are_lent_anew_at_once(void **state)
{
    (void)state;
    begin();
    assert_int_equal(f->terms.d.loan, UINT32_C(1) << 31 | 1);
    assert_int_equal(f->terms.d.worker[2].limit, 3);
    t.lending.config.depth = 2;
    bed_apply(&t.lending);
    turn(1);
    assert_true(bt_fast_lent(f));
    assert_int_equal(f->log->open, 1);
    assert_true(f->cut_short);
    assert_int_equal(f->loans, 2);
    assert_int_equal(f->terms.d.loan, UINT32_C(1) << 31 | 2);
    assert_int_equal(f->terms.d.worker[2].limit, 2);
    assert_int_equal(f->seen.d.worker[2].limit, 3); /* what the kernel had */
    turn(1);
    assert_int_equal(f->loans, 2);
}

static void nothing_is_lent_where_something_speaks_against_it(void **state)
{
    (void)state;
    begin();
    bt_router_drain(t.lending.r, t.lending.now);
    assert_int_equal(bt_fast_judge(f, t.lending.r), BT_LEND_DRAINING);
    assert_int_equal(bt_fast_why_not(f), BT_LEND_YES); /* as it was at the last turn */
    turn(1);
    assert_false(bt_fast_lent(f));
    assert_int_equal(f->log->open, 0);
    assert_int_equal(bt_fast_why_not(f), BT_LEND_DRAINING);
    assert_int_equal(bt_fast_next(f, t.lending.now), t.lending.now + READ_NS);
    assert_int_equal(f->loans, 1);
}

static void after_a_loan_decisions_stay_for_a_while(void **state)
{
    (void)state;
    begin();
    take_back();
    uint64_t until = t.lending.now + REST_NS;
    assert_false(bt_fast_lent(f));
    assert_int_equal(bt_fast_next(f, t.lending.now), until);
    t.lending.now += MS;
    take_back(); /* there is nothing to take back */
    assert_int_equal(bt_fast_next(f, t.lending.now), until);
    turn(REST_NS - MS - 1);
    assert_false(bt_fast_lent(f));
    turn(1);
    assert_true(bt_fast_lent(f));
    assert_int_equal(f->loans, 2);
    assert_int_equal(bt_fast_next(f, t.lending.now), t.lending.now + READ_NS);
}

static void each_turn_shows_that_the_router_lives(void **state)
{
    (void)state;
    begin();
    assert_int_equal(f->log->lease, t.lending.now + LEASE_NS);
    turn(7 * MS);
    assert_int_equal(f->log->lease, t.lending.now + LEASE_NS);
    assert_int_equal(f->loans, 1);
}

/* The program ended the loan, and says why. */
static void a_loan_that_the_program_ended(void **state)
{
    (void)state;
    begin();
    for (unsigned why = 0; why <= BT_PASS_REASONS; why++) {
        f->log->why = why; /* the last is none */
        f->log->open = 0;
        turn(1);
        assert_false(bt_fast_lent(f));
        assert_false(f->cut_short);
        for (unsigned i = 0; i < BT_PASS_REASONS; i++) {
            assert_int_equal(f->passed[i], i <= why);
        }
        turn(REST_NS);
        assert_true(bt_fast_lent(f));
    }
    assert_int_equal(f->loans, 1 + BT_PASS_REASONS + 1);
    struct {
        struct bt_fast fast;
        uint64_t behind;
    } made = {.fast = *f}; /* what is no reason counts nowhere */
    f->log->why = BT_PASS_REASONS;
    f->log->open = 0;
    bt_fast_take_back(&made.fast, t.lending.r, t.lending.now, &t.lending.out);
    assert_int_equal(made.behind, 0);
    assert_memory_equal(made.fast.passed, f->passed, sizeof f->passed);
}

static void notes_are_read_and_those_that_disagree_counted(void **state)
{
    (void)state;
    begin();
    f->tail = f->log->head = BT_DELEGATION_NOTES - 1; /* the next one but one stands at the beginning */
    for (unsigned i = 0; i < 2; i++) {
        f->log->note[f->log->head++ % BT_DELEGATION_NOTES] =
            (struct bt_delegation_note){.at = t.lending.now, .kind = BT_NOTE_REQUEST, .worker = 60}; /* nobody */
    }
    bt_fast_read(f, t.lending.r, &t.lending.out);
    assert_int_equal(f->disagreed, 2);
    assert_int_equal(f->tail, BT_DELEGATION_NOTES + 1);
    assert_int_equal(f->log->tail, BT_DELEGATION_NOTES + 1);
    assert_true(bt_fast_lent(f));
    bt_fast_read(f, t.lending.r, &t.lending.out);
    assert_int_equal(f->disagreed, 2);
}

/* Members 0 to 3 have one address, and 4 to 7 another. */
static void not_where_packets_to_a_worker_would_not_leave(void **state)
{
    (void)state;
    twins_need_program(&t);
    memcpy(&f->place.ip, t.lending.members[4].ip + 12, sizeof f->place.ip);
    assert_int_equal(bt_fast_judge(f, t.lending.r), BT_LEND_YES); /* they go up the stack */
    f->place.out = 1;
    assert_int_equal(bt_fast_judge(f, t.lending.r), BT_LEND_OWN_ADDRESS);
    turn(0);
    assert_false(bt_fast_lent(f));
    assert_int_equal(bt_fast_why_not(f), BT_LEND_OWN_ADDRESS);
    for (uint32_t w = 4; w < 8; w++) { /* and those who get nothing do not count */
        assert_int_equal(bt_fast_judge(f, t.lending.r), BT_LEND_OWN_ADDRESS);
        bt_router_unreachable(t.lending.r, t.lending.now, &t.lending.members[w]);
    }
    assert_int_equal(bt_fast_judge(f, t.lending.r), BT_LEND_YES);
    memcpy(&f->place.ip, t.lending.members[0].ip + 12, sizeof f->place.ip);
    assert_int_equal(bt_fast_judge(f, t.lending.r), BT_LEND_OWN_ADDRESS);
    memcpy(&f->place.ip, t.lending.requests.ip + 12, sizeof f->place.ip);
    turn(1);
    assert_true(bt_fast_lent(f));
}

static void the_kernel_may_refuse(void **state)
{
    (void)state;
    twins_need_program(&t);
    int fd = f->state_fd;
    f->state_fd = -1;
    turn(0);
    assert_false(bt_fast_lent(f));
    assert_int_equal(f->log->open, 0);
    assert_int_equal(bt_fast_why_not(f), BT_LEND_KERNEL);
    assert_int_equal(bt_fast_judge(f, t.lending.r), BT_LEND_KERNEL); /* nobody else would know */
    assert_int_equal(bt_fast_next(f, t.lending.now), t.lending.now + READ_NS);
    f->state_fd = fd;
    turn(READ_NS);
    assert_true(bt_fast_lent(f));
    assert_int_equal(bt_fast_why_not(f), BT_LEND_YES);
}

/* --- loading ----------------------------------------------------------------------------------------------------- */

static void what_a_program_is_told_of_its_place(void **state)
{
    (void)state;
    twins_need_program(&t);
    char why[256];
    struct bt_fast_setup setup = {
        .request = t.whole.requests, .feedback = t.whole.feedback, .detached = true, .out = 7};
    struct bt_fast *other = bt_fast_new(&setup, why, sizeof why);
    assert_non_null(other);
    assert_memory_equal(&other->place.ip, t.whole.requests.ip + 12, 4);
    assert_int_equal(be16toh(other->place.request_port), t.whole.requests.port);
    assert_int_equal(be16toh(other->place.feedback_port), t.whole.feedback.port);
    assert_int_equal(other->place.out, 7);
    assert_int_equal(other->rest_ns, MS);
    assert_string_equal(bt_fast_device(other), "");
    assert_true(bt_fast_program(other) >= 0);
    bt_fast_free(other);
    bt_fast_free(NULL);
}

static void only_an_ipv4_address_of_this_host(void **state)
{
    (void)state;
    char why[256];
    struct bt_fast_setup setup = {.detached = true};
    assert_int_equal(bt_addr_parse("[2001:db8::1]:8000", 0, &setup.request), 0);
    assert_null(bt_fast_new(&setup, why, sizeof why));
    assert_string_equal(why, "the router's address is not an IPv4 address");
    setup = (struct bt_fast_setup){.request = bt_addr_v4u(0xc0000201, 8000)}; /* 192.0.2.1, of documentation */
    assert_null(bt_fast_new(&setup, why, sizeof why));
    assert_string_equal(why, "no network device has the router's address");
}

/* Where the workers are as well: packets to them go up the stack. */
static void attached_to_loopback(void **state)
{
    (void)state;
    twins_need_program(&t);
    char why[256];
    struct bt_fast_setup setup = {.request = bt_addr_v4u(0x7f090807, 8000), .feedback = bt_addr_v4u(0x7f090807, 9000)};
    struct bt_fast *other = bt_fast_new(&setup, why, sizeof why);
    if (other == NULL) {
        print_message("left out: %s\n", why); /* before Linux 6.6 */
        skip();
    }
    assert_string_equal(bt_fast_device(other), "lo");
    assert_int_equal(other->place.out, 0);
    bt_fast_free(other);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, open_lent, close_lent)
    const struct CMUnitTest tests[] = {
        EACH(terms_that_change_are_lent_anew_at_once),
        EACH(nothing_is_lent_where_something_speaks_against_it),
        EACH(after_a_loan_decisions_stay_for_a_while),
        EACH(each_turn_shows_that_the_router_lives),
        EACH(a_loan_that_the_program_ended),
        EACH(notes_are_read_and_those_that_disagree_counted),
        EACH(not_where_packets_to_a_worker_would_not_leave),
        EACH(the_kernel_may_refuse),
        EACH(what_a_program_is_told_of_its_place),
        cmocka_unit_test(only_an_ipv4_address_of_this_host),
        EACH(attached_to_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
