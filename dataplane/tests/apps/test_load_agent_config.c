// SPDX-License-Identifier: Apache-2.0
// The fields of an agent's "configure": what holds without them, where each goes, their bounds, and what does not go
// together (docs/reference/lancet-agent.md).
#include "unit.h"

#include "bobtail-load/agent/agent.h"

#include <stdio.h>
#include <string.h>

static struct agent_config c;
static struct bt_ctl_error error;

#define LINE(protocol, more) "{\"op\":\"configure\",\"protocol\":\"" protocol "\",\"targets\":[\"h:1\"]" more "}"

static void read_good(const char *line)
{
    if (!agent_config_read(line, strlen(line), &c, &error)) {
        fail_msg("%.200s: %s: %s", line, error.field, error.message);
    }
}

static void refused(const char *line, const char *field, const char *message)
{
    bool taken = agent_config_read(line, strlen(line), &c, &error);
    if (taken || strcmp(error.field, field) != 0 || strcmp(error.message, message) != 0) {
        fail_msg("%.200s: %s: \"%s\"", line, error.field, error.message);
    }
    assert_string_equal(error.code, "InvalidRequest");
    assert_null(c.trace); // nothing is left to free
}

static void draws(const struct bt_dist *d, double low, double high)
{
    struct bt_rng rng;
    uint64_t turn = 0;
    double least = 1e300, most = -1;
    bt_rng_seed(&rng, 1);
    for (unsigned i = 0; i < 2000; i++) {
        double v = (double)bt_dist_draw(d, &rng, &turn, 0, UINT32_MAX);
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    assert_true(least == low && most == high);
}

static void without_a_field_its_default_holds(void **state)
{
    (void)state;
    read_good(LINE("echo", ""));
    assert_int_equal(c.role, AGENT_SYMMETRIC);
    assert_int_equal(c.stamps, AGENT_STAMPS_AUTO);
    assert_int_equal(c.arrivals, AGENT_POISSON);
    assert_int_equal(c.polling, AGENT_WAIT);
    assert_false(c.preload || c.r2p2 || c.workload.scans);
    assert_int_equal(c.threads, 1);
    assert_int_equal(c.connections, 16);
    assert_int_equal(c.outstanding, 1);
    assert_int_equal(c.timeout_ns, 1000000000);
    assert_true(c.seed != 0 && c.seed < UINT64_C(1) << 53); // drawn, and JSON can say it
    assert_int_equal(c.n_targets, 1);
    assert_string_equal(c.target[0], "h:1");
    assert_string_equal(c.device, "");
    assert_true(c.n_trace == 0 && c.trace == NULL && c.trace_share == 0);
    const struct bt_workload *w = &c.workload;
    assert_int_equal(w->protocol, BT_REPLY_ECHO);
    draws(&w->request_bytes, 64, 64);
    draws(&w->reply_bytes, 64, 64);
    draws(&w->service_ns, 0, 0);
    draws(&w->value_bytes, 200, 200);
    draws(&w->keys.bytes, 30, 30);
    draws(&w->scan_length, 1, 100);
    assert_int_equal(w->keys.n, 10000);
    assert_int_equal(w->keys.order, BT_KEYS_UNIFORM);
    assert_true(w->read_ratio == 1);
    read_good(LINE("http", ""));
    assert_string_equal(c.workload.path, "/");
    assert_string_equal(c.workload.host, "h:1"); // its target
    read_good(LINE("redis", ",\"mix\":\"ycsb-e\""));
    assert_true(c.workload.scans && c.workload.read_ratio == 0.95);
    assert_int_equal(c.workload.keys.order, BT_KEYS_ZIPF);
    read_good(LINE("echo", ",\"role\":\"latency\""));
    assert_int_equal(c.polling, AGENT_BUSY);
}

static void every_field_has_its_place(void **state)
{
    (void)state;
    read_good("{\"op\":\"configure\",\"protocol\":\"redis\",\"targets\":[\"a:1\",\"b:2\"],\"role\":\"throughput\","
              "\"timestamps\":\"hardware\",\"device\":\"eth7\",\"polling\":\"busy\",\"threads\":2,\"connections\":3,"
              "\"outstanding\":4,"
              "\"timeoutNanoseconds\":5000000,\"arrivals\":\"trace\",\"traceNanoseconds\":[10,20,60],\"seed\":6,"
              "\"preload\":true,"
              "\"requestBytes\":\"fixed:11\",\"replyBytes\":\"fixed:12\",\"serviceTime\":\"fixed:13\",\"keys\":14,"
              "\"keyOrder\":\"rr\","
              "\"keyBytes\":\"fixed:15\",\"valueBytes\":\"fixed:16\",\"mix\":\"get-set\",\"readRatio\":0.25,"
              "\"scanLength\":\"fixed:17\"}");
    assert_int_equal(c.role, AGENT_THROUGHPUT);
    assert_int_equal(c.stamps, AGENT_STAMPS_HARDWARE);
    assert_string_equal(c.device, "eth7");
    assert_int_equal(c.polling, AGENT_BUSY);
    assert_int_equal(c.threads, 2);
    assert_int_equal(c.connections, 3);
    assert_int_equal(c.outstanding, 4);
    assert_int_equal(c.timeout_ns, 5000000);
    assert_int_equal(c.arrivals, AGENT_TRACE_ARRIVALS);
    assert_int_equal(c.n_trace, 3);
    assert_int_equal(c.trace[2], 60);
    assert_true(c.trace_mean == 30);
    assert_int_equal(c.seed, 6);
    assert_true(c.preload);
    assert_int_equal(c.n_targets, 2);
    assert_string_equal(c.target[1], "b:2");
    const struct bt_workload *w = &c.workload;
    assert_int_equal(w->protocol, BT_REPLY_REDIS);
    draws(&w->request_bytes, 11, 11);
    draws(&w->reply_bytes, 12, 12);
    draws(&w->service_ns, 13, 13);
    assert_int_equal(w->keys.n, 14);
    assert_int_equal(w->keys.order, BT_KEYS_ROUND_ROBIN);
    draws(&w->keys.bytes, 15, 15);
    draws(&w->value_bytes, 16, 16);
    draws(&w->scan_length, 17, 17);
    assert_true(w->read_ratio == 0.25);
    agent_config_free(&c);
    assert_null(c.trace);
    read_good(LINE("r2p2", ",\"traceShare\":0.5,\"polling\":\"wait\",\"role\":\"latency\",\"timestamps\":\"kernel\""));
    assert_true(c.r2p2 && c.trace_share == 0.5);
    assert_int_equal(c.workload.protocol, BT_REPLY_ECHO); // what its bodies are
    assert_int_equal(c.polling, AGENT_WAIT);
    assert_int_equal(c.stamps, AGENT_STAMPS_KERNEL);
    read_good(LINE("http",
                   ",\"path\":\"/"
                   "a?b\",\"host\":\"me\",\"timestamps\":\"software\",\"arrivals\":\"fixed\",\"role\":\"symmetric\""));
    assert_string_equal(c.workload.path, "/a?b");
    assert_string_equal(c.workload.host, "me");
    assert_int_equal(c.stamps, AGENT_STAMPS_SOFTWARE);
    assert_int_equal(c.arrivals, AGENT_FIXED);
}

static void numbers_are_taken_up_to_their_bounds(void **state)
{
    static const struct {
        const char *protocol, *field, *with;
        const char *least, *most, *below, *above;
    } rows[] = {
        {"echo", "threads", ",\"connections\":64", "1", "64", "0", "65"},
        {"echo", "connections", "", "1", "16384", "0", "16385"},
        {"echo", "outstanding", "", "1", "1024", "0", "1025"},
        {"echo", "timeoutNanoseconds", "", "1000000", "600000000000", "999999", "600000000001"},
        {"echo", "seed", "", "0", "9007199254740992", "-1", "9007199254740994"},
        {"r2p2", "traceShare", "", "0", "1", "-0.1", "1.1"},
        {"redis", "keys", "", "1", "100000000", "0", "100000001"},
        {"redis", "readRatio", "", "0", "1", "-0.1", "1.01"},
        {"echo", "traceNanoseconds", ",\"arrivals\":\"trace\"", "[1]", "[9007199254740992]", "[-1]",
         "[9007199254740994]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *values[] = {rows[i].least, rows[i].most, rows[i].below, rows[i].above};
        for (unsigned k = 0; k < 4; k++) {
            char line[300];
            snprintf(line, sizeof line, "{\"op\":\"configure\",\"protocol\":\"%s\",\"targets\":[\"h:1\"]%s,\"%s\":%s}",
                     rows[i].protocol, rows[i].with, rows[i].field, values[k]);
            bool taken = agent_config_read(line, strlen(line), &c, &error);
            if (taken != (k < 2) || (!taken && strncmp(error.field, rows[i].field, strlen(rows[i].field)) != 0)) {
                fail_msg("%s: %s: %s", line, error.field, error.message);
            }
            agent_config_free(&c);
        }
    }
    assert_true(AGENT_IN_FLIGHT == 1048576);
    read_good(LINE("echo", ",\"connections\":16384,\"outstanding\":64"));
}

static void what_does_not_go_together_is_named(void **state)
{
    static const char trace[] = "belongs to arrivals \"trace\" and to no other";
    static const char blank[] = "must have no blanks, control or non-ASCII characters; escape them";
    (void)state;
    refused(LINE("echo", ",\"threads\":3,\"connections\":2"), "connections", "must be at least threads, 3; got 2");
    refused(LINE("echo", ",\"connections\":16384,\"outstanding\":65"), "outstanding",
            "times connections must be at most 1048576 requests on their way; got 65 times 16384");
    refused(LINE("memcached-binary", ",\"mix\":\"ycsb-e\""), "mix", "ycsb-e needs the protocol redis, which can scan");
    refused(LINE("echo", ",\"traceShare\":0.1"), "traceShare", "needs the protocol r2p2, which carries trace ids");
    refused(LINE("stss", ",\"preload\":true"), "preload", "needs a protocol with keys: redis or memcached");
    refused(LINE("http", ",\"path\":\"a\""), "path", "must start with /; got \"a\"");
    refused(LINE("http", ",\"path\":\"/a b\""), "path", blank);
    refused(LINE("http", ",\"path\":\"/a\\u007f\""), "path", blank);
    refused(LINE("http", ",\"host\":\"a\\nb\""), "host", blank);
    refused(LINE("echo", ",\"traceNanoseconds\":[1]"), "traceNanoseconds", trace);
    refused(LINE("echo", ",\"arrivals\":\"trace\""), "traceNanoseconds", trace);
    refused(LINE("echo", ",\"arrivals\":\"trace\",\"traceNanoseconds\":[0,0]"), "traceNanoseconds",
            "must have a gap above 0");
    refused("{\"op\":\"configure\",\"targets\":[\"h:1\"]}", "protocol",
            "is required: one of echo, synthetic, stss, http, memcached-ascii, memcached-binary, redis, r2p2");
    refused("{\"op\":\"configure\",\"protocol\":\"echo\"}", "targets", "is required");
    read_good(LINE("echo", ",\"path\":\"a b\"")); // of another protocol
    read_good(LINE("http", ",\"path\":\"/~!\""));
    read_good(LINE("echo", ",\"threads\":2,\"connections\":2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_field_its_default_holds),
        cmocka_unit_test(every_field_has_its_place),
        cmocka_unit_test(numbers_are_taken_up_to_their_bounds),
        cmocka_unit_test(what_does_not_go_together_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
