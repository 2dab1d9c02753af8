// SPDX-License-Identifier: Apache-2.0
// The option table of bobtail-router.
#include "router_app.h"

#include "io/mtu.h"

#include <stdio.h>
#include <string.h>

static const char epilogue[] =
    "With --config alone the router runs statically, without Kubernetes. A sidecar replaces the\n"
    "configuration over the control socket; the last one it sent survives restarts in --config-cache.\n"
    "Exit status: 0 stopped by SIGTERM or SIGINT, 1 failed while running, 2 bad command line.";

// The default address of a port option: ADDRESS:PORT, IPv6 in brackets added here.
static bool make_address(const char *ip, uint32_t port, struct bt_addr *out)
{
    char text[80];
    static const uint8_t nothing[4];
    snprintf(text, sizeof text, strchr(ip, ':') != NULL ? "[%.60s]:%u" : "%.60s:%u", ip, (unsigned)port);
    return bt_addr_parse(text, 0, out) == 0 && !bt_addr_bad_source(out) &&
           !(bt_addr_is_v4(out) && memcmp(out->ip + 12, nothing, 4) == 0);
}

#define OPTION_COUNT 38

// Fills in the table; returns the number of rows.
static size_t make_table(struct router_options *opt, struct bt_cli_option t[OPTION_COUNT])
{
    const struct bt_cli_option network[] = {
        {.kind = BT_CLI_HEADING, .help = "Network"},
        {"address", BT_CLI_TEXT_AT, &opt->address, 0, 0, "IP", "own address, required; clients and servers see it"},
        {"request-port", BT_CLI_U32, &opt->request_port, 1, 65535, NULL, "UDP port for requests"},
        {"feedback-port", BT_CLI_U32, &opt->feedback_port, 1, 65535, NULL, "UDP port for FEEDBACK"},
        {"mtu", BT_CLI_AUTO_U32, &opt->mtu, BT_MTU_MIN, BT_MTU_MAX, "auto|BYTES",
         "IP MTU, the same on all nodes; auto reads it"},
    };
    const struct bt_cli_option rest[] = {
        {"threads", BT_CLI_U32, &opt->threads, 1, 2, NULL, "2: FEEDBACK has a thread of its own"},
        {"fast-path", BT_CLI_CHOICE, &opt->fast_path, 0, 0, "off|auto|require",
         "the kernel takes the plainest packets; auto: if it can"},
        {.kind = BT_CLI_HEADING, .help = "Configuration"},
        {"config", BT_CLI_TEXT, &opt->config, 0, 0, "FILE", "configuration document to start with"},
        {"config-cache", BT_CLI_TEXT, &opt->config_cache, 0, 0, "FILE", "keep the last good configuration here"},
        {"key-dir", BT_CLI_TEXT, &opt->key_dir, 0, 0, "DIR", "folder of key files, each named by its key id"},
        {"ctl", BT_CLI_TEXT, &opt->ctl, 0, 0, "PATH", "control socket; empty for none"},
        {.kind = BT_CLI_HEADING, .help = "Life"},
        {"alive", BT_CLI_TEXT, &opt->alive, 0, 0, "PATH", "only ask the router behind this control socket if it runs"},
        {"drain-seconds", BT_CLI_U32, &opt->drain_seconds, 0, 3600, NULL, "longest drain after SIGTERM"},
        {"drain-quiet", BT_CLI_DURATION, &opt->drain_quiet_ns, 0, 60e9, NULL,
         "drained when no request came for so long"},
        {"log", BT_CLI_CHOICE, &opt->log, 0, 0, "text|json", "form of the log lines on stderr"},
    };
    _Static_assert(sizeof network / sizeof network[0] + BT_NETWORK_ROWS + sizeof rest / sizeof rest[0] <= OPTION_COUNT,
                   "the table must fit");
    memcpy(t, network, sizeof network);
    t += sizeof network / sizeof network[0];
    t += bt_network_rows(&opt->network, t);
    memcpy(t, rest, sizeof rest);
    return sizeof network / sizeof network[0] + BT_NETWORK_ROWS + sizeof rest / sizeof rest[0];
}

enum bt_cli_result router_options_read(int argc, char **argv, struct router_options *opt, struct bt_addr local[2])
{
    *opt = (struct router_options){.request_port = 8000,
                                   .feedback_port = 9000,
                                   .ctl = BT_CTL_DEFAULT_SOCKET,
                                   .network = bt_network_defaults(),
                                   .threads = 1,
                                   .drain_seconds = 20,
                                   .drain_quiet_ns = UINT64_C(2000000000)};
    struct bt_cli_option table[OPTION_COUNT];
    const struct bt_cli program = {"bobtail-router", "Balances R2P2 requests over the workers of one service.",
                                   epilogue, table, make_table(opt, table)};
    enum bt_cli_result result = bt_cli_parse(&program, argc, argv);
    if (result != BT_CLI_RUN || opt->alive != NULL) {
        return result;
    }
    if (opt->address == NULL || !make_address(opt->address, opt->request_port, &local[0])) {
        bt_cli_error(&program, "address", "must be the IP address this router is reached at; got \"%s\"",
                     opt->address != NULL ? opt->address : "");
        return BT_CLI_EXIT_USAGE;
    }
    if (opt->request_port == opt->feedback_port) {
        bt_cli_error(&program, "feedback-port", "must differ from --request-port");
        return BT_CLI_EXIT_USAGE;
    }
    local[1] = local[0];
    local[1].port = (uint16_t)opt->feedback_port;
    return bt_network_check(&program, &opt->network, &local[0], opt->threads) ? BT_CLI_RUN : BT_CLI_EXIT_USAGE;
}
