// SPDX-License-Identifier: Apache-2.0
// The option table of bobtail-crab-lb.
#include "lb_app.h"

#include <stdio.h>
#include <string.h>

static const char epilogue[] =
    "The configuration is a JSON document of VIPs and servers; SIGHUP reads it again: servers may change, VIPs not.\n"
    "Exit status: 0 stopped by SIGTERM or SIGINT, 1 failed while running, 2 bad command line or configuration.";

enum { OPTION_COUNT = 6 + BT_NETWORK_ROWS };

static size_t make_table(struct lb_options *opt, struct bt_cli_option t[OPTION_COUNT])
{
    const struct bt_cli_option first[] = {
        {.kind = BT_CLI_HEADING, .help = "Network"},
        {"address", BT_CLI_TEXT, &opt->address, 0, 0, "IP", "own IPv4 address, required; probes come from it"},
        {"report-port", BT_CLI_U32, &opt->report_port, 1, 65535, NULL, "UDP port for the reports of servers"},
    };
    const struct bt_cli_option rest[] = {
        {"config", BT_CLI_TEXT, &opt->config, 0, 0, "FILE", "configuration document, required"},
        {"ctl", BT_CLI_TEXT, &opt->ctl, 0, 0, "PATH", "control socket; empty for none"},
        {"log", BT_CLI_CHOICE, &opt->log, 0, 0, "text|json", "form of the log lines on stderr"},
    };
    memcpy(t, first, sizeof first);
    size_t n = sizeof first / sizeof *first;
    n += bt_network_rows(&opt->network, t + n);
    memcpy(t + n, rest, sizeof rest);
    return n + sizeof rest / sizeof *rest;
}

enum bt_cli_result lb_options_read(int argc, char **argv, struct lb_options *opt, struct bt_addr *local)
{
    char text[80];
    *opt = (struct lb_options){.report_port = 8470, .ctl = BT_CTL_DEFAULT_SOCKET, .network = bt_network_defaults()};
    opt->network.driver = BT_NETWORK_DPDK;
    struct bt_cli_option table[OPTION_COUNT];
    const struct bt_cli program = {"bobtail-crab-lb", "Redirects TCP connections to servers: of each it sees the SYN.",
                                   epilogue, table, make_table(opt, table)};
    enum bt_cli_result result = bt_cli_parse(&program, argc, argv);
    if (result != BT_CLI_RUN)
        return result;
    snprintf(text, sizeof text, "%.60s:%u", opt->address != NULL ? opt->address : "", opt->report_port);
    if (strchr(opt->address != NULL ? opt->address : ":", ':') != NULL || bt_addr_parse(text, 0, local) != 0 ||
        bt_addr_bad_source(local)) {
        bt_cli_error(&program, "address", "must be the IPv4 address of the DPDK port; got \"%s\"",
                     opt->address != NULL ? opt->address : "");
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
    return bt_network_check(&program, &opt->network, local) ? BT_CLI_RUN : BT_CLI_EXIT_USAGE;
}
