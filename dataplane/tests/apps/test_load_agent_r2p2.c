// SPDX-License-Identifier: Apache-2.0
// A socket of an agent over R2P2: how requests on it end, how many it carries, and what they say.
#include "agent_conn_bed.h"

#include "shell/pool.h"
#include "wire/r2p2.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static struct sockaddr_in client;

static void request(void)
{
    bed.worker.free_count = 0; // as who takes it from the list does
    bed.conn->listed = false;
    agent_r2p2.send(bed.conn, agent_now(&bed.agent));
}

// The next datagram at the server.
static size_t hear(uint8_t bytes[2048], struct bt_r2p2_hdr *h)
{
    socklen_t len = sizeof client;
    ssize_t n = recvfrom(bed.peer, bytes, 2048, 0, (struct sockaddr *)&client, &len);
    assert_true(n > 0);
    assert_int_equal(bt_r2p2_decode(bytes, (size_t)n, BT_ROLE_ANY, h), BT_M_OK);
    return (size_t)n;
}

static void say(uint8_t type, uint16_t req_id, const char *body)
{
    uint8_t bytes[64] = {
        BT_R2P2_MAGIC, BT_R2P2_HEADER, (uint8_t)(type << 4), 0xe0, (uint8_t)(req_id >> 8), (uint8_t)req_id, 0, 1};
    memcpy(bytes + BT_R2P2_HEADER, body, strlen(body));
    size_t n = BT_R2P2_HEADER + strlen(body);
    assert_int_equal(sendto(bed.peer, bytes, n, 0, (struct sockaddr *)&client, sizeof client), n);
}

static uint64_t count(const _Atomic uint64_t *c)
{
    return atomic_load(c);
}

static void an_answer_and_a_refusal_end_their_requests(void **state)
{
    uint8_t bytes[2048];
    struct bt_r2p2_hdr h[2];
    (void)state;
    agent_bed_open("r2p2", "\"requestBytes\":\"fixed:64\",\"outstanding\":2");
    assert_int_equal(bed.conn->state, AGENT_CONN_READY);
    assert_true(bed.conn->listed);
    request();
    assert_true(bed.conn->listed); // it carries one more
    request();
    assert_false(bed.conn->listed);
    for (unsigned i = 0; i < 2; i++) {
        size_t n = hear(bytes, &h[i]);
        assert_int_equal(h[i].type, BT_REQUEST);
        assert_int_equal(h[i].policy, BT_POLICY_UNRESTRICTED);
        assert_int_equal(n - h[i].hdr_size, 64);
        assert_int_equal(h[i].opt.present & BT_HAS_TRACE, 0);
    }
    assert_in_range(ntohs(client.sin_port), 20000, 28191);
    say(BT_REPLY, h[1].req_id, "any");
    agent_bed_event();
    assert_true(bed.conn->listed);
    assert_int_equal(count(&bed.worker.window.answered), 1);
    assert_int_equal(bed.agent.window.records[1].outcome, AGENT_ANSWERED);
    assert_true(bed.agent.window.records[1].received_ns >= bed.agent.window.records[1].sent_ns);
    assert_true(bed.agent.window.records[1].stamped_ns == AGENT_NEVER);
    say(BT_DROP, h[0].req_id, "");
    agent_bed_event();
    assert_int_equal(agent_bed_failed(AGENT_DROPPED), 1);
    assert_int_equal(bed.agent.window.records[0].outcome, AGENT_DROPPED);
    assert_true(bed.agent.window.records[0].received_ns == AGENT_NEVER);
    assert_int_equal(bed.worker.response.total, 2);
    assert_int_equal(bed.worker.response.inf, 1);
    agent_bed_close();
}

