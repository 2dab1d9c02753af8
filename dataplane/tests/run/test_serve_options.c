// SPDX-License-Identifier: Apache-2.0
// bobtail/serve.h: what each option may be and what is said when it is not, which routers are told of a server, and
// what it counts of its flow control.
#include <arpa/inet.h>
#include <sys/socket.h>

#include "unit.h"

#include "serve_bed.h"

#include "api/serve_internal.h"

static void handle(void *arg, struct bobtail_request *request)
{
    (void)arg;
    bobtail_reply(request, "y", 1);
}

static struct bobtail_server_config config(uint16_t threads)
{
    return (struct bobtail_server_config){.size = sizeof(struct bobtail_server_config),
                                          .port = bed_port(),
                                          .threads = threads,
                                          .mode = BOBTAIL_WORK_STEALING,
                                          .packets = 256,
                                          .max_pending = 64,
                                          .max_message = 10000,
                                          .seed = 7,
                                          .handler = handle};
}

static void refused_with(struct bobtail_server_config c, const char *words)
{
    char why[256] = "";
    assert_null(bobtail_server_open(&c, why, sizeof why));
    assert_string_equal(why, words);
}

static void opens(struct bobtail_server_config c)
{
    uint16_t port;
    bobtail_server_close(bed_serve(c, &port));
}

static void bad_numbers_are_named(void **state)
{
    struct bobtail_server_config good = config(2), c;
    char words[256];
    (void)state;
    c = good, c.threads = 65, refused_with(c, "threads: must be 1..64; got 65");
    c = good, c.batch = 1025, refused_with(c, "batch: must be 1..1024; got 1025");
    c = good, c.port = 0, refused_with(c, "port: ports 0..0 are wanted, of 1..65535");
    c = good, c.port = 65535, c.mode = BOBTAIL_RUN_TO_COMPLETION;
    refused_with(c, "port: ports 65535..65536 are wanted, of 1..65535");
    c = good, c.mode = 2, refused_with(c, "mode: must be 0 or 1; got 2");
    c = good, c.queue_depth = 65, refused_with(c, "queue_depth: must be 1..64; got 65");
    c = good, c.max_pending = 65536, refused_with(c, "max_pending: must be 1..65535; got 65536");
    c = good, c.max_message = (1u << 26) + 1, refused_with(c, "max_message: must be at most 64 MiB; got 67108865");
    c = good, c.mtu = 575, refused_with(c, "mtu: must be 0 or 576..1500; got 575");
    c = good, c.mtu = 1501, refused_with(c, "mtu: must be 0 or 576..1500; got 1501");
    c = good, c.handler = NULL, refused_with(c, "handler: there is none");
    c = good, c.min_threads = 3, refused_with(c, "min_threads: must be at most threads, 2; got 3");
    c = good, c.min_threads = 1, c.mode = BOBTAIL_RUN_TO_COMPLETION;
    refused_with(c, "min_threads: needs work stealing; to completion each thread has a port of its own");
    c = good, c.min_threads = 1, c.protocol = BOBTAIL_U32;
    refused_with(c, "min_threads: connections stay with their thread; with TCP all threads run");
    c = good, c.protocol = BOBTAIL_U32, c.connections = 65537;
    refused_with(c, "connections: must be 1..65536; got 65537");
    snprintf(words, sizeof words, "cannot listen on TCP 192.0.2.77:%u: Cannot assign requested address", good.port);
    c = good, c.protocol = BOBTAIL_U32, c.address = "192.0.2.77", refused_with(c, words);
}

