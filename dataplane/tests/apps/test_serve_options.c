// SPDX-License-Identifier: Apache-2.0
// The command line of bobtail-serve: every option at its bounds, what goes with what, and what comes of it.
#include "options_bed.h"

#include "bobtail-serve/tcp.h"
#include "shell/network_dpdk.h"
#include "tcp/lwip/sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const bool serve_has_stack = true; // stack.c's, which is not asked for anything

#define COMPLETION "--mode=run-to-completion"
#define STEALING   "--mode=work-stealing"
#define HEADINGS   "Network|DPDK port (--driver=dpdk)|Work|Threads|Flow control|Routers and configuration|Life|General|"
#define DPDK       "--driver=dpdk --dpdk-port=net_null0"

static struct serve_options o;

static enum bt_cli_result read_options(int argc, char **argv)
{
    return serve_options_read(argc, argv, &o);
}

static const struct options_bed bed = {"bobtail-serve", "--address=127.0.0.1", read_options};
static const struct options_bed bed6 = {"bobtail-serve", "--address=fd00::1", read_options};

static const struct option_row rows[] = {
    {"address", BT_CLI_TEXT_AT, &o.address, NULL, "10.1.2.3", "fd00::1", "localhost", "0.0.0.0", NULL},
    {"port", BT_CLI_U32, &o.port, "8000", "1", "65535", "0", "65536", NULL},
    {"workers", BT_CLI_U32, &o.workers, "1", "1", "64", "0", "65", NULL},
    {"mtu", BT_CLI_AUTO_U32, &o.mtu, "auto", "576", "1500", "575", "1501", NULL},
    {"service-time", BT_CLI_TEXT, &o.service_time, "fixed:0", "exp:1ms", NULL, "exp", NULL, NULL},
    {"degraded-service-time", BT_CLI_TEXT, &o.degraded_service_time, NULL, "fixed:1us", NULL, "fixed", NULL, NULL},
    {"occupy", BT_CLI_CHOICE, &o.occupy, "sleep", "sleep|spin", NULL, NULL, NULL, NULL},
    {"reply-bytes", BT_CLI_TEXT, &o.reply_bytes, "echo", "0", "1048576", "-1", "1048577", NULL},
    {"max-message", BT_CLI_U32, &o.max_message, "1048576", "1464", "16777216", "1463", "16777217", NULL},
    {"seed", BT_CLI_U64, &o.seed, "0", "1", "18446744073709551615", "-1", "18446744073709551616", NULL},
    {"mode", BT_CLI_CHOICE, &o.mode, "loop", "loop|run-to-completion|work-stealing", NULL, NULL, NULL, NULL},
    {"threads", BT_CLI_U32, &o.threads, "0", "1", "64", "0", "65", COMPLETION},
    {"min-threads", BT_CLI_U32, &o.min_threads, "0", "1", "64", "0", "65", STEALING " --threads=64"},
    {"delay-bound", BT_CLI_DURATION, &o.delay_bound_ns, "200us", "1us", "10s", "999ns", "10000000001ns", NULL},
    {"protocol", BT_CLI_CHOICE, &o.protocol, "r2p2", "r2p2|resp|http|memcached|u32", NULL, NULL, NULL, COMPLETION},
    {"connections", BT_CLI_U32, &o.connections, "1024", "1", "65536", "0", "65537", NULL},
    {"batch", BT_CLI_U32, &o.batch, "0", "1", "1024", "0", "1025", COMPLETION},
    {"spin", BT_CLI_DURATION, &o.spin_ns, "5us", "0", "1s", NULL, "1000000001ns", NULL},
    {"wait", BT_CLI_DURATION, &o.wait_ns, "0", "1us", "10s", "999ns", "10000000001ns", NULL},
    {"wait-percentile", BT_CLI_DOUBLE, &o.wait_percentile, "0.99", "0.5", "0.9999", "0.49999", "0.99991", NULL},
    {"wait-model", BT_CLI_CHOICE, &o.wait_model, "refined", "refined|paper", NULL, NULL, NULL, NULL},
    {"routers", BT_CLI_TEXT, &o.routers, NULL, "1.2.3.4:1", "[fd00::1]:65535", "1.2.3.4:0", "router", NULL},
    {"feedback-port", BT_CLI_U32, &o.feedback_port, "9000", "1", "65535", "0", "65536", NULL},
    {"legacy-routers", BT_CLI_FLAG, &o.legacy_routers, NULL, NULL, NULL, NULL, NULL, NULL},
    {"queue-depth", BT_CLI_U32, &o.queue_depth, "3", "1", "64", "0", "65", NULL},
    {"device", BT_CLI_CHOICE, &o.device, "kernel", "kernel|afxdp|sriov", NULL, NULL, NULL, NULL},
    {"config", BT_CLI_TEXT, &o.config, NULL, "c.json", NULL, NULL, NULL, NULL},
    {"config-cache", BT_CLI_TEXT, &o.config_cache, NULL, "cache", NULL, NULL, NULL, NULL},
    {"key-dir", BT_CLI_TEXT, &o.key_dir, NULL, "keys", NULL, NULL, NULL, NULL},
    {"ctl", BT_CLI_TEXT, &o.ctl, "/run/bobtail/ctl.sock", "c.sock", "", NULL, NULL, NULL},
    {"drain-seconds", BT_CLI_U32, &o.drain_seconds, "20", "0", "3600", NULL, "3601", NULL},
    {"drain-quiet", BT_CLI_DURATION, &o.drain_quiet_ns, "500ms", "0", "1m", NULL, "60000000001ns", NULL},
    {"execution-log", BT_CLI_TEXT, &o.execution_log, NULL, "log", NULL, NULL, NULL, NULL},
    {"log", BT_CLI_CHOICE, &o.log, "text", "text|json", NULL, NULL, NULL, NULL},
};

