// SPDX-License-Identifier: Apache-2.0
// The option table of bobtail-serve.
#include "serve_app.h"

#include "io/mtu.h"
#include "run/told.h"
#include "shell/start.h"
#include "tcp.h"
#include "tcp/lwip/sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char epilogue[] =
    "Worker i listens on UDP port PORT+i. Service times: " SERVICE_TIME_FORMS ".\n"
    "Routers come from --routers, from a configuration document, or from a sidecar over the control socket.\n"
    "Exit status: 0 stopped by SIGTERM or SIGINT, 1 failed while running, 2 bad command line.";

#define OPTION_COUNT 55

// Fills in the table; returns the number of rows.
static size_t make_table(struct serve_options *o, struct bt_cli_option t[OPTION_COUNT])
{
    const struct bt_cli_option network[] = {
        {.kind = BT_CLI_HEADING, .help = "Network"},
        {"address", BT_CLI_TEXT_AT, &o->address, 0, 0, "IP", "own address, required; routers and clients see it"},
        {"port", BT_CLI_U32, &o->port, 1, 65535, NULL, "UDP port of the first worker"},
        {"workers", BT_CLI_U32, &o->workers, 1, SERVE_WORKERS_MAX, NULL, "workers, one port each"},
        {"mtu", BT_CLI_AUTO_U32, &o->mtu, BT_MTU_MIN, BT_MTU_MAX, "auto|BYTES",
         "IP MTU, everywhere the same; auto reads it"},
    };
    const struct bt_cli_option rest[] = {
        {.kind = BT_CLI_HEADING, .help = "Work"},
        {"service-time", BT_CLI_TEXT, &o->service_time, 0, 0, "DIST", "how long a request takes"},
        {"degraded-service-time", BT_CLI_TEXT, &o->degraded_service_time, 0, 0, "DIST", "if marked degraded"},
        {"occupy", BT_CLI_CHOICE, &o->occupy, 0, 0, "sleep|spin", "how a worker spends that time"},
        {"reply-bytes", BT_CLI_TEXT, &o->reply_bytes, 0, 0, "N|echo", "size of a reply; echo sends the request back"},
        {"max-message", BT_CLI_U32, &o->max_message, 1464, 16777216, NULL, "largest request or reply in bytes"},
        {"seed", BT_CLI_U64, &o->seed, 0, 0, NULL, "seed of the drawn times; 0 takes a random one"},
        {.kind = BT_CLI_HEADING, .help = "Threads"},
        {"mode", BT_CLI_CHOICE, &o->mode, 0, 0, "loop|run-to-completion|work-stealing",
         "who takes and answers requests: one loop for all workers, or --threads themselves"},
        {"threads", BT_CLI_U32, &o->threads, 1, BT_RUN_THREADS_MAX, NULL,
         "threads of such a mode; a port each, or with work-stealing one for 16"},
        {"min-threads", BT_CLI_U32, &o->min_threads, 1, BT_RUN_THREADS_MAX, NULL,
         "with work-stealing so many run at least, the others as the load wants; not given, all do"},
        {"delay-bound", BT_CLI_DURATION, &o->delay_bound_ns, 1000, 10e9, NULL,
         "one more of them runs when requests wait longer"},
        {"protocol", BT_CLI_CHOICE, &o->protocol, 0, 0, "r2p2|resp|http|memcached|u32", "R2P2, or these over TCP"},
        {"connections", BT_CLI_U32, &o->connections, 1, 65536, NULL, "over TCP, of each thread"},
        {"batch", BT_CLI_U32, &o->batch, 1, BT_SCHED_BATCH_MAX, NULL, "packets that such a thread takes at once"},
        {"spin", BT_CLI_DURATION, &o->spin_ns, 0, 1e9, NULL, "how long such a thread looks for work before it sleeps"},
        {.kind = BT_CLI_HEADING, .help = "Flow control"},
        {"wait", BT_CLI_DURATION, &o->wait_ns, 1000, 10e9, NULL,
         "clients that ask are told how much they may send, so that requests wait no longer"},
        {"wait-percentile", BT_CLI_DOUBLE, &o->wait_percentile, 0.5, 0.9999, NULL, "of so many of them"},
        {"wait-model", BT_CLI_CHOICE, &o->wait_model, 0, 0, "refined|paper", "how the load is found that allows that"},
        {.kind = BT_CLI_HEADING, .help = "Routers and configuration"},
        {"routers", BT_CLI_TEXT, &o->routers, 0, 0, "IP:PORT,...", "routers to join without a control plane"},
        {"feedback-port", BT_CLI_U32, &o->feedback_port, 1, 65535, NULL, "FEEDBACK port of --routers"},
        {"legacy-routers", BT_CLI_FLAG, &o->legacy_routers, 0, 0, NULL, "--routers take only the 16-byte FEEDBACK"},
        {"queue-depth", BT_CLI_U32, &o->queue_depth, 1, 64, NULL, "n: requests a worker accepts at once"},
        {"device", BT_CLI_CHOICE, &o->device, 0, 0, "kernel|afxdp|sriov", "timer profile"},
        {"config", BT_CLI_TEXT, &o->config, 0, 0, "FILE", "configuration document to start with"},
        {"config-cache", BT_CLI_TEXT, &o->config_cache, 0, 0, "FILE", "keep the last good configuration here"},
        {"key-dir", BT_CLI_TEXT, &o->key_dir, 0, 0, "DIR", "folder of key files, each named by its key id"},
        {"ctl", BT_CLI_TEXT, &o->ctl, 0, 0, "PATH", "control socket; empty for none"},
        {.kind = BT_CLI_HEADING, .help = "Life"},
        {"drain-seconds", BT_CLI_U32, &o->drain_seconds, 0, 3600, NULL, "longest drain after SIGTERM"},
        {"drain-quiet", BT_CLI_DURATION, &o->drain_quiet_ns, 0, 60e9, NULL, "drained when idle for so long"},
        {"execution-log", BT_CLI_TEXT, &o->execution_log, 0, 0, "FILE", "append one line per executed request here"},
        {"log", BT_CLI_CHOICE, &o->log, 0, 0, "text|json", "form of the log lines on stderr"},
    };
    const size_t n = sizeof network / sizeof network[0];
    _Static_assert(sizeof network / sizeof network[0] + BT_NETWORK_ROWS + sizeof rest / sizeof rest[0] <= OPTION_COUNT,
                   "the table must fit");
    memcpy(t, network, sizeof network);
    (void)bt_network_rows(&o->network, t + n);
    memcpy(t + n + BT_NETWORK_ROWS, rest, sizeof rest);
    return n + BT_NETWORK_ROWS + sizeof rest / sizeof rest[0];
}

