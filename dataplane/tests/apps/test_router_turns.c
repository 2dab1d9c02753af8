// SPDX-License-Identifier: Apache-2.0
// A turn of the thread that forwards requests, of a router on two threads: how long it sleeps, and whom it wakes. What
// the router says is the test's (the linker puts these functions in the place of its own).
#include "unit.h"

#include "../../apps/bobtail-router/threads.h"

#include <string.h>

static struct router_threads t;
static struct bt_io request_io, feedback_io;
static bool holds, credit_waits, pile_up, asleep_in_wait;
static unsigned woken_requests, woken_feedback, arrived;
static uint64_t slept_until;
static struct bt_pkt pkt[2];
static struct bt_txq txq;

bool __wrap_bt_router_holds(const struct bt_router *r);
bool __wrap_bt_router_credit_waits(const struct bt_router *r);
bool __wrap_bt_router_notes_pile_up(const struct bt_router *r);
void __wrap_bt_router_requests(struct bt_router *r, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *q);

bool __wrap_bt_router_holds(const struct bt_router *r)
{
    assert_ptr_equal(r, t.router);
    return holds;
}

bool __wrap_bt_router_credit_waits(const struct bt_router *r)
{
    assert_ptr_equal(r, t.router);
    assert_true(t.requests_asleep); // whoever publishes from here on wakes it
    return credit_waits;
}

bool __wrap_bt_router_notes_pile_up(const struct bt_router *r)
{
    assert_ptr_equal(r, t.router);
    return pile_up;
}

void __wrap_bt_router_requests(struct bt_router *r, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *q)
{
    assert_ptr_equal(r, t.router);
    assert_ptr_equal(q, &txq);
    assert_true(n == 0 || (pkts[0] == &pkt[0] && pkts[1] == &pkt[1]));
    arrived += n;
}

static unsigned rx(struct bt_io *io, uint32_t local, struct bt_pkt **pkts, unsigned max)
{
    assert_ptr_equal(io, &request_io);
    assert_int_equal(local, BT_ROUTER_PORT_REQUEST);
    assert_int_equal(max, BT_IO_BATCH);
    pkts[0] = &pkt[0];
    pkts[1] = &pkt[1];
    return 2;
}

static void wait_until(struct bt_io *io, uint64_t until)
{
    assert_ptr_equal(io, &request_io);
    slept_until = until;
    asleep_in_wait = t.requests_asleep;
}

static void wake(struct bt_io *io)
{
    woken_requests += io == &request_io;
    woken_feedback += io == &feedback_io;
}

static int open_threads(void **state)
{
    static const struct bt_io_ops ops = {.rx = rx, .wait = wait_until, .wake = wake};
    (void)state;
    memset(&t, 0, sizeof t);
    request_io.ops = feedback_io.ops = &ops;
    t.request_io = &request_io;
    t.feedback_io = &feedback_io;
    t.router = (struct bt_router *)&t;
    holds = credit_waits = pile_up = asleep_in_wait = false;
    woken_requests = woken_feedback = arrived = 0;
    slept_until = 0;
    return 0;
}

static void who_holds_no_request_sleeps_on_when_credit_comes(void **state)
{
    (void)state;
    credit_waits = true;
    router_threads_wait(&t, 77);
    assert_int_equal(slept_until, 77);
    assert_false(asleep_in_wait);
}

static void who_holds_one_is_to_be_woken_and_does_not_sleep_where_credit_is(void **state)
{
    (void)state;
    holds = true;
    router_threads_wait(&t, 77);
    assert_int_equal(slept_until, 77);
    assert_true(asleep_in_wait);
    assert_false(t.requests_asleep); // it is awake
    credit_waits = true;
    router_threads_wait(&t, 78);
    assert_int_equal(slept_until, 0);
    assert_false(t.requests_asleep);
}

static void notes_that_pile_up_wake_the_other_thread_once(void **state)
{
    (void)state;
    t.feedback_asleep = true;
    router_threads_requests(&t, &txq);
    assert_int_equal(arrived, 2);
    assert_int_equal(woken_feedback, 0); // there are few
    pile_up = true;
    router_threads_requests(&t, &txq);
    assert_int_equal(woken_feedback, 1);
    assert_false(t.feedback_asleep);
    router_threads_requests(&t, &txq); // it is on its way
    assert_int_equal(woken_feedback, 1);
    assert_int_equal(woken_requests, 0);
    assert_int_equal(arrived, 6);
}

static void without_a_second_thread_there_is_nothing_to_stop(void **state)
{
    (void)state;
    router_threads_pause(&t);
    router_threads_resume(&t);
    router_threads_stop(&t);
    assert_false(t.asked);
    assert_int_equal(woken_feedback, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_holds_no_request_sleeps_on_when_credit_comes, open_threads),
        cmocka_unit_test_setup(who_holds_one_is_to_be_woken_and_does_not_sleep_where_credit_is, open_threads),
        cmocka_unit_test_setup(notes_that_pile_up_wake_the_other_thread_once, open_threads),
        cmocka_unit_test_setup(without_a_second_thread_there_is_nothing_to_stop, open_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
