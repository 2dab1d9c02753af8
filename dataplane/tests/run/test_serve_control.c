// SPDX-License-Identifier: Apache-2.0
// The control socket of a server of bobtail/serve.h: what it answers of all ports together. What was measured is put
// there by hand; that requests are measured is the business of tests/apps.
#include "unit.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "serve_bed.h"

#include "api/serve_internal.h"
#include "base/trace.h"

static char folder[] = "/tmp/bobtail-control-XXXXXX";
static char path[sizeof folder + 16];
static uint16_t port;

static void handle(void *arg, struct bobtail_request *request)
{
    (void)arg;
    bobtail_reply(request, "y", 1);
}

/* Of two ports. */
static struct bobtail_server *serve(void)
{
    struct bobtail_server_config config = {.threads = 2,
                                           .mode = BOBTAIL_RUN_TO_COMPLETION,
                                           .packets = 256,
                                           .max_pending = 64,
                                           .seed = 7,
                                           .control = path,
                                           .handler = handle};
    return bed_serve(config, &port);
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
    says("{\"v\":1,\"op\":\"counters\"}", "{\"name\":\"server_backlog\",\"labels\":{},\"value\":0}");
    r2p2_endpoint_close(client.ep);
    bobtail_server_close(server);
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
        cmocka_unit_test(its_state_is_that_of_all_ports),    cmocka_unit_test(it_leaves_when_it_is_told_so),
        cmocka_unit_test(traces_of_all_ports_come_together), cmocka_unit_test(histograms_are_of_all_ports),
        cmocka_unit_test(counters_are_of_all_ports),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
