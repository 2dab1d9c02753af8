// SPDX-License-Identifier: Apache-2.0
// The command line of bobtail-router: every option at its bounds, what goes with what, and what comes of it.
#include "options_bed.h"

#include "bobtail-router/router_app.h"

#include <string.h>

static struct router_options o;
static struct bt_addr local[2];

static enum bt_cli_result read_options(int argc, char **argv)
{
    memset(local, 0, sizeof local);
    return router_options_read(argc, argv, &o, local);
}

static const struct options_bed bed = {"bobtail-router", "--address=127.0.0.1", read_options};
static const struct options_bed bare = {"bobtail-router", "", read_options};

static const struct option_row rows[] = {
    {"address", BT_CLI_TEXT_AT, &o.address, NULL, "10.1.2.3", "fd00::1", "localhost", "0.0.0.0", NULL},
    {"request-port", BT_CLI_U32, &o.request_port, "8000", "1", "65535", "0", "65536", NULL},
    {"feedback-port", BT_CLI_U32, &o.feedback_port, "9000", "1", "65535", "0", "65536", NULL},
    {"mtu", BT_CLI_AUTO_U32, &o.mtu, "auto", "576", "1500", "575", "1501", NULL},
    {"threads", BT_CLI_U32, &o.threads, "1", "1", "2", "0", "3", NULL},
    {"fast-path", BT_CLI_CHOICE, &o.fast_path, "off", "off|auto|require", NULL, NULL, NULL, NULL},
    {"config", BT_CLI_TEXT, &o.config, NULL, "c.json", NULL, NULL, NULL, NULL},
    {"config-cache", BT_CLI_TEXT, &o.config_cache, NULL, "cache", NULL, NULL, NULL, NULL},
    {"key-dir", BT_CLI_TEXT, &o.key_dir, NULL, "keys", NULL, NULL, NULL, NULL},
    {"ctl", BT_CLI_TEXT, &o.ctl, "/run/bobtail/ctl.sock", "c.sock", "", NULL, NULL, NULL},
    {"alive", BT_CLI_TEXT, &o.alive, NULL, "other.sock", NULL, NULL, NULL, NULL},
    {"drain-seconds", BT_CLI_U32, &o.drain_seconds, "20", "0", "3600", NULL, "3601", NULL},
    {"drain-quiet", BT_CLI_DURATION, &o.drain_quiet_ns, "2s", "0", "1m", NULL, "60000000001ns", NULL},
    {"log", BT_CLI_CHOICE, &o.log, "text", "text|json", NULL, NULL, NULL, NULL},
};

static void every_option_is_taken_up_to_its_bounds(void **state)
{
    struct option_row network[OPTIONS_NETWORK];
    size_t n = options_network(&o.network, "--driver=dpdk --dpdk-port=net_null0", network);
    (void)state;
    options_hold(&bed, rows, sizeof rows / sizeof rows[0]);
    options_hold(&bed, network, n);
    options_are(&bed, sizeof rows / sizeof rows[0] + OPTIONS_NETWORK + 1,
                "Network|DPDK port (--driver=dpdk)|Configuration|Life|General|",
                "\nExit status: 0 stopped by SIGTERM or SIGINT, 1 failed while running, 2 bad command line.\n");
}

static void what_cannot_be_meant_is_named(void **state)
{
    static const struct option_refusal refusals[] = {
        {"--feedback-port=8000", "--feedback-port: must differ from --request-port"},
        {"--request-port=9000", "--feedback-port: must differ from --request-port"},
        {"--address=::", "--address: must be the IP address this router is reached at; got \"::\""},
        {"--address=1.2.3.4:5", "--address: must be the IP address this router is reached at; got \"1.2.3.4:5\""},
        {"--dpdk-port=net_null0", "--dpdk-port: needs --driver=dpdk"},
    };
    static const struct option_refusal none = {"",
                                               "--address: must be the IP address this router is reached at; got \"\""};
    (void)state;
    options_refused(&bed, refusals, sizeof refusals / sizeof refusals[0]);
    options_refused(&bare, &none, 1);
    options_taken(&bare, "--alive=x.sock"); // only asks, and is nobody itself
}

static void both_ports_are_of_the_address(void **state)
{
    (void)state;
    options_taken(&bed, "--address=fd00::7 --request-port=8001 --feedback-port=8002");
    assert_int_equal(local[0].port, 8001);
    assert_int_equal(local[1].port, 8002);
    assert_false(bt_addr_is_v4(&local[0]));
    assert_memory_equal(local[0].ip, local[1].ip, 16);
    assert_int_equal(local[1].ip[15], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_taken_up_to_its_bounds),
        cmocka_unit_test(what_cannot_be_meant_is_named),
        cmocka_unit_test(both_ports_are_of_the_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
