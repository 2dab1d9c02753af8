// SPDX-License-Identifier: Apache-2.0
// bobtail/serve.h over kernel TCP (D-4, D-5): replies in the order of the requests, however they are executed; broken
// streams end their own connection; a client that does not read fills no memory.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "unit.h"

#include "serve_bed.h"

enum { MAX = 100000, CLIENTS = 8, ROUNDS = 300, DEPTH = 40 };

static _Atomic int gate, inside;

/* Answers with what it got. A body that begins with 's' takes a while, with 'w' until the gate is up, with 'n' is not
 * answered. */
static void handle(void *arg, struct bobtail_request *request)
{
    int n;
    uint8_t head[5] = {0};
    (void)arg;
    bobtail_request_copy(request, head, sizeof head);
    const struct bobtail_bytes *piece = bobtail_request_bytes(request, &n);
    if (head[4] == 's') {
        bed_spin(200000);
    } else if (head[4] == 'w') {
        inside++;
        while (!gate) {
            usleep(200);
        }
        inside--;
    }
    if (head[4] != 'n') {
        bobtail_reply_pieces(request, piece, n);
    }
}

static struct bobtail_server *serve(enum bobtail_mode mode, enum bobtail_protocol protocol, uint16_t *port)
{
    struct bobtail_server_config config = {.threads = 3,
                                           .mode = (uint8_t)mode,
                                           .protocol = (uint8_t)protocol,
                                           .connections = 16,
                                           .max_message = MAX,
                                           .seed = 5,
                                           .handler = handle};
    gate = inside = 0;
    return bed_serve(config, port);
}

static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = send(fd, (const char *)bytes + done, n - done, MSG_NOSIGNAL);
        assert_true(k > 0);
        done += (size_t)k;
    }
}

/* Until n bytes are there, or the end; how many there were. */
static size_t hear(int fd, void *bytes, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t k = recv(fd, (char *)bytes + done, n - done, 0);
        if (k <= 0) {
            break;
        }
        done += (size_t)k;
    }
    return done;
}

/* A message of `len` bytes behind its length: a mark, a number, and what the number makes of the rest. */
static size_t message(uint8_t *to, char mark, uint32_t number, uint32_t len)
{
    uint32_t be = htonl(len);
    memcpy(to, &be, 4);
    memset(to + 4, (int)(number % 251), len);
    to[4] = (uint8_t)mark;
    memcpy(to + 5, &number, 4);
    return len + 4;
}

static _Atomic uint16_t many_port;

/* DEPTH requests are sent at once, of which some take long: whoever executes them, the answers come in order. */
static void *many(void *arg)
{
    static _Thread_local uint8_t out[DEPTH * 3000], in[DEPTH * 3000];
    uintptr_t who = (uintptr_t)arg, bad = 0;
    int fd = dial(many_port);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        size_t n = 0;
        for (uint32_t i = 0; i < DEPTH; i++) {
            uint32_t number = round * DEPTH + i;
            n += message(out + n, (number + who) % 97 == 0 ? 's' : 'e', number, 5 + number % 2900);
        }
        say(fd, out, n);
        bad += hear(fd, in, n) != n || memcmp(in, out, n) != 0;
    }
    close(fd);
    return (void *)bad;
}

static void in_order(enum bobtail_mode mode)
{
    struct bobtail_server_counts counts;
    pthread_t thread[CLIENTS];
    uint16_t port;
    struct bobtail_server *server = serve(mode, BOBTAIL_U32, &port);
    many_port = port;
    for (uintptr_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, many, (void *)i), 0);
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        void *bad;
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(bobtail_server_drain(server, 3600000), 1);
    bobtail_server_read_counts(server, &counts);
    assert_int_equal(counts.handled, (uint64_t)CLIENTS * ROUNDS * DEPTH);
    assert_int_equal(counts.accepted, CLIENTS);
    assert_int_equal(counts.closed, 0);
    assert_true(mode == BOBTAIL_RUN_TO_COMPLETION || counts.stolen > 0);
    bobtail_server_close(server);
}

static void test_z22_in_order_with_stealing(void **state)
{
    (void)state;
    in_order(BOBTAIL_WORK_STEALING);
}

static void test_z22_in_order_to_completion(void **state)
{
    (void)state;
    in_order(BOBTAIL_RUN_TO_COMPLETION);
}

