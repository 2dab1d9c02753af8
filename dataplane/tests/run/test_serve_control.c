// SPDX-License-Identifier: Apache-2.0
// The control socket of a server of bobtail/serve.h: what it answers of all ports together. What was measured is put
// there by hand; that requests are measured is the business of tests/apps.
#include "unit.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "serve_bed.h"

#include "api/serve_internal.h"
#include "base/trace.h"
#include "ctl/config.h"

static char folder[] = "/tmp/bobtail-control-XXXXXX";
static char path[sizeof folder + 16];
static uint16_t port;

static void handle(void *arg, struct bobtail_request *request)
{
    (void)arg;
    bobtail_reply(request, "y", 1);
}

/* Of two ports. */
static struct bobtail_server_config two_ports(void)
{
    return (struct bobtail_server_config){.threads = 2,
                                          .mode = BOBTAIL_RUN_TO_COMPLETION,
                                          .packets = 256,
                                          .max_pending = 64,
                                          .seed = 7,
                                          .control = path,
                                          .handler = handle};
}

static struct bobtail_server *serve(void)
{
    return bed_serve(two_ports(), &port);
}

/* Its answer, until the next one. */
static const char *ask(const char *what)
{
    static char answer[1 << 20];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    assert_int_equal(send(fd, what, strlen(what), MSG_NOSIGNAL), strlen(what));
    ssize_t n = recv(fd, answer, sizeof answer - 1, 0);
    assert_true(n > 0);
    answer[n] = '\0';
    close(fd);
    return answer;
}

static void says(const char *what, const char *words)
{
    const char *answer = ask(what);
    if (strstr(answer, words) == NULL) {
        fail_msg("%s\nis not in\n%s", words, answer);
    }
}

static void says_not(const char *what, const char *words)
{
    assert_null(strstr(ask(what), words));
}

static void its_state_is_that_of_all_ports(void **state)
{
    char words[128];
    (void)state;
    struct bobtail_server *server = serve();
    says("{\"v\":1,\"op\":\"state\"}", "\"draining\":false");
    says("{\"v\":1,\"op\":\"state\"}", "\"backlog\":0");
    for (unsigned i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "{\"port\":%u,\"backlog\":0}", port + i);
        says("{\"v\":1,\"op\":\"state\"}", words);
    }
    says_not("{\"v\":1,\"op\":\"state\"}", "scheduling"); // its pod did not say so
    says_not("{\"v\":1,\"op\":\"state\"}", "flowControl");
    bobtail_server_close(server);
}

static void it_leaves_when_it_is_told_so(void **state)
{
    (void)state;
    struct bobtail_server *server = serve();
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"server_draining\",\"labels\":{},\"value\":0}");
    says("{\"v\":1,\"op\":\"leave\"}", "\"draining\":true");
    says("{\"v\":1,\"op\":\"state\"}", "\"draining\":true");
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"server_draining\",\"labels\":{},\"value\":1}");
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"server_workers\",\"labels\":{},\"value\":2}");
    serve_hold(server);
    assert_true(server->leaving);
    serve_go(server);
    bobtail_server_close(server);
}

static void traces_of_all_ports_come_together(void **state)
{
    enum { MANY = 40 }; // more than are read at once
    (void)state;
    struct bobtail_server *server = serve();
    says("{\"v\":1,\"op\":\"traces\",\"after\":0}", "\"traces\":[],\"next\":0,\"lost\":0");
    serve_hold(server);
    for (uint32_t i = 0; i < 2; i++) {
        for (unsigned k = 0; k < MANY; k++) {
            struct bt_trace t = {.id = 1000 * (i + 1) + k, .start_ns = 5, .middle_ns = 6, .end_ns = 7};
            bt_trace_note(server->port[i].server.traces, &t);
        }
    }
    serve_go(server);
    says("{\"v\":1,\"op\":\"traces\",\"after\":0}", "\"id\":\"00000000000003e8\"");
    says("{\"v\":1,\"op\":\"traces\",\"after\":79}", "\"traces\":[{\"id\":\"00000000000007f7\",\"startNanoseconds\":5");
    says("{\"v\":1,\"op\":\"traces\",\"after\":80}", "\"traces\":[],\"next\":80,\"lost\":0");
    serve_hold(server);
    struct bt_trace late = {.id = 0xabc, .start_ns = 5};
    bt_trace_note(server->port[0].server.traces, &late);
    serve_go(server);
    says("{\"v\":1,\"op\":\"traces\",\"after\":80}", "\"traces\":[{\"id\":\"0000000000000abc\"");
    says("{\"v\":1,\"op\":\"traces\",\"after\":80}", "\"next\":81,\"lost\":0"); // none is told twice
    bobtail_server_close(server);
}

static void histograms_are_of_all_ports(void **state)
{
    (void)state;
    struct bobtail_server *server = serve();
    serve_hold(server);
    for (uint32_t i = 0; i < 2; i++) {
        for (unsigned k = 0; k <= i; k++) {
            bt_hist_slices_record(server->port[i].server.latency, bed_now(), 1000);
        }
        for (unsigned k = 0; k < 10; k++) {
            bt_hist_slices_record(server->port[i].service, bed_now(), 1000);
        }
    }
    serve_go(server);
    says("{\"v\":1,\"op\":\"histogram\",\"name\":\"latency\",\"windowSeconds\":60}", "\"total\":3");
    says("{\"v\":1,\"op\":\"histogram\",\"name\":\"service\",\"windowSeconds\":60}", "\"total\":20");
    says("{\"v\":1,\"op\":\"histogram\",\"name\":\"other\",\"windowSeconds\":60}",
         "must be one of latency, service; got \\\"other\\\"");
    bobtail_server_close(server);
}

