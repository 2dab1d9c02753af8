// SPDX-License-Identifier: Apache-2.0
// What an agent tells of its load and of a measurement: sums over its threads, and of a window how each request in it
// is counted.
#include "unit.h"

#include "bobtail-load/agent/session.h"

#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

static struct agent agent;
static struct agent_worker workers[2];

static void an_agent(enum agent_state state)
{
    const double rate = 125;
    memset(&agent, 0, sizeof agent);
    memset(workers, 0, sizeof workers);
    agent.state = state;
    agent.stamps = AGENT_STAMPS_HARDWARE;
    agent.config.threads = 2;
    agent.config.role = AGENT_SYMMETRIC;
    agent.worker = workers;
    memcpy(&agent.rate_bits, &rate, sizeof rate);
    for (unsigned i = 0; i < 2; i++) {
        workers[i] = (struct agent_worker){.agent = &agent, .number = i, .last_sent_ns = AGENT_NEVER};
        bt_rng_seed(&workers[i].sampling, 1);
    }
}

static void reports(const char *part)
{
    struct bt_json_out o = {0};
    session_report(&agent, &o);
    if (strstr(o.text, part) == NULL) {
        fail_msg("no %s in %s", part, o.text);
    }
    bt_json_out_free(&o);
}

static void reports_not(const char *part)
{
    struct bt_json_out o = {0};
    session_report(&agent, &o);
    assert_null(strstr(o.text, part));
    bt_json_out_free(&o);
}

static void a_poll_sums_over_the_threads(void **state)
{
    (void)state;
    an_agent(AGENT_READY);
    for (unsigned i = 0; i < 2; i++) {
        struct agent_tally *t = &workers[i].since;
        t->sent = 100 + i;
        t->answered = 20 + i;
        t->misses = 3 + i;
        t->ended = 60 + i;
        for (unsigned k = 0; k < AGENT_OUTCOMES; k++) {
            t->failed[k] = 10 * k + i;
        }
        workers[i].reconnects = 7 + i;
    }
    reports("{\"ok\":true,\"state\":\"Ready\",\"timestamps\":\"hardware\",\"rate\":250.000,\"nowNanoseconds\":");
    reports(",\"outstanding\":80,\"reconnects\":15,\"since\":{\"sent\":201,\"answered\":41,\"misses\":7,\"failed\":{"
            "\"timeout\":21,"
            "\"disconnected\":41,\"errorReply\":61,\"badReply\":81,\"dropped\":101,\"notSent\":121,\"refused\":141}}}");
    assert_int_equal(agent_outstanding(&agent), 80);
    assert_false(agent_idle(&agent));
    workers[0].since.ended = 100;
    workers[1].since.ended = 101;
    assert_true(agent_idle(&agent));
    workers[1].sending = true; // it may still send
    assert_false(agent_idle(&agent));
}

// One request of worker i, due at `due` and sent at `sent`.
static struct agent_request take(unsigned i, uint64_t due, uint64_t sent)
{
    struct agent_request r = agent_window_take(&workers[i], due, sent);
    workers[i].last_sent_ns = sent;
    return r;
}

