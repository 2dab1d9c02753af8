// SPDX-License-Identifier: Apache-2.0
// The document of bobtail-crab-lb: where each field goes, what holds without it, and its bounds.
#include "unit.h"

#include "bobtail-crab-lb/lb_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lb_config c;
static struct bt_ctl_error error;

static void read_good(const char *text)
{
    if (!lb_config_parse(text, strlen(text), &c, &error)) {
        fail_msg("%.200s: %s: %s", text, error.field, error.message);
    }
}

static void refused(const char *text, const char *field, const char *message)
{
    bool taken = lb_config_parse(text, strlen(text), &c, &error);
    if (taken || strcmp(error.field, field) != 0 || strcmp(error.message, message) != 0) {
        fail_msg("%.200s: %s: \"%s\"", text, error.field, error.message);
    }
    assert_null(c.vips); // nothing is left to free
    assert_int_equal(c.n_vips, 0);
}

#define ONE(more) "{" more "\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[{\"address\":\"10.0.0.3\"}]}]}"

static void without_a_field_its_default_holds(void **state)
{
    (void)state;
    read_good(ONE(""));
    assert_int_equal(c.encoding.kind, 42);
    assert_int_equal(c.encoding.experiment, 0);
    assert_int_equal(c.probe.interval_ns, 1000000000);
    assert_int_equal(c.probe.timeout_ns, 500000000);
    assert_int_equal(c.probe.failures, 3);
    assert_int_equal(c.probe.successes, 2);
    assert_int_equal(c.vips[0].crab.policy, BT_CRAB_ROUND_ROBIN);
    assert_int_equal(c.vips[0].crab.fallback, BT_CRAB_FALLBACK_DIRECT_RETURN);
    assert_false(c.vips[0].crab.assume_capable);
    assert_int_equal(c.vips[0].servers[0].weight, 1);
    lb_config_free(&c);
}

static void every_field_has_its_place(void **state)
{
    char text[BT_ADDR_TEXT];
    (void)state;
    read_good("{\"option\":{\"kind\":253,\"experiment\":65535},\"probe\":{\"intervalMilliseconds\":70,"
              "\"timeoutMilliseconds\":60,"
              "\"failures\":5,\"successes\":4},\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"fallback\":\"Drop\","
              "\"clients\":\"AssumeCapable\",\"servers\":[{\"address\":\"10.0.0.3\",\"weight\":256},{\"address\":\"10."
              "0.0.4\"}]},"
              "{\"address\":\"fd00::9\",\"port\":65535,\"servers\":[{\"address\":\"fd00::3\",\"weight\":1}]},"
              "{\"address\":\"10.0.0.9\",\"port\":1,\"servers\":[]}]}");
    assert_int_equal(c.encoding.kind, 253);
    assert_int_equal(c.encoding.experiment, 65535);
    assert_int_equal(c.probe.interval_ns, 70000000);
    assert_int_equal(c.probe.timeout_ns, 60000000);
    assert_int_equal(c.probe.failures, 5);
    assert_int_equal(c.probe.successes, 4);
    assert_int_equal(c.n_vips, 3);
    assert_int_equal(c.n_servers, 3);
    assert_int_equal(c.n_addrs, 2); // one of them twice
    assert_string_equal(bt_addr_format(&c.addrs[1], text), "[fd00::9]:0");
    const struct lb_vip *v = c.vips;
    assert_string_equal(bt_addr_format(&v[0].crab.addr, text), "10.0.0.9:80");
    assert_string_equal(bt_addr_format(&v[1].crab.addr, text), "[fd00::9]:65535");
    assert_int_equal(v[0].crab.fallback, BT_CRAB_FALLBACK_DROP);
    assert_true(v[0].crab.assume_capable);
    assert_int_equal(v[0].n_servers, 2);
    assert_int_equal(v[0].servers[0].weight, 256);
    assert_string_equal(bt_addr_format(&v[0].servers[1].ip, text), "10.0.0.4:0");
    assert_int_equal(v[0].first, 0);
    assert_int_equal(v[1].first, 2);
    assert_int_equal(v[2].first, 3);
    lb_config_free(&c);
    assert_null(c.vips);
}

