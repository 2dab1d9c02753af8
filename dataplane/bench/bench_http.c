// SPDX-License-Identifier: Apache-2.0
// The two ends of the HTTP side of the proxy comparison: an echo service and an open-loop generator, both single
// threads on epoll. They do as little as HTTP/1.1 with keep-alive allows, so that what lies between them (nothing, or
// a reverse proxy) is what the machine spends its time on.
//   bench_http serve PORT
//   bench_http load PORT RATE CONNECTIONS SECONDS      prints one JSON object
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

enum { BODY = 64, BUFFER = 4096, EVENTS = 64, CONNECTIONS_MAX = 1024 };

#define SECOND UINT64_C(1000000000)

struct stream {
    int fd;
    size_t have;
    uint64_t due_ns; // of the request in flight
    char in[BUFFER];
};

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_http: %s: %s\n", what, strerror(errno));
    exit(1);
}

// Length of the first whole message in s, 0 if it is not all there; its body in *body.
static size_t whole_message(struct stream *s, const char **body)
{
    s->in[s->have] = '\0';
    const char *end = strstr(s->in, "\r\n\r\n");
    if (end == NULL) {
        return 0;
    }
    // Proxies change the case of header names.
    const char *length = strcasestr(s->in, "content-length:");
    size_t n = length != NULL && length < end ? strtoul(length + 15, NULL, 10) : 0;
    size_t total = (size_t)(end + 4 - s->in) + n;
    if (n != BODY || total > BUFFER - 1) {
        fprintf(stderr, "bench_http: a message whose body is not %d bytes: %.200s\n", BODY, s->in);
        exit(1);
    }
    *body = end + 4;
    return s->have >= total ? total : 0;
}

// Reads what is there. False when the peer closed.
static bool take(struct stream *s)
{
    ssize_t n = recv(s->fd, s->in + s->have, BUFFER - 1 - s->have, MSG_DONTWAIT);
    if (n > 0) {
        s->have += (size_t)n;
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void consume(struct stream *s, size_t n)
{
    memmove(s->in, s->in + n, s->have - n);
    s->have -= n;
}

static void put(int fd, const char *head, const char *body)
{
    char out[512];
    size_t n = strlen(head);
    memcpy(out, head, n);
    memcpy(out + n, body, BODY);
    if (send(fd, out, n + BODY, MSG_NOSIGNAL) != (ssize_t)(n + BODY)) { // a few hundred bytes of an idle socket
        fail("send");
    }
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

static struct sockaddr_in loopback(const char *port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
}

static void serve_one(struct stream *s)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 64\r\n\r\n";
    const char *body;
    size_t n;
    if (!take(s)) {
        close(s->fd);
        free(s);
        return;
    }
    while ((n = whole_message(s, &body)) != 0) {
        put(s->fd, head, body);
        consume(s, n);
    }
}

_Noreturn static void serve(const char *port)
{
    struct sockaddr_in at = loopback(port);
    int on = 1;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
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
    struct stream *stream[CONNECTIONS_MAX];
    struct stream *idle[CONNECTIONS_MAX];
    unsigned connections, idle_n;
    int epoll_fd;
    struct bt_rng rng;
    double mean_gap_ns;
    uint64_t due_ns, end_ns; // of the next request; no request is due at or after end
    uint64_t *latency;       // of every answer
    uint64_t answers, capacity;
};

static void connect_all(struct load *l, const char *port)
{
    struct sockaddr_in to = loopback(port);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < l->connections; i++) {
        struct stream *s = calloc(1, sizeof *s);
        if (s == NULL || (s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 ||
            connect(s->fd, (struct sockaddr *)&to, sizeof to) != 0) {
            fail("connect");
        }
        watch(l->epoll_fd, s->fd, s);
        l->stream[i] = l->idle[l->idle_n++] = s;
    }
}

// Sends what is due while a connection is free; what finds none stays due, and its latency counts from then.
static void send_due(struct load *l, uint64_t now)
{
    static const char head[] = "POST /echo HTTP/1.1\r\nHost: echo\r\nContent-Length: 64\r\n\r\n";
    static const char body[BODY] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde";
    while (l->due_ns <= now && l->due_ns < l->end_ns && l->idle_n > 0) {
        struct stream *s = l->idle[--l->idle_n];
        s->due_ns = l->due_ns;
        put(s->fd, head, body);
        l->due_ns += (uint64_t)(-l->mean_gap_ns * log(1 - bt_rng_unit(&l->rng)));
    }
}

static void take_answer(struct load *l, struct stream *s)
{
    const char *body;
    if (!take(s)) {
        fprintf(stderr, "bench_http: the service closed a connection\n");
        exit(1);
    }
    size_t n = whole_message(s, &body);
    if (n == 0) {
        return;
    }
    if (strncmp(s->in, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "bench_http: the answer is not 200: %.100s\n", s->in);
        exit(1);
    }
    consume(s, n);
    l->idle[l->idle_n++] = s;
    if (l->answers < l->capacity) {
        l->latency[l->answers++] = nanoseconds() - s->due_ns;
    }
}

static void load_loop(struct load *l)
{
    struct epoll_event ev[EVENTS];
    while (l->due_ns < l->end_ns || l->idle_n < l->connections) {
        uint64_t now = nanoseconds();
        send_due(l, now);
        bool waiting = l->due_ns >= l->end_ns || l->idle_n == 0; // then only an answer is of use
        uint64_t gap = l->due_ns > now ? l->due_ns - now : 0;
        struct timespec t = {.tv_sec = (time_t)(gap / SECOND), .tv_nsec = (long)(gap % SECOND)};
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

static int load(char **argv)
{
    static struct load l;
    double rate = atof(argv[3]), seconds = atof(argv[5]);
    l.connections = (unsigned)atoi(argv[4]);
    if (rate <= 0 || seconds <= 0 || l.connections < 1 || l.connections > CONNECTIONS_MAX) {
        fprintf(stderr, "bench_http: RATE and SECONDS must be above 0, CONNECTIONS 1..%d\n", CONNECTIONS_MAX);
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1UL); // the default adds 50 us to every pause
    l.capacity = (uint64_t)(rate * seconds * 1.5) + 1000;
    l.latency = calloc(l.capacity, sizeof *l.latency);
    if (l.latency == NULL) {
        fail("calloc");
    }
    bt_rng_seed(&l.rng, nanoseconds());
    l.mean_gap_ns = 1e9 / rate;
    connect_all(&l, argv[2]);
    uint64_t start = l.due_ns = nanoseconds();
    l.end_ns = start + (uint64_t)(seconds * 1e9);
    load_loop(&l);
    double took = (double)(nanoseconds() - start) / 1e9;
    qsort(l.latency, l.answers, sizeof *l.latency, ascending);
    printf("{\"completed\": %lu, \"achievedRps\": %.1f, \"p50Microseconds\": %.1f, \"p99Microseconds\": %.1f}\n",
           (unsigned long)l.answers, (double)l.answers / took,
           l.answers != 0 ? (double)l.latency[l.answers / 2] / 1e3 : 0,
           l.answers != 0 ? (double)l.latency[l.answers * 99 / 100] / 1e3 : 0);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        serve(argv[2]);
    }
    if (argc == 6 && strcmp(argv[1], "load") == 0) {
        return load(argv);
    }
    fprintf(stderr, "usage: bench_http serve PORT | bench_http load PORT RATE CONNECTIONS SECONDS\n");
    return 2;
}
