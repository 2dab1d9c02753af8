// SPDX-License-Identifier: Apache-2.0
// A connection of an agent over TCP: what the socket does not take at once, what ends it, and when it is opened again.
#include "agent_conn_bed.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void request(void)
{
    bed.worker.free_count = 0; // as who takes it from the list does
    bed.conn->listed = false;
    agent_tcp.send(bed.conn, agent_now(&bed.agent));
}

static uint64_t count(const _Atomic uint64_t *c)
{
    return atomic_load(c);
}

static void an_answer_ends_its_request_and_frees_the_connection(void **state)
{
    uint8_t body[64];
    const struct agent_record *r;
    (void)state;
    agent_bed_open("echo", "\"requestBytes\":\"fixed:64\"");
    assert_int_equal(bed.conn->state, AGENT_CONN_READY);
    assert_true(bed.conn->listed);
    request();
    assert_false(bed.conn->listed); // it carries one at a time
    agent_bed_hear(body, sizeof body);
    agent_bed_say(body, 63);
    agent_bed_event();
    assert_int_equal(count(&bed.worker.since.ended), 0); // a part is no answer
    agent_bed_say(body + 63, 1);
    agent_bed_event();
    assert_true(bed.conn->listed);
    assert_int_equal(count(&bed.worker.since.answered), 1);
    assert_int_equal(count(&bed.worker.window.answered), 1);
    assert_int_equal(bed.worker.response.total, 1);
    assert_int_equal(bed.worker.service.inf, 0);
    r = &bed.agent.window.records[0];
    assert_int_equal(r->outcome, AGENT_ANSWERED);
    assert_true(r->intended_ns <= r->sent_ns && r->sent_ns <= r->received_ns);
    assert_true(r->gap_ns == AGENT_NEVER && r->stamped_ns == AGENT_NEVER);
    request();
    assert_true(bed.agent.window.records[1].gap_ns == bed.agent.window.records[1].sent_ns - r->sent_ns);
    agent_bed_close();
}

