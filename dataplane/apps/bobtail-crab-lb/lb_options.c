// SPDX-License-Identifier: Apache-2.0
// The option table of bobtail-crab-lb.
#include "lb_app.h"

#include "link/link.h"

#include <stdio.h>
#include <string.h>

static const char epilogue[] =
    "The configuration is a JSON document of VIPs and servers; SIGHUP reads it again: servers may change, VIPs not.\n"
    "Exit status: 0 stopped by SIGTERM or SIGINT, 1 failed while running, 2 bad command line or configuration.";

enum { OPTION_COUNT = 9 + BT_NETWORK_ROWS };

static size_t make_table(struct lb_options *opt, struct bt_cli_option t[OPTION_COUNT])
{
    const struct bt_cli_option first[] = {
        {.kind = BT_CLI_HEADING, .help = "Network"},
        {"address", BT_CLI_TEXT, &opt->address, 0, 0, "IP", "own IP address, required; probes come from it"},
        {"address6", BT_CLI_TEXT, &opt->address6, 0, 0, "IP/BITS",
         "own IPv6 address, if --address is IPv4 and a VIP is not"},
        {"gateway6", BT_CLI_TEXT, &opt->gateway6, 0, 0, "IP", "next hop out of --address6's network"},
        {"report-port", BT_CLI_U32, &opt->report_port, 1, 65535, NULL, "UDP port for the reports of servers"},
    };
    const struct bt_cli_option rest[] = {
        {"config", BT_CLI_TEXT, &opt->config, 0, 0, "FILE", "configuration document, required"},
        {"key-dir", BT_CLI_TEXT, &opt->key_dir, 0, 0, "DIR",
         "folder with the keys of reports, `key` and `previous`; without it reports need none"},
        {"ctl", BT_CLI_TEXT, &opt->ctl, 0, 0, "PATH", "control socket; empty for none"},
        {"log", BT_CLI_CHOICE, &opt->log, 0, 0, "text|json", "form of the log lines on stderr"},
    };
    memcpy(t, first, sizeof first);
    size_t n = sizeof first / sizeof *first;
    n += bt_network_rows(&opt->network, t + n);
    memcpy(t + n, rest, sizeof rest);
    return n + sizeof rest / sizeof *rest;
}

// An address the port can have, or ask by: of a host, and not of one link, which says nothing elsewhere.
static bool is_own(const struct bt_addr *a)
{
    return !bt_addr_bad_source(a) && !(!bt_addr_is_v4(a) && a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80);
}

static bool read_address(const struct bt_cli *program, struct lb_options *opt)
{
    char text[80];
    const char *given = opt->address != NULL ? opt->address : "";
    snprintf(text, sizeof text, strchr(given, ':') != NULL ? "[%.60s]:%u" : "%.60s:%u", given, opt->report_port);
    if (bt_addr_parse(text, 0, &opt->own[0]) == 0 && is_own(&opt->own[0])) {
        opt->n_own = 1;
        return true;
    }
    bt_cli_error(program, "address", "must be the IPv4 or IPv6 address of the DPDK port; got \"%s\"", given);
    return false;
}

static bool read_gateway6(const struct bt_cli *program, struct lb_options *opt)
{
    char text[80];
    if (opt->gateway6 == NULL) {
        return true;
    }
    snprintf(text, sizeof text, "[%.60s]:1", opt->gateway6);
    if (bt_addr_parse(text, 0, &opt->next6) != 0 || bt_addr_is_v4(&opt->next6)) {
        bt_cli_error(program, "gateway6", "must be the IPv6 address of a host; got \"%s\"", opt->gateway6);
        return false;
    }
    opt->next6.port = 0;
    return true;
}

static bool read_address6(const struct bt_cli *program, struct lb_options *opt)
{
    struct bt_link_prefix six;
    const char *given = opt->address6 != NULL ? "address6" : "gateway6";
    if (opt->address6 == NULL && opt->gateway6 == NULL) {
        return true;
    }
    if (!bt_addr_is_v4(&opt->own[0])) {
        bt_cli_error(program, given, "goes with an IPv4 --address; an IPv6 one has --dpdk-prefix and --dpdk-gateway");
        return false;
    }
    if (opt->address6 == NULL || bt_link_prefix_parse(opt->address6, &six) != 0 || bt_addr_is_v4(&six.addr)) {
        bt_cli_error(program, "address6", "must be an IPv6 address and its prefix length, as fd00::20/64; got \"%s\"",
                     opt->address6 != NULL ? opt->address6 : "");
        return false;
    }
    bt_addr_set_port(&six.addr, (uint16_t)opt->report_port);
    if (!is_own(&six.addr)) {
        bt_cli_error(program, "address6", "must be the address of a host, not link-local; got \"%s\"", opt->address6);
        return false;
    }
    opt->own[1] = six.addr;
    opt->bits6 = six.bits;
    opt->n_own = 2;
    return read_gateway6(program, opt);
}

enum bt_cli_result lb_options_read(int argc, char **argv, struct lb_options *opt)
{
    *opt = (struct lb_options){.report_port = 8470, .ctl = BT_CTL_DEFAULT_SOCKET, .network = bt_network_defaults()};
    opt->network.driver = BT_NETWORK_DPDK;
    struct bt_cli_option table[OPTION_COUNT];
    const struct bt_cli program = {"bobtail-crab-lb", "Redirects TCP connections to servers: of each it sees the SYN.",
                                   epilogue, table, make_table(opt, table)};
    enum bt_cli_result result = bt_cli_parse(&program, argc, argv);
    if (result != BT_CLI_RUN) {
        return result;
    }
    if (!read_address(&program, opt) || !read_address6(&program, opt)) {
        return BT_CLI_EXIT_USAGE;
    }
    if (opt->config == NULL) {
        bt_cli_error(&program, "config", "is required");
        return BT_CLI_EXIT_USAGE;
    }
    if (opt->network.driver != BT_NETWORK_DPDK) {
        bt_cli_error(&program, "driver",
                     "must be dpdk: sockets do not see SYNs (on Linux interfaces the node agent's XDP "
                     "balancer does)");
        return BT_CLI_EXIT_USAGE;
    }
    return bt_network_check(&program, &opt->network, &opt->own[0], 1) ? BT_CLI_RUN : BT_CLI_EXIT_USAGE;
}