static bool read_address(const struct bt_cli *p, struct serve_options *o)
{
    char text[80];
    static const uint8_t nothing[4];
    const char *ip = o->address != NULL ? o->address : "";
    snprintf(text, sizeof text, strchr(ip, ':') != NULL ? "[%.60s]:%u" : "%.60s:%u", ip, (unsigned)o->port);
    if (bt_addr_parse(text, 0, &o->first) != 0 || bt_addr_bad_source(&o->first) ||
        (bt_addr_is_v4(&o->first) && memcmp(o->first.ip + 12, nothing, 4) == 0)) {
        bt_cli_error(p, "address", "must be the IP address this server is reached at; got \"%s\"", ip);
        return false;
    }
    if (o->port + o->workers > 65536) {
        bt_cli_error(p, "workers", "ports %u..%u pass 65535; lower --port or --workers", o->port,
                     o->port + o->workers - 1);
        return false;
    }
    return true;
}

// What there is no TCP for.
static bool check_tcp(const struct bt_cli *p, const struct serve_options *o)
{
    bool past = o->network.driver == BT_NETWORK_DPDK;
    if (o->mode == MODE_LOOP) {
        bt_cli_error(p, "protocol", "over TCP needs --mode=run-to-completion or work-stealing");
    } else if (o->min_threads != 0) {
        bt_cli_error(p, "min-threads", "needs --protocol=r2p2; connections stay with their thread");
    } else if (o->routers != NULL || o->execution_log != NULL) {
        bt_cli_error(p, o->routers != NULL ? "routers" : "execution-log", "needs --protocol=r2p2");
    } else if (past && !serve_has_stack) {
        bt_cli_error(p, "driver", "this program was built without TCP past the kernel (meson -Dlwip=enabled)");
    } else if (past && (o->connections > BT_TCP_CONNECTIONS || o->threads > BT_NETWORK_THREADS)) {
        bt_cli_error(p, o->connections > BT_TCP_CONNECTIONS ? "connections" : "threads",
                     "with --driver=dpdk at most %u connections a thread and %u threads", BT_TCP_CONNECTIONS,
                     BT_NETWORK_THREADS);
    } else if (!past && o->wait_ns != 0) {
        bt_cli_error(p, "wait", "needs --driver=dpdk or --protocol=r2p2: the kernel writes its own windows");
    } else {
        return true;
    }
    return false;
}

