// SPDX-License-Identifier: Apache-2.0
// The command line of bobtail-crab-lb: every option at its bounds, and the addresses that come of it.
#include "options_bed.h"

#include "bobtail-crab-lb/lb_app.h"

static struct lb_options o;

static enum bt_cli_result read_options(int argc, char **argv)
{
    return lb_options_read(argc, argv, &o);
}

#define NEEDED "--config=lb.json --dpdk-port=net_null0"

static const struct options_bed bed = {"bobtail-crab-lb", "--address=10.0.0.2 " NEEDED, read_options};
static const struct options_bed bare = {"bobtail-crab-lb", "--dpdk-port=net_null0", read_options};

static const struct option_row rows[] = {
    {"address", BT_CLI_TEXT, &o.address, NULL, "10.1.2.3", "fd00::1", "fe80::1", "10.0.0.256", NULL},
    {"address6", BT_CLI_TEXT, &o.address6, NULL, "fd00::1/1", "fd00::1/128", "fd00::1", "10.0.0.1/8", NULL},
    {"gateway6", BT_CLI_TEXT, &o.gateway6, NULL, "fd00::2", "fe80::2", "10.0.0.1", "fd00::2/64",
     "--address6=fd00::1/64"},
    {"report-port", BT_CLI_U32, &o.report_port, "8470", "1", "65535", "0", "65536", NULL},
    {"config", BT_CLI_TEXT, &o.config, NULL, "c.json", NULL, NULL, NULL, NULL},
    {"key-dir", BT_CLI_TEXT, &o.key_dir, NULL, "keys", NULL, NULL, NULL, NULL},
    {"ctl", BT_CLI_TEXT, &o.ctl, "/run/bobtail/ctl.sock", "c.sock", "", NULL, NULL, NULL},
    {"log", BT_CLI_CHOICE, &o.log, "text", "text|json", NULL, NULL, NULL, NULL},
};

static void every_option_is_taken_up_to_its_bounds(void **state)
{
    struct option_row network[OPTIONS_NETWORK];
    size_t n = options_network(&o.network, NULL, network);
    (void)state;
    options_hold(&bed, rows, sizeof rows / sizeof rows[0]);
    options_hold(&bed, network, n);
    options_are(&bed, sizeof rows / sizeof rows[0] + OPTIONS_NETWORK + 1, "Network|DPDK port (--driver=dpdk)|General|",
                "\nExit status: 0 stopped by SIGTERM or SIGINT, 1 failed while running, 2 bad command line or "
                "configuration.\n");
}

static void what_cannot_be_meant_is_named(void **state)
{
    static const struct option_refusal refusals[] = {
        {"--address=", "--address: must be the IPv4 or IPv6 address of the DPDK port; got \"\""},
        {"--address=febf::1", "--address: must be the IPv4 or IPv6 address of the DPDK port; got \"febf::1\""},
        {"--address=fd00::2 --gateway6=fd00::1",
         "--gateway6: goes with an IPv4 --address; an IPv6 one has --dpdk-prefix and --dpdk-gateway"},
        {"--address=fd00::2 --address6=fd00::3/64 --gateway6=fd00::1",
         "--address6: goes with an IPv4 --address; an IPv6 one has --dpdk-prefix and --dpdk-gateway"},
        {"--gateway6=fd00::1", "--address6: must be an IPv6 address and its prefix length, as fd00::20/64; got \"\""},
        {"--address6=fd00::1/129",
         "--address6: must be an IPv6 address and its prefix length, as fd00::20/64; got \"fd00::1/129\""},
        {"--address6=fe80::1/64", "--address6: must be the address of a host, not link-local; got \"fe80::1/64\""},
        {"--address6=fd00::1/64 --gateway6=::ffff:10.0.0.1",
         "--gateway6: must be the IPv6 address of a host; got \"::ffff:10.0.0.1\""},
        {"--driver=udp", "--driver: must be dpdk: sockets do not see SYNs (on Linux interfaces the node agent's XDP "
                         "balancer does)"},
        {"--dpdk-port=", "--dpdk-port: is required with --driver=dpdk: such as net_memif0,role=client or 0000:05:00.0"},
    };
    static const struct option_refusal nothing[] = {
        {"", "--address: must be the IPv4 or IPv6 address of the DPDK port; got \"\""},
        {"--address=10.0.0.2", "--config: is required"},
    };
    (void)state;
    options_refused(&bed, refusals, sizeof refusals / sizeof refusals[0]);
    options_refused(&bare, nothing, 2);
    options_taken(&bed, "--address=fec0::1"); // no link-local one any more
}

static void own_addresses_have_the_report_port(void **state)
{
    char text[BT_ADDR_TEXT];
    (void)state;
    options_taken(&bed, "");
    assert_int_equal(o.n_own, 1);
    assert_string_equal(bt_addr_format(&o.own[0], text), "10.0.0.2:8470");
    options_taken(&bed, "--report-port=99 --address6=fd00::3/64 --gateway6=fd00::1");
    assert_int_equal(o.n_own, 2);
    assert_int_equal(o.bits6, 64);
    assert_int_equal(o.own[0].port, 99);
    assert_string_equal(bt_addr_format(&o.own[1], text), "[fd00::3]:99");
    assert_string_equal(bt_addr_format(&o.next6, text), "[fd00::1]:0");
    options_taken(&bed, "--address6=fd00::3/48");
    assert_string_equal(bt_addr_format(&o.next6, text), "[::]:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_taken_up_to_its_bounds),
        cmocka_unit_test(what_cannot_be_meant_is_named),
        cmocka_unit_test(own_addresses_have_the_report_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