// By the names of the nodes' policies; two of them are others here (docs/guides/crab-lb.md).
static void a_policy_is_what_its_word_says(void **state)
{
    static const struct {
        const char *word;
        enum bt_crab_policy policy;
    } rows[] = {{"RoundRobin", BT_CRAB_ROUND_ROBIN},
                {"Weighted", BT_CRAB_WEIGHTED},
                {"Random", BT_CRAB_RANDOM},
                {"Hash", BT_CRAB_HASH},
                {"PowerOfTwo", BT_CRAB_POWER_OF_TWO},
                {"LeastConnections", BT_CRAB_LEAST},
                {"RoundRobinPerCPU", BT_CRAB_ROUND_ROBIN},
                {"Least", BT_CRAB_LEAST}};
    char text[300];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(text, sizeof text,
                 "{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"policy\":\"%s\",\"servers\":[]}]}", rows[i].word);
        read_good(text);
        assert_int_equal(c.vips[0].crab.policy, rows[i].policy);
        lb_config_free(&c);
    }
}

static void numbers_are_taken_up_to_their_bounds(void **state)
{
    static const struct {
        const char *before, *after, *field;
        unsigned least, most;
    } rows[] = {
        {"{\"option\":{\"experiment\":7,\"kind\":", "},\"vips\":[VIP]}", "option.kind", 253, 254},
        {"{\"option\":{\"kind\":", "},\"vips\":[VIP]}", "option.kind", 9, 252},
        {"{\"option\":{\"kind\":254,\"experiment\":", "},\"vips\":[VIP]}", "option.experiment", 0, 65535},
        {"{\"probe\":{\"timeoutMilliseconds\":5,\"intervalMilliseconds\":", "},\"vips\":[VIP]}",
         "probe.intervalMilliseconds", 10, 3600000},
        {"{\"probe\":{\"intervalMilliseconds\":3600000,\"timeoutMilliseconds\":", "},\"vips\":[VIP]}",
         "probe.timeoutMilliseconds", 5, 3600000},
        {"{\"probe\":{\"failures\":", "},\"vips\":[VIP]}", "probe.failures", 1, 100},
        {"{\"probe\":{\"successes\":", "},\"vips\":[VIP]}", "probe.successes", 1, 100},
        {"{\"vips\":[{\"address\":\"10.0.0.9\",\"servers\":[],\"port\":", "}]}", "vips[0].port", 1, 65535},
        {"{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":1,\"servers\":[{\"address\":\"10.0.0.3\",\"weight\":", "}]}]}",
         "vips[0].servers[0].weight", 1, 256},
    };
    static const char vip[] = "{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[]}";
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const long values[] = {rows[i].least, rows[i].most, (long)rows[i].least - 1, (long)rows[i].most + 1};
        const char *mark = strstr(rows[i].after, "VIP");
        for (unsigned k = 0; k < 4; k++) {
            char text[400];
            snprintf(text, sizeof text, "%s%ld%.*s%s%s", rows[i].before, values[k],
                     (int)(mark != NULL ? mark - rows[i].after : 0), rows[i].after, mark != NULL ? vip : "",
                     mark != NULL ? mark + 3 : rows[i].after);
            bool taken = lb_config_parse(text, strlen(text), &c, &error);
            bool at_field = strncmp(error.field, rows[i].field, strcspn(rows[i].field, ".")) == 0;
            if (taken != (k < 2) || (!taken && !at_field)) {
                fail_msg("%s: %s: %s", text, error.field, error.message);
            }
            lb_config_free(&c);
        }
    }
}

