// SPDX-License-Identifier: Apache-2.0
// The two ends of the TCP comparisons (measure/bench/crab_*.py): an echo service and its clients. They send 64 bytes
// and take 64 bytes, so that what lies between them is what a run tells apart.
// clang-format off
//   bench_tcp serve ADDRESS PORT
//   bench_tcp turns CONNECTIONS TURNS MILLISECONDS NETNS ADDRESS PORT [NETNS ADDRESS PORT ...]
//                                                          long connections on several ways, which take turns; the next
//                                                          request as soon as the answer came
//   bench_tcp rate ADDRESS PORT CONNECTIONS SECONDS RATE   long connections, requests at random times
//   bench_tcp connect ADDRESS PORT COUNT                   one after the other: connect, request, answer, close
//   bench_tcp bulk ADDRESS PORT BYTES                      one connection that sends so much
// clang-format on
// The clients print one JSON object; turns prints an array of answers per second for each turn, a number for each way.
#include "tcp_ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BODY = 64, BULK = 1 << 16, WAYS_MAX = 8 };
// Of the connections of `connect` one in so many may be ended by the other end before its answer is whole.
enum { ENDED_ONE_IN = 200 };

// The first byte of a connection says what the service shall do with all of them. An echo is also a message behind its
// length of 32 bits, for servers that want those.
static const char echo_body[BODY] = {0, 0, 0, BODY - 4};
static const char bulk_body[BULK] = "take";

struct stream {
    struct bench_stream base; // first
    unsigned have;            // bytes of the answer so far
    bool known, takes;
};

static char buffer[BULK];

static struct stream *of(struct bench_stream *s)
{
    return (struct stream *)(void *)s;
}

static union bench_address address(char **words)
{
    in_port_t port = htons((uint16_t)atoi(words[1]));
    union bench_address four = {.four = {.sin_family = AF_INET, .sin_port = port}};
    union bench_address six = {.six = {.sin6_family = AF_INET6, .sin6_port = port}};
    if (port != 0 && inet_pton(AF_INET, words[0], &four.four.sin_addr) == 1) {
        return four;
    }
    if (port != 0 && inet_pton(AF_INET6, words[0], &six.six.sin6_addr) == 1) {
        return six;
    }
    fprintf(stderr, "bench_tcp: %s %s: not an address and a port\n", words[0], words[1]);
    exit(2);
}

static bool sent_all(int fd, const char *what, size_t n)
{
    for (size_t sent = 0; sent < n;) {
        ssize_t s = send(fd, what + sent, n - sent, MSG_NOSIGNAL);
        if (s <= 0 && errno != EINTR) {
            return false;
        }
        sent += s > 0 ? (size_t)s : 0;
    }
    return true;
}

static void put(int fd, const char *what, size_t n)
{
    if (!sent_all(fd, what, n)) {
        bench_fail("send");
    }
}