/* What came before a broken request is answered; then the connection ends, and its reason is counted. Others go on. */
static void test_d5_broken_streams_end_alone(void **state)
{
    static const struct {
        enum bobtail_protocol protocol;
        const char *good, *bad;
    } rows[] = {
        {BOBTAIL_RESP, "*1\r\n$4\r\nPING\r\n", "PING\r\n"},
        {BOBTAIL_HTTP, "GET / HTTP/1.1\r\n\r\n", "GET /\r\n\r\n"},
        {BOBTAIL_MEMCACHED, "get a\r\n", "set a 0 0 1\r\nabc\r\n"},
        {BOBTAIL_U32, "\1\1\1", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bobtail_server_counts counts;
        char answer[256];
        uint16_t port;
        struct bobtail_server *server = serve(BOBTAIL_WORK_STEALING, rows[i].protocol, &port);
        int other = dial(port), fd = dial(port);
        if (rows[i].bad == NULL) { // cut off in the middle
            say(fd, rows[i].good, 3);
            shutdown(fd, SHUT_WR);
            assert_int_equal(hear(fd, answer, sizeof answer), 0);
        } else {
            size_t n = strlen(rows[i].good);
            say(fd, rows[i].good, n);
            say(fd, rows[i].bad, strlen(rows[i].bad));
            assert_int_equal(hear(fd, answer, sizeof answer), n);
            assert_memory_equal(answer, rows[i].good, n);
            say(other, rows[i].good, n);
            assert_int_equal(hear(other, answer, n), n);
        }
        do {
            bobtail_server_read_counts(server, &counts);
        } while (counts.malformed != 1);
        assert_int_equal(counts.closed, 1);
        close(fd);
        close(other);
        bobtail_server_close(server);
    }
}

/* A handler that does not answer ends the connection, after the answers before. */
static void test_d5_no_answer(void **state)
{
    uint8_t out[64], in[64];
    uint16_t port;
    (void)state;
    struct bobtail_server *server = serve(BOBTAIL_RUN_TO_COMPLETION, BOBTAIL_U32, &port);
    int fd = dial(port);
    size_t first = message(out, 'e', 1, 5), n = first;
    n += message(out + n, 'n', 2, 5);
    say(fd, out, n);
    assert_int_equal(hear(fd, in, sizeof in), first);
    close(fd);
    bobtail_server_close(server);
}

/* One client sends without reading while its requests wait: what the server takes of it has a bound. */
static void test_d5_a_flood_waits(void **state)
{
    static uint8_t out[64 << 20];
    struct bobtail_server_counts counts;
    uint16_t port;
    size_t n = 0, sent = 0;
    (void)state;
    struct bobtail_server *server = serve(BOBTAIL_WORK_STEALING, BOBTAIL_U32, &port);
    int fd = dial(port);
    while (n + 1004 <= sizeof out) {
        n += message(out + n, n == 0 ? 'w' : 'e', 7, 1000);
    }
    for (ssize_t k; (k = send(fd, out + sent, n - sent, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0 || inside == 0;) {
        sent += k > 0 ? (size_t)k : 0; // until the kernel takes no more, and the first of them is executed
    }
    assert_true(sent < n);
    bobtail_server_read_counts(server, &counts);
    assert_true(counts.handled <= 16);
    gate = 1;
    close(fd);
    bobtail_server_close(server);
}

/* More connections than there may be are closed at once, and counted. */
static void test_d5_too_many_connections(void **state)
{
    struct bobtail_server_counts counts;
    uint16_t port;
    int fd[100];
    (void)state;
    struct bobtail_server *server = serve(BOBTAIL_RUN_TO_COMPLETION, BOBTAIL_U32, &port);
    for (int i = 0; i < 100; i++) {
        fd[i] = dial(port);
    }
    do {
        bobtail_server_read_counts(server, &counts);
    } while (counts.accepted + counts.closed < 100);
    assert_in_range(counts.accepted, 16, 48);
    for (int i = 0; i < 100; i++) {
        close(fd[i]);
    }
    bobtail_server_close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_z22_in_order_with_stealing),
        cmocka_unit_test(test_z22_in_order_to_completion),
        cmocka_unit_test(test_d5_broken_streams_end_alone),
        cmocka_unit_test(test_d5_no_answer),
        cmocka_unit_test(test_d5_a_flood_waits),
        cmocka_unit_test(test_d5_too_many_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
