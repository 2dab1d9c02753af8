// SPDX-License-Identifier: Apache-2.0
// The command line of bobtail-load: every option at its bounds, what goes with what, and the routers it names.
#include "options_bed.h"

#include "bobtail-load/load_app.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

static struct load_options o;

static enum bt_cli_result read_options(int argc, char **argv)
{
    return load_options_read(argc, argv, &o);
}

static const struct options_bed bed = {"bobtail-load", "--target=127.0.0.1", read_options};
static const struct options_bed bare = {"bobtail-load", "", read_options};
static const struct options_bed agent = {"bobtail-load", "--agent=unix:a.sock", read_options};

static const struct option_row rows[] = {
    {"target", BT_CLI_TEXT, &o.target, NULL, "a,b:1,[::1]:65535,[::2],1.2.3.4", NULL, "", "a:0", NULL},
    {"resolve-interval", BT_CLI_DURATION, &o.resolve_interval_ns, "2s", "100ms", "1h", "99999999ns", "3601s", NULL},
    {"resolve-patience", BT_CLI_DURATION, &o.resolve_patience_ns, "30s", "0", "1h", NULL, "3601s", NULL},
    {"connections", BT_CLI_U32, &o.connections, "1", "1", "256", "0", "257", NULL},
    {"address", BT_CLI_TEXT, &o.address, "0.0.0.0", "10.1.2.3", "::", "localhost", "1.2.3.4:5", NULL},
    {"port-base", BT_CLI_U32, &o.port_base, "20000", "1024", "61440", "1023", "65001", NULL},
    {"mtu", BT_CLI_AUTO_U32, &o.mtu, "auto", "576", "1500", "575", "1501", NULL},
    {"rate", BT_CLI_DOUBLE, &o.rate, "1000", "0.01", "100000000", "0.0099", "100000001", NULL},
    {"duration", BT_CLI_DURATION, &o.duration_ns, "10s", "100ms", "24h", "99999999ns", "86401s", NULL},
    {"warmup", BT_CLI_DURATION, &o.warmup_ns, "1s", "0", "1h", NULL, "3601s", NULL},
    {"arrivals", BT_CLI_CHOICE, &o.arrivals, "poisson", "poisson|fixed", NULL, NULL, NULL, NULL},
    {"request-bytes", BT_CLI_U32, &o.request_bytes, "64", "0", "16777216", NULL, "16777217", "--max-message=16777216"},
    {"policy", BT_CLI_CHOICE, &o.policy, "unrestricted", "unrestricted|sticky", NULL, NULL, NULL, NULL},
    {"priority", BT_CLI_U32, &o.priority, "0", "4", "7", "3", "8", NULL},
    {"timeout", BT_CLI_DURATION, &o.timeout_ns, "2s", "1ms", "10m", "999999ns", "601s", NULL},
    {"pending", BT_CLI_U32, &o.pending, "16384", "1", "60000", "0", "60001", NULL},
    {"max-message", BT_CLI_U32, &o.max_message, "1048576", "1464", "16777216", "1463", "16777217", NULL},
    {"verify", BT_CLI_FLAG, &o.verify, NULL, NULL, NULL, NULL, NULL, NULL},
    {"legacy", BT_CLI_FLAG, &o.legacy, NULL, NULL, NULL, NULL, NULL, NULL},
    {"flow-control", BT_CLI_FLAG, &o.flow_control, NULL, NULL, NULL, NULL, NULL, NULL},
    {"seed", BT_CLI_U64, &o.seed, "0", "1", "18446744073709551615", "-1", "18446744073709551616", NULL},
    {"output", BT_CLI_CHOICE, &o.output, "table", "table|json", NULL, NULL, NULL, NULL},
    {"slice-output", BT_CLI_TEXT, &o.slice_output, NULL, "slices", NULL, NULL, NULL, NULL},
    {"outcome-log", BT_CLI_TEXT, &o.outcome_log, NULL, "outcomes", NULL, NULL, NULL, NULL},
    {"progress", BT_CLI_DURATION, &o.progress_ns, "0", "0", "1h", NULL, "3601s", NULL}, // 1s on a terminal
    {"ctl", BT_CLI_TEXT, &o.ctl, NULL, "c.sock", NULL, NULL, NULL, NULL},
    {"log", BT_CLI_CHOICE, &o.log, "text", "text|json", NULL, NULL, NULL, NULL},
};