static void bad_words_are_named(void **state)
{
    struct bobtail_server_config good = config(2), c;
    (void)state;
    c = good, c.address = "nowhere", refused_with(c, "address: \"nowhere\" is not an IP address");
    c.protocol = BOBTAIL_HTTP, refused_with(c, "address: \"nowhere\" is not an IP address");
    c = good, c.routers = "nowhere";
    refused_with(c, "routers: \"nowhere\" is not an address; write 10.0.0.1:8000,[fd00::1]:8000");
    c = good, c.routers = "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7,10.0.0.8,10.0.0.9,"
                          "10.0.0.10,10.0.0.11,10.0.0.12,10.0.0.13,10.0.0.14,10.0.0.15,10.0.0.16,10.0.0.17";
    refused_with(c, "routers: more than 16");
    c = good, c.protocol = BOBTAIL_U32 + 1, refused_with(c, "protocol: must be 0..4; got 5");
    for (uint8_t p = BOBTAIL_RESP; p <= BOBTAIL_U32; p++) {
        c = good, c.protocol = p, c.routers = "10.0.0.1";
        refused_with(c, "routers: R2P2 alone has routers, and protocol is another one");
        c = good, c.protocol = p, c.control = "/nonexistent/sock";
        refused_with(c, "control: R2P2 alone has routers, and protocol is another one");
    }
    c = good, c.routers = "10.0.0.1", c.control = "/nonexistent/sock";
    refused_with(c, "routers: whoever speaks to control names them, and both are given; leave one out");
    c = good, c.scheduling = "WorkStealing";
    refused_with(c, "scheduling: whoever speaks to control says how many threads run, and control is not given");
    c.control = "";
    refused_with(c, "scheduling: whoever speaks to control says how many threads run, and control is not given");
    c = good, c.order = 2, refused_with(c, "order: must be 0 or 1; got 2");
    static const char *const needs =
        "order: needs work stealing over R2P2; a thread executes one request after the other anyway";
    c = good, c.order = BOBTAIL_PER_CLIENT, c.mode = BOBTAIL_RUN_TO_COMPLETION, refused_with(c, needs);
    c = good, c.order = BOBTAIL_PER_CLIENT, c.protocol = BOBTAIL_RESP, refused_with(c, needs);
}

static void bad_flow_control_is_named(void **state)
{
    struct bobtail_server_config good = config(2), c;
    (void)state;
    good.wait_us = 100;
    c = good, c.protocol = BOBTAIL_MEMCACHED;
    refused_with(c, "wait_us: flow control is R2P2's, and protocol is another one");
    c = good, c.wait_us = 10000001, refused_with(c, "wait_us: must be at most 10000000; got 10000001");
    c = good, c.wait_percentile = 0.49, refused_with(c, "wait_percentile: must be 0.5..0.9999; got 0.49");
    c = good, c.wait_percentile = 0.99995, refused_with(c, "wait_percentile: must be 0.5..0.9999; got 0.99995");
    c = good, c.wait_percentile = __builtin_nan(""), refused_with(c, "wait_percentile: must be 0.5..0.9999; got nan");
    c = good, c.wait_model = 2, refused_with(c, "wait_model: must be 0 or 1; got 2");
    c.wait_us = 0; // without it nobody looks at the model
    opens(c);
}

static void the_bounds_themselves_are_allowed(void **state)
{
    struct bobtail_server_config good = config(1), c;
    (void)state;
    opens(good);
    c = good, c.batch = 1024, c.queue_depth = 64, c.mtu = 576, opens(c);
    c = good, c.mtu = 1500, c.max_pending = 65535, opens(c);
    c = good, c.max_message = 1u << 26, opens(c);
    c = good, c.wait_us = 10000000, c.wait_percentile = 0.5, c.wait_model = BOBTAIL_WAIT_PAPER, opens(c);
    c = good, c.wait_us = 1, c.wait_percentile = 0.9999, opens(c);
    c = good, c.order = BOBTAIL_PER_CLIENT, opens(c);
    c = good, c.threads = 64, opens(c);
    c = good, c.control = "", c.scheduling = "", opens(c);
    c = good, c.protocol = BOBTAIL_U32, c.control = "", opens(c);
    c = good, c.name = NULL, c.seed = 0, opens(c);
}

// --- routers ---

