// SPDX-License-Identifier: Apache-2.0
// The two ends of the TCP comparisons (hack/bench/crab_*.py): an echo service and its clients, single threads on epoll.
// They send 64 bytes and take 64 bytes, so that what lies between them is what a run tells apart.
//   bench_tcp serve ADDRESS PORT
//   bench_tcp closed ADDRESS PORT CONNECTIONS SECONDS       long connections, the next request as soon as the answer is
//   there bench_tcp rate ADDRESS PORT CONNECTIONS SECONDS RATE    long connections, requests at random times bench_tcp
//   connect ADDRESS PORT COUNT                    one after the other: connect, request, answer, close bench_tcp bulk
//   ADDRESS PORT BYTES                       one connection that sends so much
// The clients print one JSON object.
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"

enum { BODY = 64, BULK = 1 << 16, EVENTS = 64, CONNECTIONS_MAX = 1024 };

#define SECOND UINT64_C(1000000000)

// The first byte of a connection says what the service shall do with all of them.
static const char echo_body[BODY] = "echo";
static const char bulk_body[BULK] = "take";

struct stream {
    int fd;
    unsigned have;   // bytes of the answer so far
    uint64_t due_ns; // of the request in flight
    bool known, takes;
};

static char buffer[BULK];

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "bench_tcp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct sockaddr_in address(char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
    if (inet_pton(AF_INET, argv[2], &a.sin_addr) != 1 || a.sin_port == 0) {
        fprintf(stderr, "bench_tcp: %s %s: not an IPv4 address and a port\n", argv[2], argv[3]);
        exit(2);
    }
    return a;
}

static void watch(int epoll_fd, int fd, void *what)
{
    struct epoll_event e = {.events = EPOLLIN, .data = {.ptr = what}};
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
        fail("epoll_ctl");
    }
}

static void put(int fd, const char *what, size_t n)
{
    for (size_t sent = 0; sent < n;) {
        ssize_t s = send(fd, what + sent, n - sent, MSG_NOSIGNAL);
        if (s <= 0 && errno != EINTR) {
            fail("send");
        }
        sent += s > 0 ? (size_t)s : 0;
    }
}

static void serve_one(struct stream *s)
{
    ssize_t n = recv(s->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        close(s->fd);
        free(s);
        return;
    }
    if (n > 0 && !s->known) {
        s->known = true;
        s->takes = buffer[0] == bulk_body[0];
    }
    if (n > 0 && !s->takes && send(s->fd, buffer, (size_t)n, MSG_NOSIGNAL) != n) { // 64 bytes of an idle socket
        close(s->fd);
        free(s);
    }
}

_Noreturn static void serve(struct sockaddr_in at)
{
    int on = 1, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1024) != 0) {
        fail("listen");
    }
    watch(epoll_fd, listener, NULL);
    for (;;) {
        struct epoll_event ev[EVENTS];
        int n = epoll_wait(epoll_fd, ev, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (ev[i].data.ptr != NULL) {
                serve_one(ev[i].data.ptr);
                continue;
            }
            struct stream *s = calloc(1, sizeof *s);
            if (s == NULL || (s->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
                fail("accept");
            }
            watch(epoll_fd, s->fd, s);
        }
    }
}

struct load {
    struct sockaddr_in to;
    struct stream stream[CONNECTIONS_MAX], *idle[CONNECTIONS_MAX];
    unsigned connections, idle_n;
    int epoll_fd;
    struct bt_rng rng;
    double mean_gap_ns;      // 0: closed loop
    uint64_t due_ns, end_ns; // of the next request; none is due at or after end
    uint64_t *latency;       // of every answer
    uint64_t answers, capacity;
};

static int connected(struct sockaddr_in to)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        fail("connect");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

// The first request of each connection is made before the clock starts: what lies between may connect only then.
static void connect_all(struct load *l)
{
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < l->connections; i++) {
        struct stream *s = &l->stream[i];
        s->fd = connected(l->to);
        put(s->fd, echo_body, BODY);
        if (recv(s->fd, buffer, BODY, MSG_WAITALL) != BODY) {
            fail("first answer");
        }
        watch(l->epoll_fd, s->fd, s);
        l->idle[l->idle_n++] = s;
    }
}

// Sends what is due while a connection is free; what finds none stays due, and its latency counts from then.
static void send_due(struct load *l, uint64_t now)
{
    while (l->due_ns <= now && now < l->end_ns && l->idle_n > 0) {
        struct stream *s = l->idle[--l->idle_n];
        s->due_ns = l->mean_gap_ns > 0 ? l->due_ns : now;
        put(s->fd, echo_body, BODY);
        if (l->mean_gap_ns > 0) {
            l->due_ns += (uint64_t)(-l->mean_gap_ns * log(1 - bt_rng_unit(&l->rng)));
        }
    }
}

static void take_answer(struct load *l, struct stream *s)
{
    ssize_t n = recv(s->fd, buffer, BODY - s->have, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        fail("a connection ended");
    }
    s->have += n > 0 ? (unsigned)n : 0;
    if (s->have < BODY) {
        return;
    }
    s->have = 0;
    l->idle[l->idle_n++] = s;
    if (l->answers < l->capacity) {
        l->latency[l->answers++] = nanoseconds() - s->due_ns;
    }
}