static void every_option_is_taken_up_to_its_bounds(void **state)
{
    struct option_row network[OPTIONS_NETWORK];
    size_t n = options_network(&o.network, DPDK, network);
    (void)state;
    options_hold(&bed, rows, sizeof rows / sizeof rows[0]);
    options_hold(&bed, network, n);
    options_are(&bed, sizeof rows / sizeof rows[0] + OPTIONS_NETWORK + 1, HEADINGS,
                "Service times: " SERVICE_TIME_FORMS ".\n");
    options_are(&bed, sizeof rows / sizeof rows[0] + OPTIONS_NETWORK + 1, HEADINGS,
                "\nExit status: 0 stopped by SIGTERM or SIGINT, 1 failed while running, 2 bad command line.\n");
}

#define ROUTERS_16                                                                                                     \
    "1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,"                 \
    "1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4"
#define MODES "needs --mode=run-to-completion or work-stealing"

static void what_does_not_go_together_is_named(void **state)
{
    static const struct option_refusal refusals[] = {
        {"--port=65535 --workers=2", "--workers: ports 65535..65536 pass 65535; lower --port or --workers"},
        {"--threads=2 --batch=2", "--threads: " MODES},
        {"--batch=2 --min-threads=2", "--batch: " MODES},
        {"--min-threads=2", "--min-threads: " MODES},
        {COMPLETION " --min-threads=1", "--min-threads: needs --mode=work-stealing, and must be at most --threads"},
        {STEALING " --min-threads=2", "--min-threads: needs --mode=work-stealing, and must be at most --threads"},
        {STEALING " --threads=2 --min-threads=3",
         "--min-threads: needs --mode=work-stealing, and must be at most --threads"},
        {COMPLETION " --workers=2", "--workers: is of --mode=loop; with this mode the ports follow --threads"},
        {COMPLETION " " DPDK, "--driver: must be udp with this --mode, unless --protocol is one over TCP"},
        {"--routers=" ROUTERS_16 ",1.2.3.4", "--routers: must name at most 16 routers"},
        {"--routers=1.2.3.4,x,1.2.3.5", "--routers: must be IP:PORT,...; got \"x\""},
        {"--routers=224.0.0.1", "--routers: must be IP:PORT,...; got \"224.0.0.1\""},
        {"--routers=1.2.3.4,,1.2.3.5", "--routers: must be IP:PORT,...; got \"\""},
        {"--max-message=2000 --reply-bytes=2001",
         "--reply-bytes: must be echo or 0..2000 (--max-message); got \"2001\""},
        {"--reply-bytes=12x", "--reply-bytes: must be echo or 0..1048576 (--max-message); got \"12x\""},
        {"--service-time=1ms", "--service-time: must be " SERVICE_TIME_FORMS "; got \"1ms\""},
        {"--degraded-service-time=1ms", "--degraded-service-time: must be " SERVICE_TIME_FORMS "; got \"1ms\""},
        {"--address=::", "--address: must be the IP address this server is reached at; got \"::\""},
        {"--dpdk-buffers=4096", "--dpdk-buffers: needs --driver=dpdk"},
    };
    (void)state;
    options_refused(&bed, refusals, sizeof refusals / sizeof refusals[0]);
    options_taken(&bed, "--routers=" ROUTERS_16);
    options_taken(&bed, "--port=65472 --workers=64"); // the last is 65,535
    options_taken(&bed, STEALING " --threads=2 --min-threads=2");
    options_taken(&bed, STEALING " --min-threads=1");
}