/* A router's port for FEEDBACK. */
static int listen_as_router(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Bits of the ports, from the first one on, of which it heard with that flag. */
static unsigned hear(int router, uint16_t first, uint8_t flag)
{
    enum { FLAGS = 8 + 9 };
    uint8_t p[128];
    struct sockaddr_in from;
    socklen_t n = sizeof from;
    assert_int_equal(recvfrom(router, p, sizeof p, 0, (struct sockaddr *)&from, &n), 8 + 32);
    return (p[FLAGS] & flag) != 0 ? 1u << (ntohs(from.sin_port) - first) : 0;
}

static void hear_all(int router, uint16_t first, uint8_t flag, unsigned ports)
{
    for (unsigned heard = 0; heard != ports;) { // the test's own time limit ends it
        heard |= hear(router, first, flag);
        assert_int_equal(heard & ~ports, 0);
    }
}

/* Every port says that it is there, and when the server is drained, that it leaves. */
static void r113_every_port_joins_and_leaves_its_routers(void **state)
{
    enum { JOIN = 1, LEAVE = 2, PORTS = 3 };
    uint16_t port, feedback;
    (void)state;
    int router = listen_as_router(&feedback);
    struct bobtail_server_config c = config(2);
    c.mode = BOBTAIL_RUN_TO_COMPLETION;
    c.routers = "127.0.0.1:9"; // whose port for requests is of no use here
    c.feedback_port = feedback;
    struct bobtail_server *server = bed_serve(c, &port);
    hear_all(router, port, JOIN, PORTS);
    uint64_t began = bed_now();
    assert_int_equal(bobtail_server_drain(server, 3600000), 1);
    assert_true(bed_now() - began >= 500000000); // what was on its way would have come
    hear_all(router, port, LEAVE, PORTS);
    bobtail_server_close(server);
    close(router);
}

/* Without routers nothing is on its way: it need not be quiet for half a second. */
static void nothing_is_waited_for_without_routers(void **state)
{
    uint16_t port;
    uint64_t took;
    (void)state;
    struct bobtail_server *server = bed_serve(config(2), &port);
    do { // a busy machine may take its time; the test's own time limit ends it
        uint64_t began = bed_now();
        assert_int_equal(bobtail_server_drain(server, 3600000), 1);
        took = bed_now() - began;
    } while (took >= 500000000);
    bobtail_server_close(server);
}

// --- flow control ---

/* Requests of one client at the port's flow control: so long apart, as the port would have had them in an hour. So no
 * time that passes here changes what was learned. */
static void requests(struct bobtail_server *server, uint32_t i, uint64_t gap_ns, uint64_t takes_ns, uint64_t rare_ns)
{
    const struct bt_server_came asks = {.asked = true};
    struct bt_addr from = bt_addr_v4u(0x0a000001, 40000);
    struct bt_server_flow hooks = bt_flow_hooks(server->port[i].flow);
    uint64_t now = bed_now() + UINT64_C(3600000000000);
    serve_hold(server);
    for (unsigned k = 0; k < 20000; k++) {
        uint64_t takes = k % 1000 == 999 ? rare_ns : takes_ns;
        now += gap_ns;
        uint32_t at = hooks.arrived(hooks.arg, &from, asks, now);
        if ((at & BT_FLOW_REFUSED) == 0) {
            struct bt_server_took took = {now, now + takes};
            hooks.left(hooks.arg, at, &took);
            (void)hooks.signal(hooks.arg, at, now);
        }
    }
    serve_go(server);
}

static struct bobtail_server_counts counts_of(struct bobtail_server *server)
{
    struct bobtail_server_counts counts;
    memset(&counts, 0xff, sizeof counts);
    bobtail_server_read_counts(server, &counts);
    return counts;
}

static void without_flow_control_it_counts_none(void **state)
{
    uint16_t port;
    (void)state;
    struct bobtail_server *server = bed_serve(config(2), &port);
    struct bobtail_server_counts counts = counts_of(server);
    assert_null(server->port[0].flow);
    assert_int_equal(counts.flow_refused + counts.flow_silences, 0);
    assert_int_equal(counts.load_ppm + counts.admitted_ppm, 0);
    assert_int_equal(counts.flow_alarm, 0);
    bobtail_server_close(server);
}

/* Ports together: what was counted is the sum, the loads are those of the one that is closest to its limit. */
static void flow_control_is_counted_over_all_ports(void **state)
{
    uint16_t port;
    struct bt_flow_figures f[2];
    struct bobtail_server_config c = config(2);
    (void)state;
    c.mode = BOBTAIL_RUN_TO_COMPLETION;
    c.wait_us = 100;
    struct bobtail_server *server = bed_serve(c, &port);
    requests(server, 0, 8000, 10000, 10000); // 1.25 of what its core can do
    requests(server, 1, 9000, 10000, 10000);
    serve_hold(server);
    for (uint32_t i = 0; i < 2; i++) {
        bt_flow_read(server->port[i].flow, bed_now(), &f[i]);
        assert_true(f[i].refused > 0 && f[i].counters[BT_FLOW_THROTTLED_SIGNALS] > 0);
    }
    serve_go(server);
    (void)counts_of(server); // asking changes nothing, and goes on
    struct bobtail_server_counts counts = counts_of(server);
    assert_int_equal(counts.flow_refused, f[0].refused + f[1].refused);
    assert_int_equal(counts.flow_silences,
                     f[0].counters[BT_FLOW_THROTTLED_SIGNALS] + f[1].counters[BT_FLOW_THROTTLED_SIGNALS]);
    assert_in_range(counts.load_ppm, 1240000, 1250000);
    assert_int_equal(counts.load_ppm, (uint32_t)(1e6 * f[0].load));
    assert_in_range(counts.admitted_ppm, 500000, 850000);
    assert_int_equal(counts.admitted_ppm, (uint32_t)(1e6 * f[0].admitted));
    assert_int_equal(counts.flow_alarm, 0);
    bobtail_server_close(server);
}

static void f8_dispersed_times_are_an_alarm(void **state)
{
    uint16_t port;
    struct bobtail_server_config c = config(1);
    (void)state;
    c.wait_us = 1000000;
    struct bobtail_server *server = bed_serve(c, &port);
    requests(server, 0, 20000, 5000, 5005000); // c² is 249
    assert_int_equal(counts_of(server).flow_alarm, 1);
    bobtail_server_close(server);
}

/* The objective of a port is what its options say. */
static void its_own_objective_is_in_force(void **state)
{
    uint16_t port;
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bobtail_server_config c = config(3);
        c.wait_us = 250;
        c.wait_percentile = i == 0 ? 0 : 0.95;
        c.wait_model = i == 0 ? BOBTAIL_WAIT_REFINED : BOBTAIL_WAIT_PAPER;
        struct bobtail_server *server = bed_serve(c, &port);
        assert_true(server->own.wait_ns == 250000);
        assert_true(server->own.percentile == (i == 0 ? 0.99 : 0.95));
        assert_int_equal(server->own.model, i == 0 ? BT_FC_REFINED : BT_FC_PAPER);
        assert_true(bt_flow_on(server->port[0].flow));
        assert_int_equal(bt_run_cores(server->run, 0), 3);
        bobtail_server_close(server);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_numbers_are_named),
        cmocka_unit_test(bad_words_are_named),
        cmocka_unit_test(bad_flow_control_is_named),
        cmocka_unit_test(the_bounds_themselves_are_allowed),
        cmocka_unit_test(r113_every_port_joins_and_leaves_its_routers),
        cmocka_unit_test(nothing_is_waited_for_without_routers),
        cmocka_unit_test(without_flow_control_it_counts_none),
        cmocka_unit_test(flow_control_is_counted_over_all_ports),
        cmocka_unit_test(f8_dispersed_times_are_an_alarm),
        cmocka_unit_test(its_own_objective_is_in_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
