// SPDX-License-Identifier: Apache-2.0
// When bobtail-serve that was told to stop may: it leaves its routers, serves what still comes, and ends when it was
// quiet for a while, when the drain took too long or when it is told again. Servers and threads are the test's (the
// linker puts these functions in the place of theirs).
#include "unit.h"

#include "bobtail-serve/scheduled.h"
#include "bobtail-serve/tcp.h"
#include "captured.h"
#include "shell/stop.h"

#include <string.h>

#define MS UINT64_C(1000000)

static struct serve_app app;
static struct serve_scheduled scheduled;
static uint64_t now, requests[2], tcp_requests;
static uint32_t backlog[2], tcp_backlog;
static unsigned signals, left[2], ended_listening, sent;
static uint64_t counters[BT_SERVER_COUNTERS];
static char said[1000];

unsigned __wrap_bt_stop_count(void);
uint32_t __wrap_bt_server_backlog(const struct bt_server *s);
const uint64_t *__wrap_bt_server_counters(const struct bt_server *s);
void __wrap_bt_server_leave(struct bt_server *s, uint64_t at, struct bt_txq *txq);
uint32_t __wrap_bt_run_tcp_backlog(struct bt_run *run);
void __wrap_bt_run_read_tcp(const struct bt_run *run, uint64_t *values);
void __wrap_bt_run_end_listening(struct bt_run *run);

static unsigned index_of(const struct bt_server *s)
{
    assert_true(s == (void *)&backlog[0] || s == (void *)&backlog[1]);
    return s == (void *)&backlog[1];
}

unsigned __wrap_bt_stop_count(void)
{
    return signals;
}

uint32_t __wrap_bt_server_backlog(const struct bt_server *s)
{
    return backlog[index_of(s)];
}

const uint64_t *__wrap_bt_server_counters(const struct bt_server *s)
{
    counters[BT_SERVER_REQUESTS] = requests[index_of(s)];
    return counters;
}

void __wrap_bt_server_leave(struct bt_server *s, uint64_t at, struct bt_txq *txq)
{
    static struct bt_pkt p;
    assert_int_equal(at, now);
    left[index_of(s)]++;
    if (txq->n == 0) {
        bt_txq_push(txq, &p);
    }
}

uint32_t __wrap_bt_run_tcp_backlog(struct bt_run *run)
{
    assert_ptr_equal(run, scheduled.run);
    return tcp_backlog;
}

void __wrap_bt_run_read_tcp(const struct bt_run *run, uint64_t *values)
{
    assert_ptr_equal(run, scheduled.run);
    memset(values, 0xee, BT_RUN_TCP_COUNTERS * sizeof *values);
    values[BT_RUN_TCP_REQUESTS] = tcp_requests;
}

void __wrap_bt_run_end_listening(struct bt_run *run)
{
    assert_ptr_equal(run, scheduled.run);
    ended_listening++;
}

static uint64_t io_now(struct bt_io *io)
{
    (void)io;
    return now;
}

static void io_tx(struct bt_io *io, struct bt_txq *q)
{
    (void)io;
    sent += q->n;
    bt_txq_init(q);
}

static int open_app(void **state)
{
    static const struct bt_io_ops ops = {.now = io_now, .tx = io_tx};
    static struct bt_io io = {&ops};
    (void)state;
    memset(&app, 0, sizeof app);
    memset(requests, 0, sizeof requests);
    memset(backlog, 0, sizeof backlog);
    memset(left, 0, sizeof left);
    now = 5000 * MS;
    signals = ended_listening = sent = 0;
    tcp_requests = tcp_backlog = 0;
    scheduled.run = (struct bt_run *)&scheduled;
    app.io = &io;
    app.scheduled = &scheduled;
    app.opt.workers = 2;
    app.opt.drain_seconds = 3;
    app.opt.drain_quiet_ns = 100 * MS;
    for (unsigned i = 0; i < 2; i++) {
        app.worker[i].server = (struct bt_server *)&backlog[i];
        app.worker[i].txq = &app.txq;
    }
    return 0;
}