static void tcp_has_its_own_needs(void **state)
{
    static const struct option_refusal refusals[] = {
        {"--protocol=http", "--protocol: over TCP " MODES},
        {"--protocol=http " STEALING " --min-threads=1",
         "--min-threads: needs --protocol=r2p2; connections stay with their thread"},
        {"--protocol=http " COMPLETION " --routers=1.2.3.4 --execution-log=x", "--routers: needs --protocol=r2p2"},
        {"--protocol=http " COMPLETION " --execution-log=x", "--execution-log: needs --protocol=r2p2"},
        {"--protocol=http " COMPLETION " --wait=1ms",
         "--wait: needs --driver=dpdk or --protocol=r2p2: the kernel writes its own windows"},
    };
    static const struct option_refusal past[] = {
        {"--protocol=http " COMPLETION " " DPDK " --connections=4097 --threads=17",
         "--connections: with --driver=dpdk at most 4096 connections a thread and 16 threads"},
        {"--protocol=http " COMPLETION " " DPDK " --threads=17",
         "--threads: with --driver=dpdk at most 4096 connections a thread and 16 threads"},
    };
    (void)state;
    options_refused(&bed, refusals, sizeof refusals / sizeof refusals[0]);
    options_taken(&bed, "--protocol=http " COMPLETION " --connections=4097 --threads=17"); // of the kernel
    assert_int_equal(o.workers, 0);                                                        // no UDP port
    if (bt_network_has_dpdk) {
        options_refused(&bed, past, sizeof past / sizeof past[0]);
        options_taken(&bed, "--protocol=http " COMPLETION " " DPDK " --connections=4096 --threads=16 --wait=1ms");
    }
}

static void sockets_have_no_use_for_the_options_of_a_port(void **state)
{
    static const char *const options[][2] = {
        {"dpdk-port", "net_null0"}, {"dpdk-pci-file", "f"},   {"dpdk-prefix", "16"},      {"dpdk-gateway", "10.0.0.1"},
        {"dpdk-queues", "2"},       {"dpdk-buffers", "4096"}, {"dpdk-checksums", "none"}, {"dpdk-hugepages", "off"},
        {"dpdk-memory", "64"},      {"dpdk-link-wait", "5s"}, {"dpdk-eal", "--no-huge"},
    };
    char given[60], why[80];
    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        snprintf(given, sizeof given, "--%s=%s", options[i][0], options[i][1]);
        snprintf(why, sizeof why, "--%s: needs --driver=dpdk", options[i][0]);
        options_refused(&bed, &(struct option_refusal){given, why}, 1);
    }
}

static void a_dpdk_port_has_its_own_needs(void **state)
{
    static const struct option_refusal refusals[] = {
        {"--driver=dpdk",
         "--dpdk-port: is required with --driver=dpdk: such as net_memif0,role=client or 0000:05:00.0"},
        {"--driver=dpdk --dpdk-port=",
         "--dpdk-port: is required with --driver=dpdk: such as net_memif0,role=client or 0000:05:00.0"},
        {DPDK " --dpdk-pci-file=f", "--dpdk-pci-file: needs --dpdk-port=env:VARIABLE or claim:NAME; got \"net_null0\""},
        {DPDK " --dpdk-gateway=fd00::2",
         "--dpdk-gateway: must be an IP address of the same family as --address; got \"fd00::2\""},
    };
    static const struct option_refusal six[] = {
        {DPDK " --dpdk-gateway=10.0.0.2",
         "--dpdk-gateway: must be an IP address of the same family as --address; got \"10.0.0.2\""},
        {DPDK " --dpdk-prefix=129", "--dpdk-prefix: must be auto or a whole number 1..128; got \"129\""},
    };
    (void)state;
    options_taken(&bed, "--idle=block");
    assert_int_equal(o.network.idle, BT_NETWORK_SLEEP);
    assert_int_equal(o.network.driver, BT_NETWORK_UDP);
    if (bt_network_has_dpdk) {
        options_refused(&bed, refusals, sizeof refusals / sizeof refusals[0]);
        options_refused(&bed6, six, sizeof six / sizeof six[0]);
        options_taken(&bed6, DPDK " --dpdk-prefix=128 --dpdk-gateway=fd00::2");
        assert_int_equal(o.network.driver, BT_NETWORK_DPDK);
        setenv("PCIDEVICE_T", "0000:01:10.0", 1);
        options_taken(&bed, "--driver=dpdk --dpdk-port=env:PCIDEVICE_T");
        assert_string_equal(o.network.port, "0000:01:10.0");
        unsetenv("PCIDEVICE_T");
    }
}