/* What a port had to do is told of all of them. */
static void counters_are_of_all_ports(void **state)
{
    struct bed_client client;
    (void)state;
    struct bobtail_server *server = serve();
    bed_open(&client, false);
    for (uint64_t i = 0; i < 6; i++) {
        assert_true(bed_call(&client, (uint16_t)(port + i % 2), i, NULL, 0));
    }
    while (client.under_way > 0) {
        bed_await(&client, 0);
    }
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"server_requests_total\",\"labels\":{},\"value\":6}");
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"server_replies_total\",\"labels\":{},\"value\":6}");
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"io_rx_packets_total\",\"labels\":{},\"value\":6}");
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"io_tx_packets_total\",\"labels\":{},\"value\":6}");
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"server_backlog\",\"labels\":{},\"value\":0}");
    r2p2_endpoint_close(client.ep);
    bobtail_server_close(server);
}

static const char document[] =
    "{\"apiVersion\":\"dataplane.bobtail.dev/v1\",\"sources\":[],\"service\":{\"name\":\"echo\",\"namespace\":\"test\","
    "\"placement\":\"Software\",\"policy\":\"JBSQ\",\"workerQueueDepth\":5,\"centralQueueLimit\":65536,"
    "\"maxQueueMilliseconds\":20000,\"forwarding\":\"Encapsulated\",\"deviceProfile\":\"Kernel\",\"legacyPeers\":"
    "\"Deny\","
    "\"requestTimeoutMilliseconds\":10000,\"workersPerReplica\":2,\"holdBack\":{\"packets\":0,\"microseconds\":0}},"
    "\"members\":[],\"routers\":[{\"address\":\"127.0.0.1\",\"requestPort\":9,\"feedbackPort\":10,\"name\":\"r\"}],"
    "\"keyIds\":[]}";

static void in_force_at_every_port(struct bobtail_server *server)
{
    struct bt_server_router_state r;
    serve_hold(server);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(bt_server_router_state(bt_run_server(server->run, i), 0, &r));
        assert_int_equal(r.router.request.port, 9);
        assert_int_equal(r.router.feedback.port, 10);
        assert_true(r.configured);
        assert_false(bt_server_router_state(bt_run_server(server->run, i), 1, &r));
    }
    serve_go(server);
    says("{\"v\":1,\"op\":\"state\"}", "\"routers\":[{\"address\":\"127.0.0.1:9\"");
}

/* Whoever speaks to it names its routers; what it was told last is in force again after a restart. */
static void a_document_is_in_force_at_every_port_and_kept(void **state)
{
    char hash[BT_CONFIG_HASH], cache[sizeof path + 8], line[2048];
    (void)state;
    snprintf(cache, sizeof cache, "%s.cache", path);
    bt_config_hash(document, strlen(document), hash);
    snprintf(line, sizeof line, "{\"v\":1,\"op\":\"apply\",\"hash\":\"%s\",\"config\":%s}", hash, document);
    struct bobtail_server_config config = two_ports();
    config.config_cache = cache;
    struct bobtail_server *server = bed_serve(config, &port);
    says("{\"v\":1,\"op\":\"state\"}", "\"routers\":[]");
    says(line, "\"ok\":true");
    in_force_at_every_port(server);
    bobtail_server_close(server);
    server = bed_serve(config, &port);
    in_force_at_every_port(server);
    says("{\"v\":1,\"op\":\"state\"}", hash);
    bobtail_server_close(server);
    FILE *f = fopen(cache, "w"); // a broken one is not worth an end
    assert_true(f != NULL && fputs("{", f) >= 0 && fclose(f) == 0);
    server = bed_serve(config, &port);
    says("{\"v\":1,\"op\":\"state\"}", "\"routers\":[]");
    bobtail_server_close(server);
    assert_int_equal(unlink(cache), 0);
}

static void a_socket_that_cannot_be_made_is_named(void **state)
{
    char why[256] = "";
    struct bobtail_server_config config = two_ports();
    (void)state;
    config.size = sizeof config;
    config.port = bed_port();
    config.control = "/nonexistent/ctl.sock";
    assert_null(bobtail_server_open(&config, why, sizeof why));
    assert_int_equal(strncmp(why, "control: ", 9), 0);
    assert_non_null(strstr(why, "/nonexistent"));
}

static int make_folder(void **state)
{
    (void)state;
    bool made = mkdtemp(folder) != NULL;
    snprintf(path, sizeof path, "%s/ctl.sock", folder);
    return made ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_state_is_that_of_all_ports),
        cmocka_unit_test(it_leaves_when_it_is_told_so),
        cmocka_unit_test(traces_of_all_ports_come_together),
        cmocka_unit_test(histograms_are_of_all_ports),
        cmocka_unit_test(counters_are_of_all_ports),
        cmocka_unit_test(a_document_is_in_force_at_every_port_and_kept),
        cmocka_unit_test(a_socket_that_cannot_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
