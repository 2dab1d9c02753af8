// SPDX-License-Identifier: Apache-2.0
// An agent's thread under a clock of the test's own: when requests leave, which of them find no connection, and how
// long it sleeps. What carries requests is the test's, and so is the sleep (the linker puts it in the place of
// epoll_pwait2).
#include "unit.h"

#include "bobtail-load/agent/agent.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

enum { CONNS = 2, SENT = 512 };

static struct agent agent;
static struct agent_worker w;
static uint64_t now, end, due[SENT], at[SENT], paused, last_look;
static unsigned n_sent, by[SENT], looks, waits, ready_events;
static bool frees;                        // a connection takes the next request at once
static void (*on_wait)(unsigned n);       // or NULL
static const struct epoll_event *happens; // in the next wait, or NULL

int __wrap_epoll_pwait2(int fd, struct epoll_event *ev, int max, const struct timespec *pause, const void *mask);

uint64_t agent_now(const struct agent *a)
{
    assert_ptr_equal(a, &agent);
    return now;
}

int __wrap_epoll_pwait2(int fd, struct epoll_event *ev, int max, const struct timespec *pause, const void *mask)
{
    (void)mask;
    assert_int_equal(fd, w.epoll_fd);
    assert_true(max > 1 && ++waits < 100000);
    paused = (uint64_t)pause->tv_sec * 1000 * MS + (uint64_t)pause->tv_nsec;
    now += paused != 0 ? paused : 10 * US; // who does not sleep takes its time, too
    if (on_wait != NULL) {
        on_wait(waits);
    }
    agent.quit = now >= end;
    int n = happens != NULL;
    if (n != 0) {
        ev[0] = *happens;
        happens = NULL;
    }
    return n;
}

static bool never(struct agent_conn *c, struct bt_ctl_error *e)
{
    (void)c;
    (void)e;
    return false;
}

static void take(struct agent_conn *c, uint64_t intended_ns)
{
    assert_true(n_sent < SENT);
    by[n_sent] = (unsigned)(c - w.conn);
    due[n_sent] = intended_ns;
    at[n_sent++] = now;
    if (frees) {
        agent_conn_free(c);
    }
}

static void happened(struct agent_conn *c, uint32_t events)
{
    assert_ptr_equal(c, &w.conn[1]);
    ready_events = events;
}

static void look(struct agent_conn *c, uint64_t now_ns)
{
    (void)c;
    looks++;
    last_look = now_ns;
}

static void close_one(struct agent_conn *c)
{
    (void)c;
}

const struct agent_transport agent_tcp = {never, take, happened, look, close_one};
const struct agent_transport agent_r2p2 = {never, take, happened, look, close_one};

static void rate(double per_second)
{
    uint64_t bits;
    memcpy(&bits, &per_second, sizeof bits);
    agent.rate_bits = bits;
}

static int open_worker(void **state)
{
    (void)state;
    memset(&agent, 0, sizeof agent);
    now = 10 * MS;
    n_sent = looks = waits = ready_events = 0;
    frees = true;
    on_wait = NULL;
    agent.config =
        (struct agent_config){.arrivals = AGENT_FIXED, .polling = AGENT_WAIT, .threads = 1, .timeout_ns = 20 * MS};
    w = (struct agent_worker){.agent = &agent, .n_conn = CONNS, .last_sent_ns = AGENT_NEVER};
    agent.worker = &w;
    w.epoll_fd = epoll_create1(0);
    w.wake_fd = eventfd(0, EFD_NONBLOCK);
    w.conn = calloc(CONNS, sizeof *w.conn);
    w.free_conn = calloc(CONNS, sizeof *w.free_conn);
    bt_rng_seed(&w.arrivals, 3);
    for (unsigned i = 0; i < CONNS; i++) {
        w.conn[i] = (struct agent_conn){.worker = &w, .state = AGENT_CONN_READY};
        agent_conn_free(&w.conn[i]);
        agent_conn_free(&w.conn[i]); // once is enough
    }
    assert_int_equal(w.free_count, CONNS);
    return 0;
}

static int close_worker(void **state)
{
    (void)state;
    close(w.epoll_fd);
    close(w.wake_fd);
    free(w.conn);
    free(w.free_conn);
    free(agent.window.records);
    return 0;
}

static void run(uint64_t until)
{
    end = until;
    agent.quit = false;
    assert_null(agent_worker_run(&w));
}

static void leave_at(const uint64_t *want, unsigned n)
{
    assert_int_equal(n_sent, n);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(due[i], want[i]);
        assert_in_range(at[i], want[i], want[i] + 10 * US); // it was awake before
    }
}

static void requests_leave_at_even_distances_by_the_connections_in_turn(void **state)
{
    static const uint64_t want[] = {11 * MS, 12 * MS, 13 * MS, 14 * MS, 15 * MS};
    (void)state;
    rate(1000);
    run(15 * MS + 500 * US);
    leave_at(want, 5);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(by[i], i % 2);
    }
    assert_int_equal(w.seen, 0);
    assert_false(w.sending);
}

static void streams_begin_between_each_other(void **state)
{
    static const uint64_t want[] = {13 * MS, 15 * MS, 17 * MS};
    (void)state;
    rate(500);
    agent.config.threads = 2;
    w.number = 1; // half a gap later than the first
    run(18 * MS);
    leave_at(want, 3);
}