// These go without --target.
static const struct option_row agent_rows[] = {
    {"agent", BT_CLI_TEXT, &o.agent, NULL, "unix:b.sock", NULL, NULL, NULL, NULL},
    {"agent-token-file", BT_CLI_TEXT, &o.agent_token_file, NULL, "token", NULL, NULL, NULL, "--agent=127.0.0.1:1"},
    {"agent-once", BT_CLI_FLAG, &o.agent_once, NULL, NULL, NULL, NULL, NULL, NULL},
    {"agent-lease", BT_CLI_U32, &o.agent_lease_s, "30", "1", "3600", "0", "3601", NULL},
    {"agent-wait", BT_CLI_U32, &o.agent_wait_s, "0", "0", "86400", NULL, "86401", NULL},
};

static void every_option_is_taken_up_to_its_bounds(void **state)
{
    struct option_row network[OPTIONS_NETWORK];
    size_t n = options_network(&o.network, "--address=10.0.0.1 --driver=dpdk --dpdk-port=net_null0", network);
    (void)state;
    options_hold(&bed, rows, sizeof rows / sizeof rows[0]);
    options_hold(&bed, network, n);
    options_hold(&agent, agent_rows, sizeof agent_rows / sizeof agent_rows[0]);
    options_are(
        &bed, (sizeof rows + sizeof agent_rows) / sizeof rows[0] + OPTIONS_NETWORK + 1,
        "Where|DPDK port (--driver=dpdk)|Load|As an agent of lancet (docs/reference/lancet-agent.md)|Output|General|",
        "\nExit status: 0 finished, 1 failed or nothing was ever answered, 2 bad command line.\n");
}

static void what_does_not_go_together_is_named(void **state)
{
    static const struct option_refusal refusals[] = {
        {"--target=a,b:0,c", "--target: must be HOST:PORT,...; got \"b:0\""},
        {"--flow-control --legacy", "--flow-control: needs header extensions, which --legacy does without"},
        {"--priority=3", "--priority: must be 4..7, and is for unrestricted requests with extensions; got 3"},
        {"--priority=4 --legacy", "--priority: must be 4..7, and is for unrestricted requests with extensions; got 4"},
        {"--priority=5 --policy=sticky",
         "--priority: must be 4..7, and is for unrestricted requests with extensions; got 5"},
        {"--request-bytes=2001 --max-message=2000", "--request-bytes: must be at most 2000 (--max-message); got 2001"},
        {"--port-base=61441", "--port-base: must leave room for 4096 ports; got 61441"},
        {"--address=localhost", "--address: must be an IP address; got \"localhost\""},
        {"--dpdk-queues=2", "--dpdk-queues: needs --driver=dpdk"},
    };
    static const struct option_refusal nobody = {"", "--target: must be HOST:PORT,...; got \"\""};
    static const struct option_refusal agents[] = {
        {"--target=a", "--target: an agent is told its targets by the coordinator; leave it out"},
        {"--agent-token-file=t", "--agent-token-file: a Unix socket is guarded by its mode; leave it out"},
        {"--agent=127.0.0.1:1", "--agent-token-file: is needed for an agent that others can reach"},
        {"--cpus=x", "--cpus: must be numbers of CPUs, such as 2,3 or 4-7; got \"x\""},
    };
    (void)state;
    options_refused(&bed, refusals, sizeof refusals / sizeof refusals[0]);
    options_refused(&bare, &nobody, 1);
    options_refused(&agent, agents, sizeof agents / sizeof agents[0]);
    options_taken(&bed, "--legacy --policy=sticky");
    options_taken(&bed, "--request-bytes=2000 --max-message=2000");
    assert_true(o.seed != 0); // taken at random
    cpu_set_t allowed;
    char cpu[20];
    unsigned first = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(first, &allowed)) {
        first++;
    }
    snprintf(cpu, sizeof cpu, "--cpus=%u", first);
    options_taken(&bed, cpu); // it has one thread
    options_taken(&agent, cpu);
    options_taken(&bed, "--seed=9");
    assert_int_equal(o.seed, 9);
}

