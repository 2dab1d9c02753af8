// SPDX-License-Identifier: Apache-2.0
// The option table of bobtail-load.
#include "load_app.h"

#include "io/mtu.h"
#include "shell/start.h"
#include "wire/r2p2.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char epilogue[] =
    "Every socket carries many requests at a time, stays on one router and moves to the next one after\n"
    "3 timeouts in a row or when the network says the router is unreachable. A name is resolved again\n"
    "every --resolve-interval; routers no longer listed are left. Requests go out at the times the arrival\n"
    "process says, whatever the service does; latency counts from those times.\n"
    "lost = offered - completed - dropped. Percentiles count unanswered requests as infinite.\n"
    "Exit status: 0 finished, 1 failed or nothing was ever answered, 2 bad command line.";

#define OPTION_COUNT 51

static size_t make_table(struct load_options *o, struct bt_cli_option t[OPTION_COUNT])
{
    const struct bt_cli_option where[] = {
        {.kind = BT_CLI_HEADING, .help = "Where"},
        {"target", BT_CLI_TEXT, &o->target, 0, 0, "HOST:PORT,...",
         "routers or servers, names or addresses; required without --agent"},
        {"resolve-interval", BT_CLI_DURATION, &o->resolve_interval_ns, 1e8, 3600e9, NULL, "resolve names this often"},
        {"resolve-patience", BT_CLI_DURATION, &o->resolve_patience_ns, 0, 3600e9, NULL, "keep trying so long at start"},
        {"connections", BT_CLI_U32, &o->connections, 1, LOAD_CONNECTIONS_MAX, "SOCKETS", "sockets to spread over"},
        {"address", BT_CLI_TEXT, &o->address, 0, 0, "IP", "own address; an IPv6 one, such as ::, for IPv6 targets"},
        {"port-base", BT_CLI_U32, &o->port_base, 1024, 65000, NULL, "own ports come from the 4096 ports from here on"},
        {"mtu", BT_CLI_AUTO_U32, &o->mtu, BT_MTU_MIN, BT_MTU_MAX, "auto|BYTES",
         "IP MTU, the same on all nodes; auto reads it"},
    };
    const struct bt_cli_option rest[] = {
        {.kind = BT_CLI_HEADING, .help = "Load"},
        {"rate", BT_CLI_DOUBLE, &o->rate, 0.01, 1e8, "RPS", "requests per second offered"},
        {"duration", BT_CLI_DURATION, &o->duration_ns, 1e8, 86400e9, NULL, "measured time"},
        {"warmup", BT_CLI_DURATION, &o->warmup_ns, 0, 3600e9, NULL, "load before that, not measured"},
        {"arrivals", BT_CLI_CHOICE, &o->arrivals, 0, 0, "poisson|fixed", "gaps between requests"},
        {"request-bytes", BT_CLI_U32, &o->request_bytes, 0, 16777216, NULL, "size of a request"},
        {"policy", BT_CLI_CHOICE, &o->policy, 0, 0, "unrestricted|sticky", "routing policy asked for"},
        {"priority", BT_CLI_U32, &o->priority, 0, 7, "4..7", "class asked for, refused after lower ones; 0: none"},
        {"timeout", BT_CLI_DURATION, &o->timeout_ns, 1e6, 600e9, NULL, "a request unanswered for so long is lost"},
        {"pending", BT_CLI_U32, &o->pending, 1, 60000, NULL, "requests in flight per socket at most"},
        {"max-message", BT_CLI_U32, &o->max_message, 1464, 16777216, NULL, "largest request or reply in bytes"},
        {"verify", BT_CLI_FLAG, &o->verify, 0, 0, NULL, "replies must equal their requests (echo servers)"},
        {"legacy", BT_CLI_FLAG, &o->legacy, 0, 0, NULL, "send no header extensions"},
        {"flow-control", BT_CLI_FLAG, &o->flow_control, 0, 0, NULL,
         "send only what servers say they can still serve in time; the rest is held back and counted"},
        {"seed", BT_CLI_U64, &o->seed, 0, 0, NULL, "seed of the arrivals; 0 takes a random one"},
        {.kind = BT_CLI_HEADING, .help = "As an agent of lancet (docs/reference/lancet-agent.md)"},
        {"agent", BT_CLI_TEXT, &o->agent, 0, 0, "unix:PATH|IP:PORT", "obey the coordinator that connects here"},
        {"agent-token-file", BT_CLI_TEXT, &o->agent_token_file, 0, 0, "FILE", "shared secret, needed for IP:PORT"},
        {"agent-once", BT_CLI_FLAG, &o->agent_once, 0, 0, NULL, "end with the first coordinator"},
        {"agent-lease", BT_CLI_U32, &o->agent_lease_s, 1, 3600, "SECONDS", "a coordinator silent for so long is dead"},
        {"agent-wait", BT_CLI_U32, &o->agent_wait_s, 0, 86400, "SECONDS",
         "end when no coordinator came for so long; 0 never"},
        {.kind = BT_CLI_HEADING, .help = "Output"},
        {"output", BT_CLI_CHOICE, &o->output, 0, 0, "table|json", "final report on stdout"},
        {"slice-output", BT_CLI_TEXT, &o->slice_output, 0, 0, "FILE", "one JSON line per second here"},
        {"outcome-log", BT_CLI_TEXT, &o->outcome_log, 0, 0, "FILE", "one line per request here, as it ends"},
        {"progress", BT_CLI_DURATION, &o->progress_ns, 0, 3600e9, NULL, "progress line on stderr this often, 0 never"},
        {"ctl", BT_CLI_TEXT, &o->ctl, 0, 0, "PATH", "control socket"},
        {"log", BT_CLI_CHOICE, &o->log, 0, 0, "text|json", "form of the log lines on stderr"},
    };
    const size_t n = sizeof where / sizeof where[0];
    _Static_assert(sizeof where / sizeof where[0] + BT_NETWORK_ROWS + sizeof rest / sizeof rest[0] <= OPTION_COUNT,
                   "the table must fit");
    memcpy(t, where, sizeof where);
    (void)bt_network_rows(&o->network, t + n);
    memcpy(t + n + BT_NETWORK_ROWS, rest, sizeof rest);
    return n + BT_NETWORK_ROWS + sizeof rest / sizeof rest[0];
}