// A request that a socket takes only a part of goes on when there is room again, and nothing comes between.
static void what_the_socket_does_not_take_leaves_later_and_in_order(void **state)
{
    enum { BODY = 1000000 };
    static uint8_t want[BODY], got[BODY];
    const int small = 4096;
    (void)state;
    agent_bed_open("echo", "\"requestBytes\":\"fixed:1000000\",\"outstanding\":4");
    assert_int_equal(setsockopt(bed.conn->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    request();
    assert_true(bed.conn->unsent_len > 0 && bed.conn->unsent_len <= BODY);
    assert_false(bed.conn->listed); // there is room for three more, but not on the way
    memcpy(want, bed.worker.out, BODY);
    memset(bed.worker.out, 0, BODY); // what is not sent yet was kept
    for (size_t n = 0; n < BODY;) {
        ssize_t k = recv(bed.peer, got + n, BODY - n, MSG_DONTWAIT);
        assert_true(k != 0);
        n += (size_t)(k > 0 ? k : 0);
        if (n < BODY && bed.conn->unsent_len != 0) {
            agent_bed_event();
        }
    }
    assert_memory_equal(got, want, BODY);
    assert_int_equal(bed.conn->unsent_len, 0);
    assert_true(bed.conn->listed);
    assert_int_equal(count(&bed.worker.since.ended), 0);
    agent_bed_say(got, 1);
    agent_bed_event(); // only what comes is told from here on
    agent_bed_close();
}

static void a_connection_that_ends_ends_what_is_on_it_and_is_opened_again(void **state)
{
    (void)state;
    agent_bed_open("echo", "\"requestBytes\":\"fixed:64\",\"outstanding\":4");
    request();
    request();
    close(bed.peer);
    bed.peer = -1;
    agent_bed_event();
    assert_int_equal(agent_bed_failed(AGENT_DISCONNECTED), 2);
    assert_int_equal(bed.worker.response.inf, 2);
    assert_int_equal(bed.agent.window.records[0].outcome, AGENT_DISCONNECTED);
    assert_true(bed.agent.window.records[0].received_ns == AGENT_NEVER);
    assert_int_equal(bed.conn->state, AGENT_CONN_CLOSED);
    assert_int_equal(bed.conn->fd, -1);
    agent_tcp.look(bed.conn, bed.conn->retry_ns - 1);
    assert_int_equal(bed.conn->fd, -1);
    uint64_t now = bed.conn->retry_ns;
    agent_tcp.look(bed.conn, now);
    assert_int_equal(bed.conn->state, AGENT_CONN_CONNECTING);
    assert_int_equal(bed.conn->retry_ns, now + 5000 * MS);
    assert_int_equal(count(&bed.worker.reconnects), 1);
    agent_bed_event();
    assert_int_equal(bed.conn->state, AGENT_CONN_READY);
    agent_bed_accept();
    uint8_t body[64];
    request();
    agent_bed_hear(body, sizeof body);
    agent_bed_say(body, sizeof body);
    agent_bed_event();
    assert_int_equal(count(&bed.worker.window.answered), 1);
    agent_bed_close();
}

static void a_server_that_is_gone_is_tried_again_and_again(void **state)
{
    (void)state;
    agent_bed_open("echo", "");
    agent_bed_stop_listening();
    close(bed.peer);
    bed.peer = -1;
    agent_bed_event();
    for (unsigned i = 1; i <= 2; i++) {
        uint64_t now = bed.conn->retry_ns;
        agent_tcp.look(bed.conn, now);
        assert_int_equal(count(&bed.worker.reconnects), i);
        if (bed.conn->state == AGENT_CONN_CONNECTING) { // loopback may refuse it at once
            agent_bed_event();
        }
        assert_int_equal(bed.conn->state, AGENT_CONN_CLOSED);
        assert_int_equal(bed.conn->fd, -1);
        assert_true(bed.conn->retry_ns >= now + 100 * MS || bed.conn->retry_ns >= agent_now(&bed.agent));
    }
    assert_int_equal(count(&bed.worker.since.ended), 0); // nothing was on it
    agent_bed_close();
}

static void what_is_no_reply_ends_the_connection_for_a_reason_of_its_own(void **state)
{
    static const char bad[] = "HTTP/2 200 OK\r\n\r\n";
    (void)state;
    agent_bed_open("http", "\"outstanding\":3");
    for (unsigned i = 0; i < 3; i++) {
        request();
    }
    agent_bed_say(bad, sizeof bad - 1);
    agent_bed_event();
    assert_int_equal(agent_bed_failed(AGENT_BAD_REPLY), 1); // whose reply it was
    assert_int_equal(agent_bed_failed(AGENT_DISCONNECTED), 2);
    assert_int_equal(bed.agent.bad_replies_logged, 1);
    assert_int_equal(bed.conn->state, AGENT_CONN_CLOSED);
    agent_bed_close();
}

static void answers_of_http_tell_errors_and_when_the_server_wants_to_end(void **state)
{
    static const char error[] = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";
    static const char last[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    (void)state;
    agent_bed_open("http", "\"outstanding\":2");
    request();
    agent_bed_say(error, sizeof error - 1);
    agent_bed_event();
    assert_int_equal(agent_bed_failed(AGENT_ERROR_REPLY), 1);
    assert_int_equal(bed.conn->state, AGENT_CONN_READY);
    request();
    agent_bed_say(last, sizeof last - 1);
    agent_bed_event();
    assert_int_equal(count(&bed.worker.window.answered), 1);
    assert_int_equal(agent_bed_failed(AGENT_DISCONNECTED), 0); // nothing was lost by it
    assert_int_equal(bed.conn->state, AGENT_CONN_CLOSED);
    agent_tcp.look(bed.conn, bed.conn->retry_ns); // at once
    assert_int_equal(bed.conn->state, AGENT_CONN_CONNECTING);
    agent_bed_close();
}

static void a_timeout_leaves_the_connection_while_there_is_room(void **state)
{
    uint8_t body[64] = {0};
    (void)state;
    agent_bed_open("echo", "\"requestBytes\":\"fixed:64\",\"outstanding\":2,\"timeoutNanoseconds\":2000000000");
    request();
    uint64_t due = bed.agent.window.records[0].intended_ns + 2000 * MS;
    agent_tcp.look(bed.conn, due - 1);
    assert_int_equal(count(&bed.worker.since.ended), 0);
    agent_tcp.look(bed.conn, due);
    assert_int_equal(agent_bed_failed(AGENT_TIMEOUT), 1);
    assert_int_equal(bed.conn->state, AGENT_CONN_READY);
    request();
    agent_bed_hear(body, sizeof body);
    agent_bed_say(body, sizeof body); // of the one that was given up
    agent_bed_event();
    assert_int_equal(count(&bed.worker.since.ended), 1);
    agent_bed_hear(body, sizeof body);
    agent_bed_say(body, sizeof body);
    agent_bed_event();
    assert_int_equal(count(&bed.worker.window.answered), 1);
    // Both places are taken by what was given up: it is of no use any more.
    request();
    request();
    due = bed.agent.window.records[3].intended_ns + 2000 * MS;
    agent_tcp.look(bed.conn, due);
    assert_int_equal(agent_bed_failed(AGENT_TIMEOUT), 3);
    assert_int_equal(bed.conn->state, AGENT_CONN_CLOSED);
    assert_int_equal(bed.conn->retry_ns, due);
    assert_int_equal(agent_bed_failed(AGENT_DISCONNECTED), 0);
    agent_bed_close();
}

static void a_connection_that_is_not_made_in_five_seconds_is_tried_anew(void **state)
{
    (void)state;
    agent_bed_open("echo", "");
    close(bed.peer);
    bed.peer = -1;
    agent_bed_event();
    agent_tcp.look(bed.conn, bed.conn->retry_ns);
    assert_int_equal(bed.conn->state, AGENT_CONN_CONNECTING);
    uint64_t late = bed.conn->retry_ns; // nobody looked at its socket
    agent_tcp.look(bed.conn, late - 1);
    assert_int_equal(count(&bed.worker.reconnects), 1);
    agent_tcp.look(bed.conn, late);
    assert_int_equal(count(&bed.worker.reconnects), 2);
    assert_int_equal(bed.conn->state, AGENT_CONN_CONNECTING);
    agent_bed_event();
    assert_int_equal(bed.conn->state, AGENT_CONN_READY);
    agent_bed_close();
}

static void a_target_that_refuses_is_named(void **state)
{
    struct bt_ctl_error e;
    char text[BT_ADDR_TEXT], want[100];
    (void)state;
    agent_bed_open("echo", "");
    agent_bed_stop_listening();
    assert_int_equal(agent_connect(&bed.target, &e), -1);
    snprintf(want, sizeof want, "%s: Connection refused", bt_addr_format(&bed.target, text));
    assert_string_equal(e.code, "TargetFailed");
    assert_string_equal(e.field, "targets");
    assert_string_equal(e.message, want);
    agent_bed_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_ends_its_request_and_frees_the_connection),
        cmocka_unit_test(what_the_socket_does_not_take_leaves_later_and_in_order),
        cmocka_unit_test(a_connection_that_ends_ends_what_is_on_it_and_is_opened_again),
        cmocka_unit_test(a_server_that_is_gone_is_tried_again_and_again),
        cmocka_unit_test(what_is_no_reply_ends_the_connection_for_a_reason_of_its_own),
        cmocka_unit_test(answers_of_http_tell_errors_and_when_the_server_wants_to_end),
        cmocka_unit_test(a_timeout_leaves_the_connection_while_there_is_room),
        cmocka_unit_test(a_connection_that_is_not_made_in_five_seconds_is_tried_anew),
        cmocka_unit_test(a_target_that_refuses_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