static void a_timeout_counts_from_when_the_request_was_due(void **state)
{
    uint8_t bytes[2048];
    struct bt_r2p2_hdr h;
    (void)state;
    agent_bed_open("r2p2", "\"timeoutNanoseconds\":30000000000");
    request();
    hear(bytes, &h);
    uint64_t due = bed.agent.window.records[0].intended_ns + 30000 * MS;
    agent_r2p2.look(bed.conn, due - MS);
    assert_int_equal(count(&bed.worker.since.ended), 0);
    agent_r2p2.look(bed.conn, due + MS);
    assert_int_equal(agent_bed_failed(AGENT_TIMEOUT), 1);
    assert_true(bed.conn->listed);
    say(BT_REPLY, h.req_id, "late");
    agent_bed_event();
    assert_int_equal(count(&bed.worker.since.ended), 1);
    agent_bed_close();
}

static void samples_carry_trace_ids_as_often_as_asked_for(void **state)
{
    uint8_t bytes[2048];
    struct bt_r2p2_hdr h;
    uint64_t before = 0;
    (void)state;
    agent_bed_open("r2p2", "\"traceShare\":1,\"outstanding\":16");
    for (unsigned i = 0; i < 11; i++) {
        request();
        hear(bytes, &h);
        bool sample = i < 10; // the window has no room for more
        assert_int_equal((h.opt.present & BT_HAS_TRACE) != 0, sample);
        if (sample) {
            assert_true(h.opt.trace != 0 && h.opt.trace != before && h.opt.trace == bed.agent.window.records[i].trace);
            before = h.opt.trace;
        }
    }
    agent_bed_close();
}

static void each_datagram_has_its_number(void **state)
{
    uint8_t bytes[2048];
    struct bt_r2p2_hdr h;
    (void)state;
    agent_bed_open("r2p2", "\"requestBytes\":\"fixed:1000\",\"outstanding\":4");
    request();
    hear(bytes, &h);
    assert_int_equal(bed.conn->datagrams, 1);
    request();
    assert_int_equal(bed.conn->datagrams, 2);
    assert_int_equal(bed.conn->r2p2[1].datagram, 1);
    assert_true(bed.conn->r2p2[1].in_flight);
    assert_true(bed.conn->r2p2[1].tx_stamp_ns == BT_NO_STAMP);
    hear(bytes, &h);
    say(BT_REPLY, h.req_id, "x");
    agent_bed_event();
    assert_false(bed.conn->r2p2[1].in_flight);
    assert_true(bed.conn->r2p2[0].in_flight);
    agent_bed_close();
}

static void what_is_on_its_way_at_the_end_was_refused(void **state)
{
    (void)state;
    agent_bed_open("r2p2", "\"outstanding\":2");
    request();
    request();
    bt_client_close(bed.conn->client, bed.agent.start_ns);
    assert_int_equal(agent_bed_failed(AGENT_REFUSED), 2);
    request(); // and nothing more leaves
    assert_int_equal(agent_bed_failed(AGENT_REFUSED), 3);
    assert_int_equal(bed.conn->datagrams, 2);
    assert_true(bed.conn->listed);
    agent_bed_close();
}

static void without_a_buffer_nothing_is_read(void **state)
{
    uint8_t bytes[2048];
    struct bt_r2p2_hdr h;
    struct bt_pkt *taken[64];
    unsigned n = 0;
    (void)state;
    agent_bed_open("r2p2", "");
    request();
    hear(bytes, &h);
    while (n < 64 && (taken[n] = bt_pool_get(bed.worker.pool)) != NULL) {
        n++;
    }
    say(BT_REPLY, h.req_id, "waits");
    agent_bed_event();
    assert_int_equal(count(&bed.worker.since.ended), 0);
    while (n > 0) {
        bt_pool_put(bed.worker.pool, taken[--n]);
    }
    agent_bed_event();
    assert_int_equal(count(&bed.worker.since.answered), 1);
    agent_bed_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_and_a_refusal_end_their_requests),
        cmocka_unit_test(a_timeout_counts_from_when_the_request_was_due),
        cmocka_unit_test(samples_carry_trace_ids_as_often_as_asked_for),
        cmocka_unit_test(each_datagram_has_its_number),
        cmocka_unit_test(what_is_on_its_way_at_the_end_was_refused),
        cmocka_unit_test(without_a_buffer_nothing_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
