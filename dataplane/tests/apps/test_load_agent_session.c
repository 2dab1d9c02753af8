// SPDX-License-Identifier: Apache-2.0
// One coordinator's connection to an agent: what it may ask in which state, lines and leases, and what a poll tells.
// Nothing is connected to: the workers are the test's.
#include "unit.h"

#include "bobtail-load/agent/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

static struct session s;
static int coordinator;
static struct agent_worker workers[2];

static void begin(const char *said)
{
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    coordinator = fd[0];
    assert_true(session_begin(&s, fd[1], 30 * SECOND, said, strlen(said)));
}

static void end(void)
{
    s.agent.worker = NULL; // the test's
    session_end(&s);
    assert_int_equal(s.fd, -1);
    close(coordinator);
}

// The state as if workers ran.
static void ready(enum agent_state state)
{
    memset(workers, 0, sizeof workers);
    workers[0].wake_fd = workers[1].wake_fd = -1;
    s.agent.state = state;
    s.agent.config.threads = 2;
    s.agent.config.timeout_ns = SECOND;
    s.agent.stamps = AGENT_STAMPS_KERNEL;
    s.agent.worker = workers;
}

// What has been answered so far.
static const char *answers(void)
{
    static char text[32768];
    ssize_t n = recv(coordinator, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static const char *ask(const char *line)
{
    assert_int_equal(send(coordinator, line, strlen(line), 0), strlen(line));
    session_read(&s);
    return answers();
}

static void refused(const char *line, const char *code, const char *field, const char *message)
{
    char want[500];
    snprintf(want, sizeof want, "{\"ok\":false,\"error\":{\"code\":\"%s\",\"field\":\"%s\",\"message\":\"%s\"}}\n",
             code, field, message);
    assert_string_equal(ask(line), want);
    assert_false(s.over);
}

static void what_an_idle_agent_is_asked_for(void **state)
{
    static const char needs[] = "needs the state Ready or Loading; it is Idle";
    (void)state;
    begin("");
    assert_string_equal(ask("{\"op\":\"alive\"}\n"), "{\"ok\":true,\"state\":\"Idle\"}\n");
    refused("{\"op\":\"load\",\"rate\":1}\n", "WrongState", "op", needs);
    refused("{\"op\":\"poll\"}\n", "WrongState", "op", needs);
    refused("{\"op\":\"stop\"}\n", "WrongState", "op", needs);
    refused("{\"op\":\"measure\"}\n", "WrongState", "op", "needs the state Loading; it is Idle");
    refused("{\"op\":\"samples\"}\n", "WrongState", "op", "needs a complete measurement; poll until window.complete");
    refused("{\"op\":\"hello\"}\n", "WrongState", "op", "comes first, once, and where the agent asks for a token");
    refused("{\"op\":\"dance\"}\n", "UnknownOperation", "op",
            "\\\"dance\\\" is none of hello, configure, load, measure, poll, samples, stop, alive");
    refused("{\"op\":\"alive\",\"rate\":1}\n", "InvalidRequest", "rate",
            "unknown field; remove it, or use a dataplane that knows it");
    end();
}

static void bounds_of_load_and_measure(void **state)
{
    static const struct {
        const char *line;
        bool taken;
    } rows[] = {
        {"{\"op\":\"load\",\"rate\":0.01}\n", true},
        {"{\"op\":\"load\",\"rate\":100000000}\n", true},
        {"{\"op\":\"load\",\"rate\":0.009}\n", false},
        {"{\"op\":\"load\",\"rate\":100000001}\n", false},
        {"{\"op\":\"load\"}\n", false},
        {"{\"op\":\"measure\",\"samples\":1000000}\n", true},
        {"{\"op\":\"measure\",\"samples\":1000001}\n", false},
        {"{\"op\":\"measure\",\"samples\":-1}\n", false},
        {"{\"op\":\"measure\",\"samplingRate\":1e-9}\n", true},
        {"{\"op\":\"measure\",\"samplingRate\":1}\n", true},
        {"{\"op\":\"measure\",\"samplingRate\":1.1}\n", false},
        {"{\"op\":\"measure\",\"samplingRate\":1e-10}\n", false},
        {"{\"op\":\"measure\",\"seconds\":0.001}\n", true},
        {"{\"op\":\"measure\",\"seconds\":86400}\n", true},
        {"{\"op\":\"measure\",\"seconds\":0.0009}\n", false},
        {"{\"op\":\"measure\",\"seconds\":86401}\n", false},
    };
    (void)state;
    begin("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ready(AGENT_LOADING);
        s.agent.window.number = s.agent.window.last = 0;
        bool taken = strncmp(ask(rows[i].line), "{\"ok\":true,", 11) == 0;
        if (taken != rows[i].taken) {
            fail_msg("%s", rows[i].line);
        }
    }
    end();
}

static void a_measurement_is_opened_as_asked_and_one_at_a_time(void **state)
{
    double rate;
    (void)state;
    begin("");
    ready(AGENT_READY);
    refused("{\"op\":\"measure\"}\n", "WrongState", "op", "needs the state Loading; it is Ready");
    assert_string_equal(ask("{\"op\":\"load\",\"rate\":500}\n"), "{\"ok\":true,\"state\":\"Loading\"}\n");
    memcpy(&rate, &s.agent.rate_bits, sizeof rate);
    assert_true(rate == 250); // of each of two threads
    refused("{\"op\":\"configure\"}\n", "WrongState", "op", "needs the state Idle or Ready; it is Loading");
    assert_string_equal(ask("{\"op\":\"measure\",\"samples\":3,\"samplingRate\":0.5,\"seconds\":2}\n"),
                        "{\"ok\":true,\"state\":\"Measuring\"}\n");
    const struct agent_window *w = &s.agent.window;
    assert_int_equal(w->wanted, 3);
    assert_true(w->rate == 0.5);
    assert_int_equal(w->ends_ns - w->opened_ns, 2 * SECOND);
    assert_int_equal(w->number, 1);
    refused("{\"op\":\"measure\"}\n", "WrongState", "op", "needs the state Loading; it is Measuring");
    refused("{\"op\":\"samples\"}\n", "WrongState", "op", "needs a complete measurement; poll until window.complete");
    agent_window_close(&s.agent, agent_now(&s.agent));
    workers[1].window.sent = 1; // one is on its way
    refused("{\"op\":\"measure\"}\n", "WrongState", "op", "needs the state Loading; it is Loading");
    workers[1].window.ended = 1;
    assert_string_equal(ask("{\"op\":\"measure\"}\n"), "{\"ok\":true,\"state\":\"Measuring\"}\n");
    assert_int_equal(w->number, 2);
    assert_int_equal(workers[1].window.sent, 0); // it begins from nothing
    assert_int_equal(w->ends_ns - w->opened_ns, 86400 * SECOND);
    assert_true(w->rate == 1 && w->wanted == 0);
    end();
}

static void a_stop_is_answered_when_nothing_is_on_its_way_or_too_late(void **state)
{
    (void)state;
    begin("");
    for (unsigned late = 0; late < 2; late++) {
        ready(AGENT_LOADING);
        workers[0].since.sent = 5;
        workers[0].since.ended = 4;
        assert_string_equal(ask("{\"op\":\"stop\"}\n{\"op\":\"alive\"}\n"), "");
        assert_int_equal(s.agent.rate_bits, 0);
        session_tick(&s, s.give_up_ns - 1);
        assert_string_equal(answers(), "");
        workers[0].since.ended += late == 0;
        session_tick(&s, s.give_up_ns - (late == 0));
        assert_string_equal(
            answers(),
            "{\"ok\":true,\"state\":\"Ready\"}\n{\"ok\":true,\"state\":\"Ready\"}\n"); // and what came behind
        assert_int_equal(s.heard_ns, s.give_up_ns - (late == 0)); // it was the coordinator that waited
    }
    end();
}

static void samples_come_behind_their_answer(void **state)
{
    uint8_t record[AGENT_RECORD_BYTES];
    static const uint8_t want[AGENT_RECORD_BYTES] = {1, 0, 0, 0, 0, 0, 0,    0,    2,    0,    0,    0,    0,    0,
                                                     0, 0, 3, 0, 0, 0, 0,    0,    0,    0,    4,    0,    0,    0,
                                                     0, 0, 0, 0, 5, 0, 0,    0,    0,    0,    0,    0,    0x34, 0x12,
                                                     6, 7, 8, 0, 0, 0, 0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12};
    char head[] = "{\"ok\":true,\"count\":1500,\"recordBytes\":56,\"bytes\":84000}\n";
    (void)state;
    begin("");
    ready(AGENT_LOADING);
    assert_true(agent_window_open(&s.agent, 2000, 1, SECOND));
    agent_window_close(&s.agent, agent_now(&s.agent));
    s.agent.window.claimed = 1500;
    s.agent.window.records[0] = s.agent.window.records[1499] =
        (struct agent_record){1, 2, 3, 4, 5, 0x1234, 6, 7, 8, UINT64_C(0x123456789abcdef0)};
    assert_int_equal(send(coordinator, "{\"op\":\"samples\"}\n", 17, 0), 17);
    session_read(&s);
    char got[sizeof head];
    assert_int_equal(recv(coordinator, got, sizeof head - 1, MSG_WAITALL), sizeof head - 1);
    assert_memory_equal(got, head, sizeof head - 1);
    for (unsigned i = 0; i < 1500; i++) {
        assert_int_equal(recv(coordinator, record, sizeof record, MSG_WAITALL), sizeof record);
        if (i == 0 || i == 1499) {
            assert_memory_equal(record, want, sizeof want);
        }
    }
    assert_string_equal(answers(), "");
    s.agent.window.wanted = 2;
    s.agent.window.claimed = 5; // three came too late to be one
    static const char two[] = "{\"ok\":true,\"count\":2,\"recordBytes\":56,\"bytes\":112}\n";
    assert_memory_equal(ask("{\"op\":\"samples\"}\n"), two, sizeof two - 1);
    end();
}

static void lines_are_answered_in_order_and_parts_wait(void **state)
{
    static const char alive[] = "{\"ok\":true,\"state\":\"Idle\"}\n";
    char three[200];
    (void)state;
    begin("{\"op\":\"alive\"}\n{\"op\":"); // what was said before it was let in
    assert_string_equal(ask("\"alive\"}"), alive);
    assert_string_equal(ask("\n"), alive);
    snprintf(three, sizeof three, "%s%s%s", alive, alive, alive);
    assert_string_equal(ask("{\"op\":\"alive\"}\n{\"op\":\"alive\"}\n{\"op\":\"alive\"}\n{"), three);
    assert_int_equal(s.have, 1);
    assert_string_equal(ask("]\n"), "{\"ok\":false,\"error\":{\"code\":\"InvalidRequest\",\"field\":\"\",\"message\":"
                                    "\"is not valid JSON: unexpected character at byte 1\"}}\n");
    assert_true(s.over); // nothing behind it can be understood
    end();
    begin("");
    close(coordinator);
    session_read(&s);
    assert_true(s.over);
    coordinator = -1;
    end();
}

static void a_line_has_room_for_a_mebibyte(void **state)
{
    static char line[SESSION_LINE];
    (void)state;
    begin("");
    memset(line, ' ', sizeof line);
    for (size_t n = 0; n < sizeof line && !s.over;) {
        ssize_t k = send(coordinator, line, sizeof line - n, MSG_DONTWAIT);
        assert_true(k > 0);
        n += (size_t)k;
        session_read(&s);
        while (s.have < n) {
            session_read(&s);
        }
        assert_int_equal(s.over, n == sizeof line);
    }
    assert_string_equal(
        answers(), "{\"ok\":false,\"error\":{\"code\":\"InvalidRequest\",\"field\":\"\",\"message\":\"is a line of "
                   "more than 1048576 bytes\"}}\n");
    end();
}

static void who_says_nothing_for_a_lease_is_dead(void **state)
{
    (void)state;
    begin("");
    session_read(&s); // nothing is there
    assert_false(s.over);
    session_tick(&s, s.heard_ns + 30 * SECOND - 1);
    assert_false(s.over);
    uint64_t before = s.heard_ns;
    ask("{\"op\":\"alive\"}\n");
    assert_true(s.heard_ns >= before);
    session_tick(&s, s.heard_ns + 30 * SECOND);
    assert_true(s.over);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_idle_agent_is_asked_for),
        cmocka_unit_test(bounds_of_load_and_measure),
        cmocka_unit_test(a_measurement_is_opened_as_asked_and_one_at_a_time),
        cmocka_unit_test(a_stop_is_answered_when_nothing_is_on_its_way_or_too_late),
        cmocka_unit_test(samples_come_behind_their_answer),
        cmocka_unit_test(lines_are_answered_in_order_and_parts_wait),
        cmocka_unit_test(a_line_has_room_for_a_mebibyte),
        cmocka_unit_test(who_says_nothing_for_a_lease_is_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