static void threads_ports_and_batch_follow_from_the_mode(void **state)
{
    (void)state;
    options_taken(&bed, COMPLETION);
    assert_int_equal(o.threads, 1);
    assert_int_equal(o.batch, BT_IO_BATCH);
    assert_int_equal(o.workers, 1);
    assert_int_equal(o.occupy, OCCUPY_SPIN);
    assert_false(o.told);
    options_taken(&bed, COMPLETION " --threads=5 --batch=7");
    assert_int_equal(o.threads, 5);
    assert_int_equal(o.batch, 7);
    assert_int_equal(o.workers, 5);
    options_taken(&bed, STEALING " --threads=17");
    assert_int_equal(o.workers, 2); // one for 16
    options_taken(&bed, "--workers=3");
    assert_int_equal(o.threads, 0);
    assert_int_equal(o.occupy, OCCUPY_SLEEP);
}

static void what_options_say_is_ready_for_use(void **state)
{
    (void)state;
    options_taken(&bed, "--port=1234 --routers=1.2.3.4,1.2.3.5:77 --feedback-port=99 --legacy-routers");
    assert_int_equal(o.first.port, 1234);
    assert_true(bt_addr_is_v4(&o.first));
    assert_int_equal(o.n_static_routers, 2);
    assert_int_equal(o.static_routers[0].request.port, 8000);
    assert_int_equal(o.static_routers[1].request.port, 77);
    assert_int_equal(o.static_routers[1].feedback.port, 99);
    assert_memory_equal(o.static_routers[1].feedback.ip, o.static_routers[1].request.ip, 16);
    assert_true(o.static_routers[0].legacy && o.static_routers[1].legacy);
    assert_int_equal(o.reply_size, SERVE_ECHO);
    assert_true(o.seed != 0); // taken at random
    options_taken(&bed, "--service-time=fixed:2ms --reply-bytes=12 --routers=1.2.3.4 --seed=7");
    assert_int_equal(o.reply_size, 12);
    assert_int_equal(o.seed, 7);
    assert_true(o.service.mean_ns == 2e6 && o.degraded.mean_ns == 2e6);
    assert_false(o.static_routers[0].legacy);
    options_taken(&bed, "--service-time=fixed:2ms --degraded-service-time=fixed:1ms");
    assert_true(o.service.mean_ns == 2e6 && o.degraded.mean_ns == 1e6);
}

// What a pod is told of its mode: options come first, and the ports are as the Service says.
static void the_operators_mode_makes_threads_of_workers(void **state)
{
    static const struct option_refusal steals[] = {
        {"--workers=5", "--workers: must be 1..4 with BOBTAIL_SCHEDULING=WorkStealing; got 5"}};
    (void)state;
    setenv("BOBTAIL_SCHEDULING", "RunToCompletion", 1);
    options_taken(&bed, "--workers=3");
    assert_true(o.told && o.mode == MODE_RUN_TO_COMPLETION);
    assert_int_equal(o.threads, 3);
    assert_int_equal(o.workers, 3);
    options_taken(&bed, "--workers=64");
    setenv("BOBTAIL_SCHEDULING", "WorkStealing", 1);
    options_taken(&bed, "--workers=4");
    assert_true(o.told && o.mode == MODE_WORK_STEALING);
    assert_int_equal(o.threads, 64);
    assert_int_equal(o.workers, 4);
    options_taken(&bed, "--workers=2 --threads=20");
    assert_int_equal(o.threads, 20);
    options_refused(&bed, steals, 1);
    options_taken(&bed, COMPLETION " --threads=2");
    assert_true(!o.told && o.mode == MODE_RUN_TO_COMPLETION);
    setenv("BOBTAIL_SCHEDULING", "", 1);
    options_taken(&bed, "--workers=5");
    assert_true(!o.told && o.mode == MODE_LOOP);
    unsetenv("BOBTAIL_SCHEDULING");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_taken_up_to_its_bounds),
        cmocka_unit_test(what_does_not_go_together_is_named),
        cmocka_unit_test(tcp_has_its_own_needs),
        cmocka_unit_test(sockets_have_no_use_for_the_options_of_a_port),
        cmocka_unit_test(a_dpdk_port_has_its_own_needs),
        cmocka_unit_test(threads_ports_and_batch_follow_from_the_mode),
        cmocka_unit_test(what_options_say_is_ready_for_use),
        cmocka_unit_test(the_operators_mode_makes_threads_of_workers),
    };
    unsetenv("BOBTAIL_SCHEDULING");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