static void a_window_tells_how_each_request_in_it_ended(void **state)
{
    (void)state;
    an_agent(AGENT_LOADING);
    struct agent_request before = take(0, 1, 2); // no window is open
    assert_int_equal(before.window, 0);
    assert_true(agent_window_open(&agent, 3, 1, 3600000 * MS));
    uint64_t t = agent.window.opened_ns;
    reports("\"state\":\"Measuring\"");
    assert_int_equal(take(0, t, t).window, 0); // in a turn that began before
    workers[0].seen = workers[1].seen = 1;
    struct agent_request r[] = {take(0, t, t + MS), take(0, t + MS, t + 3 * MS), take(1, t, t + 5 * MS)};
    assert_int_equal(agent.window.number, 0); // three were wanted
    reports("\"state\":\"Loading\"");
    assert_int_equal(take(0, t, t + MS).window, 0);
    agent_end(&workers[0], &r[0], AGENT_ANSWERED, true, t + 11 * MS, 4 * MS);
    agent_end(&workers[0], &r[1], AGENT_TIMEOUT, false, AGENT_NEVER, AGENT_NEVER);
    reports("\"window\":{\"complete\":false,");
    agent_end(&workers[1], &r[2], AGENT_ANSWERED, false, t + 6 * MS, AGENT_NEVER);
    workers[0].seen = 0;
    reports("\"window\":{\"complete\":false,"); // a turn may still add to it
    workers[1].seen = 0;
    workers[0].stamps_discarded = 2;
    workers[1].stamps_discarded = 3;
    reports(",\"elapsedNanoseconds\":5000000,\"sent\":3,\"answered\":2,\"misses\":1,\"failed\":{\"timeout\":1,"
            "\"disconnected\":0,"
            "\"errorReply\":0,\"badReply\":0,\"dropped\":0,\"notSent\":0,\"refused\":0},\"sampled\":3,\"stamped\":1,"
            "\"unstamped\":1,\"stampsDiscarded\":5,\"responseTime\":{\"encoding\":\"ll7\",\"total\":3,\"inf\":1,"
            "\"sumNanoseconds\":17000000,");
    reports("\"serviceTime\":{\"encoding\":\"ll7\",\"total\":3,\"inf\":1,\"sumNanoseconds\":11000000,");
    reports("\"window\":{\"complete\":true,\"openedNanoseconds\":");
    const struct agent_record *rec = agent.window.records;
    assert_int_equal(rec[0].gap_ns, t + MS - t); // since the one before the window's, which was sent at t
    assert_int_equal(rec[1].gap_ns, 2 * MS);
    assert_true(rec[2].gap_ns == AGENT_NEVER);
    assert_int_equal(rec[0].received_ns, t + 11 * MS);
    assert_int_equal(rec[0].stamped_ns, 4 * MS);
    assert_int_equal(rec[0].stamps, 2);
    assert_int_equal(rec[2].stamps, 0);
    assert_true(rec[1].received_ns == AGENT_NEVER && rec[1].outcome == AGENT_TIMEOUT);
    free(agent.window.records);
}

static void a_client_under_full_load_measures_no_latency(void **state)
{
    (void)state;
    an_agent(AGENT_LOADING);
    agent.config.role = AGENT_THROUGHPUT;
    assert_true(agent_window_open(&agent, 1, 1, 3600000 * MS));
    workers[0].seen = 1;
    uint64_t t = agent.window.opened_ns;
    struct agent_request r = take(0, t, t);
    struct agent_request more = take(0, t, t + 1);
    assert_int_equal(more.window, 1); // its samples end no window
    assert_true(more.sample == AGENT_NO_SAMPLE);
    agent_end(&workers[0], &r, AGENT_ANSWERED, false, t + MS, MS);
    agent_end(&workers[0], &more, AGENT_ANSWERED, false, t + MS, MS);
    assert_true(agent.window.records[0].received_ns == AGENT_NEVER);
    assert_true(agent.window.records[0].stamped_ns == AGENT_NEVER);
    assert_int_equal(workers[0].window.stamped + workers[0].window.unstamped, 0);
    agent_window_close(&agent, t + 7 * MS);
    workers[0].seen = 0;
    reports("\"complete\":true,");
    reports("\"sampled\":1,");
    reports_not("responseTime");
    free(agent.window.records);
}

static void a_window_ends_with_its_time_and_not_before_it_began(void **state)
{
    (void)state;
    an_agent(AGENT_LOADING);
    assert_true(agent_window_open(&agent, 0, 1, 10 * MS));
    workers[0].seen = 1;
    uint64_t t = agent.window.opened_ns;
    struct agent_request r = take(0, t, t + 10 * MS - 1);
    assert_int_equal(r.window, 1);
    assert_true(r.sample == AGENT_NO_SAMPLE); // none is wanted
    assert_int_equal(take(0, t, t + 10 * MS).window, 0);
    assert_int_equal(agent.window.closed_ns, t + 10 * MS);
    agent_window_close(&agent, t + MS); // it has been
    assert_int_equal(agent.window.closed_ns, t + 10 * MS);
    assert_true(agent_window_open(&agent, 0, 1, 10 * MS));
    assert_int_equal(agent.window.number, 2);
    t = agent.window.opened_ns;
    agent_window_close(&agent, t - MS);
    assert_int_equal(agent.window.closed_ns, t + 1);
    assert_true(agent_window_open(&agent, 0, 1, 10 * MS));
    t = agent.window.opened_ns;
    agent_window_close(&agent, t + 3600000 * MS);
    assert_int_equal(agent.window.closed_ns, t + 10 * MS);
    free(agent.window.records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_poll_sums_over_the_threads),
        cmocka_unit_test(a_window_tells_how_each_request_in_it_ended),
        cmocka_unit_test(a_client_under_full_load_measures_no_latency),
        cmocka_unit_test(a_window_ends_with_its_time_and_not_before_it_began),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