// What the loop has not.
static bool check_loop(const struct bt_cli *p, const struct serve_options *o)
{
    const char *given = o->threads != 0 ? "threads" : o->batch != 0 ? "batch" : "min-threads";
    if (o->threads == 0 && o->batch == 0 && o->min_threads == 0) {
        return true;
    }
    bt_cli_error(p, given, "needs --mode=run-to-completion or work-stealing");
    return false;
}

// What only the loop has, and what only the scheduled modes have: an option without effect is a mistake to hear of.
static bool check_mode(const struct bt_cli *p, struct serve_options *o)
{
    bool tcp = o->protocol != SERVE_R2P2;
    if (tcp && !check_tcp(p, o)) {
        return false;
    }
    if (o->mode == MODE_LOOP) {
        return check_loop(p, o);
    }
    if (o->min_threads != 0 && (o->mode != MODE_WORK_STEALING || o->min_threads > (o->threads != 0 ? o->threads : 1))) {
        bt_cli_error(p, "min-threads", "needs --mode=work-stealing, and must be at most --threads");
        return false;
    }
    if (o->workers != 1) {
        bt_cli_error(p, "workers", "is of --mode=loop; with this mode the ports follow --threads");
        return false;
    }
    if (o->network.driver == BT_NETWORK_DPDK && !tcp) {
        bt_cli_error(p, "driver", "must be udp with this --mode, unless --protocol is one over TCP");
        return false;
    }
    o->threads = o->threads != 0 ? o->threads : 1;
    o->batch = o->batch != 0 ? o->batch : BT_IO_BATCH;
    o->workers = tcp ? 0 : bt_run_ports(serve_sched_mode(o), o->threads);
    o->occupy = OCCUPY_SPIN; // a thread that slept would hold its core for nothing
    return true;
}

// What the operator says to a server that knows of it, beside the options that every server takes: the mode, for
// --workers ports. It is no option, since a server that does not know it would end.
static bool take_environment(const struct bt_cli *p, struct serve_options *o)
{
    const char *mode = getenv("BOBTAIL_SCHEDULING");
    if (mode == NULL || mode[0] == '\0' || o->mode != MODE_LOOP) {
        return true; // options come first
    }
    const char *const *words = bt_scheduling_mode_words;
    enum bt_sched_mode sched;
    if (!bt_told_mode(mode, &sched)) {
        fprintf(stderr, "bobtail-serve: BOBTAIL_SCHEDULING: must be %s or %s; got \"%s\"\n", words[0], words[1], mode);
        return false;
    }
    o->mode = sched == BT_SCHED_WORK_STEALING ? MODE_WORK_STEALING : MODE_RUN_TO_COMPLETION;
    o->threads = o->threads != 0 ? o->threads : bt_told_threads(sched, o->workers);
    if (bt_run_ports(sched, o->threads) != o->workers) {
        bt_cli_error(p, "workers", "must be 1..%u with BOBTAIL_SCHEDULING=%s; got %u",
                     bt_run_ports(sched, BT_RUN_THREADS_MAX), mode, o->workers);
        return false;
    }
    o->workers = 1;
    o->told = true;
    return true;
}