static void what_is_no_target_is_told_alone(void **state)
{
    static const char *const good[] = {"a", "a:1", "[::1]", "[::1]:65535", "a,b,c", "router.ns.svc:8000"};
    static const struct {
        const char *target, *bad;
    } wrong[] = {{"", ""},
                 {"a,", ""},
                 {"a,,b", ""},
                 {"a:", "a:"},
                 {"a:0", "a:0"},
                 {"a:65536", "a:65536"},
                 {"a:100000", "a:100000"},
                 {"a:8o", "a:8o"},
                 {"[::1", "[::1"},
                 {"[::1]8", "[::1]8"},
                 {"[]:1", "[]:1"},
                 {":1,a", ":1"},
                 {"a:-1", "a:-1"}};
    char bad[40], host[300];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(load_target_check(good[i], bad, sizeof bad));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(load_target_check(wrong[i].target, bad, sizeof bad));
        assert_string_equal(bad, wrong[i].bad);
    }
    memset(host, 'a', sizeof host);
    host[255] = '\0';
    assert_true(load_target_check(host, bad, sizeof bad));
    host[255] = 'a';
    host[256] = '\0';
    assert_false(load_target_check(host, bad, sizeof bad));
}

static void targets_become_a_sorted_list_without_doubles(void **state)
{
    struct load_options opt = {.target = "127.0.0.9:5,127.0.0.3,127.0.0.9:4,127.0.0.3:8000,[::1]:7"};
    struct load_list list = {.n = 0};
    char why[256], text[BT_ADDR_TEXT];
    (void)state;
    assert_true(load_resolve(&opt, false, &list, why, sizeof why));
    assert_int_equal(list.n, 3);
    assert_string_equal(bt_addr_format(&list.addr[0], text), "127.0.0.3:8000");
    assert_string_equal(bt_addr_format(&list.addr[1], text), "127.0.0.9:4");
    assert_string_equal(bt_addr_format(&list.addr[2], text), "127.0.0.9:5");
    assert_true(load_resolve(&opt, true, &list, why, sizeof why));
    assert_int_equal(list.n, 1); // the others are of the other family
    assert_string_equal(bt_addr_format(&list.addr[0], text), "[::1]:7");
    opt.target = "127.0.0.1";
    assert_false(load_resolve(&opt, true, &list, why, sizeof why));
    assert_int_equal(strncmp(why, "127.0.0.1: ", 11), 0);
    assert_int_equal(list.n, 1); // and the last list stays
}

static void a_list_of_routers_has_room_for_64(void **state)
{
    char target[LOAD_ROUTERS_MAX * 16 + 32] = "127.0.1.1";
    struct load_options opt = {.target = target};
    struct load_list list = {.n = 0};
    char why[256];
    (void)state;
    for (unsigned i = 1; i <= LOAD_ROUTERS_MAX; i++) {
        assert_true(load_resolve(&opt, false, &list, why, sizeof why));
        assert_int_equal(list.n, i);
        snprintf(target + strlen(target), 16, ",127.0.1.%u", i + 1);
    }
    assert_true(load_resolve(&opt, false, &list, why, sizeof why));
    assert_int_equal(list.n, LOAD_ROUTERS_MAX);
}

static void the_own_address_is_of_either_family(void **state)
{
    struct load_options opt = {.address = "::1"};
    struct bt_addr a;
    char text[BT_ADDR_TEXT];
    (void)state;
    assert_true(load_own_address(&opt, 77, &a));
    assert_string_equal(bt_addr_format(&a, text), "[::1]:77");
    opt.address = "10.0.0.1";
    assert_true(load_own_address(&opt, 0, &a));
    assert_int_equal(a.port, 0);
    opt.address = "10.0.0";
    assert_false(load_own_address(&opt, 0, &a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_taken_up_to_its_bounds),
        cmocka_unit_test(what_does_not_go_together_is_named),
        cmocka_unit_test(what_is_no_target_is_told_alone),
        cmocka_unit_test(targets_become_a_sorted_list_without_doubles),
        cmocka_unit_test(a_list_of_routers_has_room_for_64),
        cmocka_unit_test(the_own_address_is_of_either_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