bool load_own_address(const struct load_options *o, uint16_t port, struct bt_addr *out)
{
    char text[80];
    snprintf(text, sizeof text, strchr(o->address, ':') != NULL ? "[%.60s]:1" : "%.60s:1", o->address);
    if (bt_addr_parse(text, 0, out) != 0) {
        return false;
    }
    out->port = port;
    return true;
}

static bool check_agent(const struct bt_cli *p, struct load_options *o)
{
    bool local = strncmp(o->agent, "unix:", 5) == 0;
    if (o->target != NULL) {
        bt_cli_error(p, "target", "an agent is told its targets by the coordinator; leave it out");
        return false;
    }
    if (local != (o->agent_token_file == NULL)) {
        bt_cli_error(p, "agent-token-file",
                     local ? "a Unix socket is guarded by its mode; leave it out"
                           : "is needed for an agent that others can reach");
        return false;
    }
    return bt_cpus_read(p, o->network.cpu_list, 1, &o->network.cpus);
}

static bool check(const struct bt_cli *p, struct load_options *o)
{
    char bad[128];
    struct bt_addr own;
    if (o->agent != NULL) {
        return check_agent(p, o);
    }
    if (!load_own_address(o, 0, &own)) {
        bt_cli_error(p, "address", "must be an IP address; got \"%s\"", o->address);
        return false;
    }
    if (o->target == NULL || !load_target_check(o->target, bad, sizeof bad)) {
        bt_cli_error(p, "target", "must be HOST:PORT,...; got \"%s\"", o->target != NULL ? bad : "");
        return false;
    }
    if (o->flow_control && o->legacy) {
        bt_cli_error(p, "flow-control", "needs header extensions, which --legacy does without");
        return false;
    }
    if (o->priority != 0 && (o->priority < 4 || o->legacy || o->policy != BT_POLICY_UNRESTRICTED)) {
        bt_cli_error(p, "priority", "must be 4..7, and is for unrestricted requests with extensions; got %u",
                     o->priority);
        return false;
    }
    if (o->request_bytes > o->max_message) {
        bt_cli_error(p, "request-bytes", "must be at most %u (--max-message); got %u", o->max_message,
                     o->request_bytes);
        return false;
    }
    if (o->port_base + 4096 > 65536) {
        bt_cli_error(p, "port-base", "must leave room for 4096 ports; got %u", o->port_base);
        return false;
    }
    return bt_network_check(p, &o->network, &own, 1);
}

enum bt_cli_result load_options_read(int argc, char **argv, struct load_options *o)
{
    struct bt_cli_option table[OPTION_COUNT];
    *o = (struct load_options){
        .address = "0.0.0.0",
        .network = bt_network_defaults(),
        .rate = 1000,
        .duration_ns = UINT64_C(10000000000),
        .warmup_ns = UINT64_C(1000000000),
        .timeout_ns = UINT64_C(2000000000),
        .resolve_interval_ns = UINT64_C(2000000000),
        .resolve_patience_ns = UINT64_C(30000000000),
        .agent_lease_s = 30,
        .progress_ns = isatty(STDERR_FILENO) ? UINT64_C(1000000000) : 0,
        .request_bytes = 64,
        .connections = 1,
        .port_base = 20000,
        .pending = 16384,
        .max_message = 1048576,
    };
    const struct bt_cli program = {"bobtail-load",
                                   "Offers R2P2 requests at a given rate and measures what becomes of them.", epilogue,
                                   table, make_table(o, table)};
    enum bt_cli_result result = bt_cli_parse(&program, argc, argv);
    if (result != BT_CLI_RUN) {
        return result;
    }
    if (o->seed == 0) {
        o->seed = bt_new_seed();
    }
    return check(&program, o) ? BT_CLI_RUN : BT_CLI_EXIT_USAGE;
}