static bool read_routers(const struct bt_cli *p, struct serve_options *o)
{
    const char *at = o->routers;
    while (at != NULL && *at != '\0') {
        char text[64];
        size_t n = strcspn(at, ",");
        struct bt_server_router *r = &o->static_routers[o->n_static_routers];
        if (o->n_static_routers == BT_SERVER_ROUTERS) {
            bt_cli_error(p, "routers", "must name at most %d routers", BT_SERVER_ROUTERS);
            return false;
        }
        snprintf(text, sizeof text, "%.*s", n < sizeof text ? (int)n : 0, at);
        if (bt_addr_parse(text, 8000, &r->request) != 0 || bt_addr_bad_source(&r->request)) {
            bt_cli_error(p, "routers", "must be IP:PORT,...; got \"%.*s\"", (int)n, at);
            return false;
        }
        r->feedback = r->request;
        r->feedback.port = (uint16_t)o->feedback_port;
        r->legacy = o->legacy_routers;
        o->n_static_routers++;
        at += n + (at[n] == ',');
    }
    return true;
}

static bool read_reply_bytes(const struct bt_cli *p, struct serve_options *o)
{
    char *end;
    if (strcmp(o->reply_bytes, "echo") == 0) {
        o->reply_size = SERVE_ECHO;
        return true;
    }
    unsigned long v = strtoul(o->reply_bytes, &end, 10);
    if (o->reply_bytes[0] < '0' || o->reply_bytes[0] > '9' || *end != '\0' || v > o->max_message) {
        bt_cli_error(p, "reply-bytes", "must be echo or 0..%u (--max-message); got \"%s\"", o->max_message,
                     o->reply_bytes);
        return false;
    }
    o->reply_size = (uint32_t)v;
    return true;
}

// Threads that can be pinned.
static unsigned pinned(const struct serve_options *o)
{
    return o->mode != MODE_LOOP ? o->threads : 1 + (o->occupy == OCCUPY_SPIN ? o->workers : 0);
}

enum bt_cli_result serve_options_read(int argc, char **argv, struct serve_options *o)
{
    struct bt_cli_option table[OPTION_COUNT];
    *o = (struct serve_options){.port = 8000,
                                .workers = 1,
                                .service_time = "fixed:0",
                                .reply_bytes = "echo",
                                .ctl = BT_CTL_DEFAULT_SOCKET,
                                .spin_ns = 5000,
                                .delay_bound_ns = 200000,
                                .connections = 1024,
                                .wait_percentile = 0.99,
                                .feedback_port = 9000,
                                .network = bt_network_defaults(),
                                .queue_depth = 3,
                                .max_message = 1048576,
                                .drain_seconds = 20,
                                .drain_quiet_ns = UINT64_C(500000000)};
    const struct bt_cli program = {"bobtail-serve", "A synthetic R2P2 server: spends a drawn time on every request.",
                                   epilogue, table, make_table(o, table)};
    enum bt_cli_result result = bt_cli_parse(&program, argc, argv);
    if (result != BT_CLI_RUN) {
        return result;
    }
    if (!service_time_parse(o->service_time, &o->service)) {
        bt_cli_error(&program, "service-time", "must be " SERVICE_TIME_FORMS "; got \"%s\"", o->service_time);
        return BT_CLI_EXIT_USAGE;
    }
    const char *degraded = o->degraded_service_time != NULL ? o->degraded_service_time : o->service_time;
    if (!service_time_parse(degraded, &o->degraded)) {
        bt_cli_error(&program, "degraded-service-time", "must be " SERVICE_TIME_FORMS "; got \"%s\"", degraded);
        return BT_CLI_EXIT_USAGE;
    }
    if (!take_environment(&program, o) || !check_mode(&program, o) || !read_address(&program, o) ||
        !read_routers(&program, o) || !read_reply_bytes(&program, o) ||
        !bt_network_check(&program, &o->network, &o->first, pinned(o))) {
        return BT_CLI_EXIT_USAGE;
    }
    if (o->seed == 0) {
        o->seed = bt_new_seed();
    }
    return BT_CLI_RUN;
}