static void what_is_missing_or_against_the_rest_is_named(void **state)
{
    static const char needs_experiment[] = "needs experiment with kind 253 or 254, and with no other (RFC 6994)";
    static const char family[] = "is not of the VIP's family: IPv4 and IPv6 each need their own (C-9)";
    (void)state;
    refused("{}", "vips", "is required");
    refused("{\"vips\":[]}", "vips", "must name at least one VIP");
    refused(
        "{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[]},"
        "{\"address\":\"10.0.0.9\",\"port\":81,\"servers\":[]},{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[]}]}",
        "vips[2]", "has address and port of an earlier one");
    refused("{\"vips\":[{\"port\":80,\"servers\":[]}]}", "vips[0].address", "is required");
    refused("{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80}]}", "vips[0].servers", "is required");
    refused("{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[{}]}]}", "vips[0].servers[0].address",
            "is required");
    refused(ONE("\"option\":{\"kind\":253},"), "option", needs_experiment);
    refused(ONE("\"option\":{\"experiment\":0},"), "option", needs_experiment);
    refused(ONE("\"option\":{\"kind\":252,\"experiment\":1},"), "option", needs_experiment);
    refused(ONE("\"probe\":{\"timeoutMilliseconds\":1001},"), "probe",
            "needs a timeoutMilliseconds of at most intervalMilliseconds");
    refused("{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[{\"address\":\"fd00::1\"}]}]}",
            "vips[0].servers[0].address", family);
    refused("{\"vips\":[{\"address\":\"fd00::9\",\"port\":80,\"servers\":[{\"address\":\"10.0.0.3\"}]}]}",
            "vips[0].servers[0].address", family);
    refused(
        "{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[]},"
        "{\"address\":\"10.0.0.8\",\"port\":80,\"servers\":[{\"address\":\"10.0.0.3\"},{\"address\":\"10.0.0.9\"}]}]}",
        "vips[1].servers[1].address", "is the address of a VIP; a server needs one of its own");
    refused("{\"vips\":[{\"address\":\"10.0.0.9\",\"port\":80,\"servers\":[{\"address\":\"10.0.0.3\"},"
            "{\"address\":\"10.0.0.4\"},{\"address\":\"10.0.0.3\"}]}]}",
            "vips[0].servers[2].address", "stands in the list before; give a weight instead");
}

static void addresses_are_of_hosts_that_others_can_reach(void **state)
{
    static const char *const bad[] = {"127.0.0.1",
                                      "127.255.0.1",
                                      "::1",
                                      "fe80::1",
                                      "febf::1",
                                      "ff02::1",
                                      "224.0.0.1",
                                      "::ffff:10.0.0.1",
                                      "10.0.0.9:1",
                                      "",
                                      "0000000000000000000000000000000000000000000000001"};
    static const char *const good[] = {"126.0.0.1",
                                       "128.0.0.1",
                                       "::2",
                                       "fec0::1",
                                       "fd00::1",
                                       "2001:db8::1",
                                       "fd00:0000:0000:0000:0000:0000:0000:0001"};
    char text[300];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "{\"vips\":[{\"address\":\"%s\",\"port\":80,\"servers\":[]}]}", bad[i]);
        assert_false(lb_config_parse(text, strlen(text), &c, &error));
        assert_string_equal(error.field, "vips[0].address");
        assert_non_null(
            strstr(error.message, "must be the IPv4 or IPv6 address of a host, and with IPv6 not link-local"));
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(text, sizeof text, "{\"vips\":[{\"address\":\"%s\",\"port\":80,\"servers\":[]}]}", good[i]);
        read_good(text);
        lb_config_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_field_its_default_holds),
        cmocka_unit_test(every_field_has_its_place),
        cmocka_unit_test(a_policy_is_what_its_word_says),
        cmocka_unit_test(numbers_are_taken_up_to_their_bounds),
        cmocka_unit_test(what_is_missing_or_against_the_rest_is_named),
        cmocka_unit_test(addresses_are_of_hosts_that_others_can_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