static void a_trace_is_scaled_and_each_stream_begins_elsewhere_in_it(void **state)
{
    static uint64_t gaps[] = {1, 2, 3};
    static const uint64_t want[] = {11 * MS, 12 * MS + 500 * US, 13 * MS, 14 * MS};
    (void)state;
    rate(1000);
    agent.config.arrivals = AGENT_TRACE_ARRIVALS;
    agent.config.trace = gaps;
    agent.config.n_trace = 3;
    agent.config.trace_mean = 2;
    agent.config.threads = 3;
    w.number = 1;
    run(14 * MS + 100 * US);
    leave_at(want, 4);
}

static void poisson_gaps_have_the_mean_of_the_rate(void **state)
{
    unsigned shorter = 0;
    (void)state;
    agent.config.arrivals = AGENT_POISSON;
    rate(1000);
    run(410 * MS);
    assert_in_range(n_sent, 350, 450); // the seed is fixed
    for (unsigned i = 1; i < n_sent; i++) {
        shorter += due[i] - due[i - 1] < 693147;
    }
    assert_in_range(shorter, n_sent * 42 / 100, n_sent * 58 / 100);
}

static void ask_for_more(unsigned n)
{
    (void)n;
    if (now >= 60 * MS && now < 61 * MS) {
        rate(100); // half of the gap of 100 ms was left: now of one of 10 ms
    }
}

static void another_rate_shortens_what_is_left_of_a_gap(void **state)
{
    (void)state;
    rate(10);
    w.look_ns = 0;
    on_wait = ask_for_more;
    run(78 * MS);
    assert_int_equal(n_sent, 2);
    assert_in_range(due[0], 64 * MS + 900 * US, 65 * MS); // 60 + 50 / 10
    assert_int_equal(due[1] - due[0], 10 * MS);
    rate(0);
    on_wait = NULL;
    run(200 * MS);
    assert_int_equal(n_sent, 2); // no load at all
}

static void what_finds_no_connection_keeps_its_time_and_is_given_up_late(void **state)
{
    (void)state;
    frees = false;
    w.last_sent_ns = 5; // which says nothing of a request that never left
    rate(1000);
    assert_true(agent_window_open(&agent, 10, 1, 1000 * MS));
    run(30 * MS + 500 * US);
    assert_int_equal(n_sent, 2);        // so many connections there are
    assert_int_equal(w.since.ended, 0); // 13 ms and the timeout are not over
    run(34 * MS + 500 * US);
    assert_int_equal(w.since.failed[AGENT_NOT_SENT], 2); // those of 13 and 14 ms
    assert_int_equal(w.window.failed[AGENT_NOT_SENT], 2);
    const struct agent_record *r = agent.window.records;
    assert_int_equal(r[0].intended_ns, 13 * MS);
    assert_true(r[0].sent_ns == AGENT_NEVER && r[0].gap_ns == AGENT_NEVER && r[0].received_ns == AGENT_NEVER);
    assert_int_equal(r[0].outcome, AGENT_NOT_SENT);
    w.conn[1].state = AGENT_CONN_CLOSED; // of no use, though it is listed
    agent_conn_free(&w.conn[1]);
    agent_conn_free(&w.conn[0]);
    run(35 * MS);
    assert_int_equal(n_sent, 3);
    assert_int_equal(by[2], 0);
    assert_int_equal(due[2], 15 * MS); // it waited since
}

static void at_most_64_leave_in_a_turn(void **state)
{
    (void)state;
    rate(1000);
    run(10 * MS + 900 * US);
    now = 300 * MS;
    run(now + 1); // one turn
    assert_int_equal(n_sent, 64);
    assert_int_equal(due[63], 74 * MS);
}

static void it_sleeps_until_there_is_something_to_do(void **state)
{
    (void)state;
    run(now + 1);
    assert_int_equal(paused, 100 * MS); // nothing is on its way
    assert_int_equal(looks, CONNS);
    w.conn[1].flight.tail = 3;
    run(now + 1);
    assert_int_equal(w.outstanding, 3);
    assert_int_equal(paused, MS); // timeouts are looked for
    assert_int_equal(last_look, now - MS);
    w.conn[1].flight.tail = 0;
    rate(1); // far away, and yet connections may have to be opened again
    run(now + 1);
    assert_true(paused <= MS);
    rate(2000);
    run(now + 1);
    assert_true(paused <= 400 * US); // a tenth of a millisecond before it is due
    agent.config.polling = AGENT_BUSY;
    run(now + 1);
    assert_int_equal(paused, 0);
    rate(0);
    run(now + 1);
    assert_true(paused > 0); // only under load
}

static void events_go_to_their_connections_and_a_bell_is_only_heard(void **state)
{
    const struct epoll_event of_conn = {.events = EPOLLOUT, .data.ptr = &w.conn[1]}, bell = {.events = EPOLLIN};
    uint64_t one = 1;
    (void)state;
    happens = &of_conn;
    run(now + 1);
    assert_int_equal(ready_events, EPOLLOUT);
    assert_int_equal(write(w.wake_fd, &one, sizeof one), sizeof one);
    happens = &bell;
    run(now + 1);
    assert_int_equal(read(w.wake_fd, &one, sizeof one), -1); // it was read
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_worker, close_worker)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_leave_at_even_distances_by_the_connections_in_turn),
        TEST(streams_begin_between_each_other),
        TEST(a_trace_is_scaled_and_each_stream_begins_elsewhere_in_it),
        TEST(poisson_gaps_have_the_mean_of_the_rate),
        TEST(another_rate_shortens_what_is_left_of_a_gap),
        TEST(what_finds_no_connection_keeps_its_time_and_is_given_up_late),
        TEST(at_most_64_leave_in_a_turn),
        TEST(it_sleeps_until_there_is_something_to_do),
        TEST(events_go_to_their_connections_and_a_bell_is_only_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