// Time passes; may it stop now?
static bool may_stop(struct serve_drain *d, uint64_t after)
{
    struct captured c = captured_begin(2);
    now += after;
    bool may = serve_may_stop(&app, d);
    captured_end(&c, said, sizeof said);
    return may;
}

static void nobody_asked(void **state)
{
    struct serve_drain d = {0};
    (void)state;
    assert_false(may_stop(&d, 0));
    assert_false(d.asked || app.leaving);
    assert_int_equal(left[0] + left[1], 0);
}

static void a_drain_ends_when_nothing_came_for_a_while(void **state)
{
    struct serve_drain d = {0};
    (void)state;
    signals = 1;
    requests[0] = 7;
    assert_false(may_stop(&d, 0));
    assert_true(d.asked && app.leaving);
    assert_int_equal(left[0], 1);
    assert_int_equal(left[1], 1);
    assert_true(sent > 0); // routers hear of it at once
    assert_non_null(strstr(said, "info: leaving: routers were told to send nothing more\n"));
    assert_false(may_stop(&d, 99 * MS));
    requests[1] = 1; // one still came
    assert_false(may_stop(&d, MS));
    assert_false(may_stop(&d, 99 * MS));
    backlog[1] = 1; // and is being served
    assert_false(may_stop(&d, MS));
    backlog[1] = 0;
    assert_false(may_stop(&d, 99 * MS));
    assert_true(may_stop(&d, MS));
    assert_non_null(strstr(said, "info: drained\n"));
    assert_int_equal(left[0] + left[1], 2); // told once
}

static void without_a_quiet_time_it_ends_at_once_unless_something_waits(void **state)
{
    struct serve_drain d = {0};
    (void)state;
    app.opt.drain_quiet_ns = 0;
    signals = 1;
    assert_true(may_stop(&d, 0));
    assert_int_equal(left[1], 1);
}

static void a_drain_that_takes_too_long_is_given_up(void **state)
{
    struct serve_drain d = {0};
    (void)state;
    signals = 1;
    backlog[0] = 2;
    backlog[1] = 3;
    assert_false(may_stop(&d, 0));
    assert_false(may_stop(&d, 3000 * MS - 1));
    assert_true(may_stop(&d, 1));
    assert_non_null(strstr(said, "warn: stopping with 5 requests unanswered\n"));
}

static void a_second_signal_ends_it(void **state)
{
    struct serve_drain d = {0};
    (void)state;
    signals = 1;
    backlog[0] = 1;
    assert_false(may_stop(&d, 0));
    signals = 2;
    assert_true(may_stop(&d, 0));
    assert_non_null(strstr(said, "warn: stopping with 1 requests unanswered\n"));
}

static void over_tcp_it_listens_no_more_and_serves_its_connections(void **state)
{
    struct serve_drain d = {0};
    (void)state;
    app.opt.protocol = SERVE_HTTP;
    app.opt.workers = 0;
    signals = 1;
    tcp_requests = 4;
    assert_false(may_stop(&d, 0));
    assert_int_equal(ended_listening, 1);
    assert_int_equal(left[0] + left[1], 0);
    assert_non_null(strstr(said, "info: leaving: no more connections are taken\n"));
    assert_false(may_stop(&d, 99 * MS));
    tcp_requests = 5;
    assert_false(may_stop(&d, MS));
    tcp_backlog = 1;
    assert_int_equal(serve_backlog(&app), 1);
    assert_false(may_stop(&d, 100 * MS));
    tcp_backlog = 0;
    assert_false(may_stop(&d, 99 * MS));
    assert_true(may_stop(&d, MS));
    serve_leave(&app);
    assert_int_equal(ended_listening, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nobody_asked, open_app),
        cmocka_unit_test_setup(a_drain_ends_when_nothing_came_for_a_while, open_app),
        cmocka_unit_test_setup(without_a_quiet_time_it_ends_at_once_unless_something_waits, open_app),
        cmocka_unit_test_setup(a_drain_that_takes_too_long_is_given_up, open_app),
        cmocka_unit_test_setup(a_second_signal_ends_it, open_app),
        cmocka_unit_test_setup(over_tcp_it_listens_no_more_and_serves_its_connections, open_app),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