static void load_loop(struct load *l)
{
    struct epoll_event ev[EVENTS];
    for (uint64_t now = nanoseconds(); now < l->end_ns || l->idle_n < l->connections; now = nanoseconds()) {
        send_due(l, now);
        bool waiting = l->due_ns >= l->end_ns || l->idle_n == 0; // then only an answer is of use
        uint64_t gap = l->due_ns > now ? l->due_ns - now : 0;
        struct timespec t = {.tv_sec = (time_t)(gap / SECOND), .tv_nsec = (long)(gap % SECOND)};
        if (waiting && l->idle_n == l->connections) {
            break;
        }
        int n = epoll_pwait2(l->epoll_fd, ev, EVENTS, waiting ? NULL : &t, NULL);
        for (int i = 0; i < n; i++) {
            take_answer(l, ev[i].data.ptr);
        }
    }
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double at_share(const struct load *l, double share)
{
    return l->answers != 0 ? (double)l->latency[(uint64_t)((double)l->answers * share)] / 1e3 : 0;
}

static void tell(struct load *l, double took)
{
    qsort(l->latency, l->answers, sizeof *l->latency, ascending);
    printf("{\"completed\": %lu, \"achievedRps\": %.1f, \"p50Microseconds\": %.2f, \"p99Microseconds\": %.2f}\n",
           (unsigned long)l->answers, (double)l->answers / took, at_share(l, 0.5), at_share(l, 0.99));
}

static void room(struct load *l, double answers)
{
    l->capacity = (uint64_t)answers;
    l->latency = calloc(l->capacity, sizeof *l->latency);
    if (l->latency == NULL) {
        fail("calloc");
    }
}

static int load(struct load *l, char **argv, double rate)
{
    double seconds = atof(argv[5]);
    l->connections = (unsigned)atoi(argv[4]);
    if (rate < 0 || seconds <= 0 || l->connections < 1 || l->connections > CONNECTIONS_MAX) {
        fprintf(stderr, "bench_tcp: RATE and SECONDS must be above 0, CONNECTIONS 1..%d\n", CONNECTIONS_MAX);
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1UL); // the default adds 50 us to every pause
    room(l, (rate > 0 ? rate * 1.5 : 2e6) * seconds + 1000);
    bt_rng_seed(&l->rng, nanoseconds());
    l->mean_gap_ns = rate > 0 ? 1e9 / rate : 0;
    connect_all(l);
    uint64_t start = l->due_ns = nanoseconds();
    l->end_ns = start + (uint64_t)(seconds * 1e9);
    load_loop(l);
    tell(l, (double)(nanoseconds() - start) / 1e9);
    return 0;
}

static int connect_often(struct load *l, char **argv)
{
    uint64_t count = strtoull(argv[4], NULL, 10), start = nanoseconds();
    room(l, (double)count);
    while (l->answers < count) {
        uint64_t began = nanoseconds();
        int fd = connected(l->to);
        put(fd, echo_body, BODY);
        if (recv(fd, buffer, BODY, MSG_WAITALL) != BODY) {
            fail("answer");
        }
        close(fd);
        l->latency[l->answers++] = nanoseconds() - began;
    }
    tell(l, (double)(nanoseconds() - start) / 1e9);
    return 0;
}

static int bulk(struct load *l, char **argv)
{
    uint64_t bytes = strtoull(argv[4], NULL, 10), start = nanoseconds();
    int fd = connected(l->to);
    for (uint64_t sent = 0; sent < bytes; sent += BULK) {
        put(fd, bulk_body, bytes - sent < BULK ? bytes - sent : BULK);
    }
    // The service closes when it has read all.
    if (shutdown(fd, SHUT_WR) != 0 || recv(fd, buffer, 1, 0) != 0) {
        fail("end of the transfer");
    }
    printf("{\"bytes\": %lu, \"seconds\": %.3f}\n", (unsigned long)bytes, (double)(nanoseconds() - start) / 1e9);
    return 0;
}

int main(int argc, char **argv)
{
    static struct load l;
    signal(SIGPIPE, SIG_IGN);
    if (argc == 4 && strcmp(argv[1], "serve") == 0) {
        serve(address(argv));
    }
    if (argc > 4) {
        l.to = address(argv);
    }
    if (argc == 6 && strcmp(argv[1], "closed") == 0) {
        return load(&l, argv, 0);
    }
    if (argc == 7 && strcmp(argv[1], "rate") == 0) {
        return load(&l, argv, atof(argv[6]));
    }
    if (argc == 5 && strcmp(argv[1], "connect") == 0) {
        return connect_often(&l, argv);
    }
    if (argc == 5 && strcmp(argv[1], "bulk") == 0) {
        return bulk(&l, argv);
    }
    fprintf(stderr, "usage: bench_tcp serve ADDRESS PORT | closed ADDRESS PORT CONNECTIONS SECONDS | rate ADDRESS PORT "
                    "CONNECTIONS SECONDS RATE"
                    " | connect ADDRESS PORT COUNT | bulk ADDRESS PORT BYTES\n");
    return 2;
}