static bool serve(struct bench_stream *base)
{
    struct stream *s = of(base);
    ssize_t n = recv(base->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n <= 0) {
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (!s->known) {
        s->known = true;
        s->takes = buffer[0] == bulk_body[0];
    }
    return s->takes || send(base->fd, buffer, (size_t)n, MSG_NOSIGNAL) == n; // 64 bytes of an idle socket
}

// A request and its answer: the bytes that came, less than BODY when the other end has ended the connection; errno is
// 0 when it did that in order.
static size_t answered(int fd)
{
    ssize_t n = sent_all(fd, echo_body, BODY) ? recv(fd, buffer, BODY, MSG_WAITALL) : -1;
    if (n < 0 && errno != ECONNRESET && errno != EPIPE) {
        bench_fail("answer");
    }
    errno = n < 0 ? errno : 0;
    return n > 0 ? (size_t)n : 0;
}

static void tell_ended(int fd, union bench_address to, size_t have)
{
    bool reset = errno != 0;
    union bench_address from = to;
    socklen_t len = sizeof from;
    char here[INET6_ADDRSTRLEN] = "", there[INET6_ADDRSTRLEN] = "";
    (void)getsockname(fd, &from.any, &len);
    unsigned here_port = bench_address_text(&from, here), there_port = bench_address_text(&to, there);
    fprintf(stderr, "bench_tcp: %s:%u %s the connection from %s:%u after %zu of %d bytes of the answer\n", there,
            there_port, reset ? "reset" : "closed", here, here_port, have, BODY);
}

static void ask_once(int fd, union bench_address to)
{
    size_t have = answered(fd);
    if (have < BODY) {
        tell_ended(fd, to, have);
        exit(1);
    }
}

static void send_request(struct bench_stream *s)
{
    put(s->fd, echo_body, BODY);
}

static bool take_answer(struct bench_stream *base)
{
    struct stream *s = of(base);
    ssize_t n = recv(base->fd, buffer, BODY - s->have, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        bench_fail("a connection ended");
    }
    s->have += n > 0 ? (unsigned)n : 0;
    if (s->have < BODY) {
        return false;
    }
    s->have = 0;
    return true;
}

// The first request of each connection is made before the clock starts: what lies between may connect only then.
static void join_all(struct bench_load *l, struct stream *stream, union bench_address to)
{
    for (unsigned i = 0; i < l->connections; i++) {
        stream[i].base.fd = bench_connect(to);
        ask_once(stream[i].base.fd, to);
        bench_join(l, &stream[i].base);
    }
}

static int load(struct bench_load *l, union bench_address to, char **argv, double rate)
{
    static struct stream stream[BENCH_CONNECTIONS_MAX];
    double seconds = atof(argv[5]);
    if (!bench_plan(l, rate, atoi(argv[4]), seconds)) {
        return 2;
    }
    join_all(l, stream, to);
    bench_run(l, seconds);
    return 0;
}

// A socket stays in the network it was made in: one process can be a client on several hosts.
static void enter(const char *netns)
{
    int fd = open(netns, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        bench_fail(netns);
    }
    close(fd);
}

// Every second turn runs backwards, so that no way is always the one after a certain other.
static int turns(char **argv, unsigned ways)
{
    static struct bench_load l[WAYS_MAX];
    static struct stream stream[WAYS_MAX][BENCH_CONNECTIONS_MAX];
    long count = atol(argv[3]);
    double rps[WAYS_MAX] = {0}, seconds = atof(argv[4]) / 1e3;
    for (unsigned w = 0; w < ways; w++) {
        l[w] = (struct bench_load){.send = send_request, .take = take_answer};
        if (!bench_plan(&l[w], 0, atoi(argv[2]), seconds)) {
            return 2;
        }
        enter(argv[5 + 3 * w]);
        join_all(&l[w], stream[w], address(argv + 6 + 3 * w));
    }
    for (long t = 0; t < count; t++) {
        for (unsigned i = 0; i < ways; i++) {
            unsigned w = t % 2 ? ways - 1 - i : i;
            l[w].answers = 0;
            uint64_t took = bench_turn(&l[w], (uint64_t)(seconds * 1e9));
            rps[w] = (double)l[w].answers / ((double)took / 1e9);
        }
        for (unsigned w = 0; w < ways; w++) {
            printf("%s%.1f", w != 0 ? ", " : t == 0 ? "[[" : "],\n [", rps[w]);
        }
    }
    puts("]]");
    return 0;
}

// One connection of many; false when the other end ended it before the answer.
static bool connect_once(struct bench_load *l, union bench_address to)
{
    uint64_t began = bench_ns();
    int fd = bench_connect(to);
    size_t have = answered(fd);
    if (have < BODY) {
        tell_ended(fd, to, have);
    }
    close(fd);
    if (have < BODY) {
        return false;
    }
    l->latency[l->answers++] = bench_ns() - began;
    return true;
}

static int connect_often(struct bench_load *l, union bench_address to, char **argv)
{
    unsigned long count = strtoul(argv[4], NULL, 10);
    uint64_t start = bench_ns();
    bench_room(l, (double)count);
    for (unsigned long i = 1; i <= count; i++) {
        if (connect_once(l, to)) {
            continue;
        }
        l->ended++;
        fprintf(stderr, "bench_tcp: that was connection %lu of %lu, and the other end has ended %lu of them\n", i,
                count, (unsigned long)l->ended);
        if (l->ended * ENDED_ONE_IN > count) {
            fprintf(stderr, "bench_tcp: more than one in %d: look into the log of what lies between\n", ENDED_ONE_IN);
            return 1;
        }
    }
    bench_tell(l, (double)(bench_ns() - start) / 1e9);
    return 0;
}

static int bulk(union bench_address to, char **argv)
{
    uint64_t bytes = strtoull(argv[4], NULL, 10), start = bench_ns();
    int fd = bench_connect(to);
    for (uint64_t sent = 0; sent < bytes; sent += BULK) {
        put(fd, bulk_body, bytes - sent < BULK ? bytes - sent : BULK);
    }
    // The service closes when it has read all.
    if (shutdown(fd, SHUT_WR) != 0 || recv(fd, buffer, 1, 0) != 0) {
        bench_fail("end of the transfer");
    }
    printf("{\"bytes\": %lu, \"seconds\": %.3f}\n", (unsigned long)bytes, (double)(bench_ns() - start) / 1e9);
    return 0;
}

static bool asks(int argc, char **argv, int n, const char *what)
{
    return argc == n && strcmp(argv[1], what) == 0;
}

static bool asks_turns(int argc, char **argv)
{
    return argc > 5 && strcmp(argv[1], "turns") == 0 && (argc - 5) % 3 == 0 && (argc - 5) / 3 <= WAYS_MAX &&
           atol(argv[3]) > 0;
}

int main(int argc, char **argv)
{
    static struct bench_load l = {.send = send_request, .take = take_answer};
    signal(SIGPIPE, SIG_IGN);
    if (asks(argc, argv, 4, "serve")) {
        bench_serve(address(argv + 2), sizeof(struct stream), serve);
    }
    if (asks_turns(argc, argv)) {
        return turns(argv, (unsigned)(argc - 5) / 3);
    }
    union bench_address to = argc > 4 ? address(argv + 2) : (union bench_address){0};
    if (asks(argc, argv, 7, "rate") && atof(argv[6]) > 0) {
        return load(&l, to, argv, atof(argv[6]));
    }
    if (asks(argc, argv, 5, "connect")) {
        return connect_often(&l, to, argv);
    }
    if (asks(argc, argv, 5, "bulk")) {
        return bulk(to, argv);
    }
    fprintf(stderr, "usage: bench_tcp serve ADDRESS PORT | rate ADDRESS PORT "
                    "CONNECTIONS SECONDS RATE | turns CONNECTIONS TURNS MILLISECONDS NETNS ADDRESS PORT ..."
                    " | connect ADDRESS PORT COUNT | bulk ADDRESS PORT BYTES\n");
    return 2;
}
