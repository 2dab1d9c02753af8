// SPDX-License-Identifier: Apache-2.0
// See tcp_ends.h.
#include "tcp_ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64 };

#define SECOND UINT64_C(1000000000)

uint64_t bench_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

void bench_fail(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
    exit(1);
}

static void watch(int epoll_fd, int fd, void *what)
{
    struct epoll_event e = {.events = EPOLLIN, .data = {.ptr = what}};
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
        bench_fail("epoll_ctl");
    }
}

static socklen_t size_of(const union bench_address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof a->six : sizeof a->four;
}

unsigned bench_address_text(const union bench_address *a, char *text)
{
    bool six = a->any.sa_family == AF_INET6;
    const void *ip = six ? (const void *)&a->six.sin6_addr : (const void *)&a->four.sin_addr;

    (void)inet_ntop(a->any.sa_family, ip, text, INET6_ADDRSTRLEN);
    return ntohs(six ? a->six.sin6_port : a->four.sin_port);
}

void bench_serve(union bench_address at, size_t bytes, bool (*serve)(struct bench_stream *s))
{
    int on = 1, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int listener = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, &at.any, size_of(&at)) != 0 || listen(listener, 1024) != 0) {
        bench_fail("listen");
    }
    watch(epoll_fd, listener, NULL);
    for (;;) {
        struct epoll_event ev[EVENTS];
        int n = epoll_wait(epoll_fd, ev, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            struct bench_stream *s = ev[i].data.ptr;
            if (s == NULL) {
                s = calloc(1, bytes);
                if (s == NULL || (s->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
                    bench_fail("accept");
                }
                watch(epoll_fd, s->fd, s);
            } else if (!serve(s)) {
                close(s->fd);
                free(s);
            }
        }
    }
}

int bench_connect(union bench_address to)
{
    int on = 1, fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &to.any, size_of(&to)) != 0) {
        char what[64] = "connect to ";
        int why = errno;
        (void)bench_address_text(&to, what + strlen(what));
        errno = why;
        bench_fail(what);
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

void bench_join(struct bench_load *l, struct bench_stream *s)
{
    watch(l->epoll_fd, s->fd, s);
    l->idle[l->idle_n++] = s;
}

void bench_room(struct bench_load *l, double answers)
{
    l->capacity = (uint64_t)answers;
    l->latency = calloc(l->capacity, sizeof *l->latency);
    if (l->latency == NULL) {
        bench_fail("calloc");
    }
}

bool bench_plan(struct bench_load *l, double rate, int connections, double seconds)
{
    if (!(rate >= 0) || !(seconds > 0) || connections < 1 || connections > BENCH_CONNECTIONS_MAX) {
        fprintf(stderr, "%s: RATE and SECONDS must be above 0, CONNECTIONS 1..%d\n", program_invocation_short_name,
                BENCH_CONNECTIONS_MAX);
        return false;
    }
    prctl(PR_SET_TIMERSLACK, 1UL); // the default adds 50 us to every pause
    bench_room(l, (rate > 0 ? rate * 1.5 : 2e6) * seconds + 1000);
    bt_rng_seed(&l->rng, bench_ns());
    l->mean_gap_ns = rate > 0 ? 1e9 / rate : 0;
    l->connections = (unsigned)connections;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return true;
}

static uint64_t next_due(const struct bench_load *l, uint64_t now)
{
    return l->mean_gap_ns > 0 ? l->due_ns : now;
}

// Sends what is due while a connection is free; what finds none stays due, and its latency counts from then.
static void send_due(struct bench_load *l, uint64_t now)
{
    for (uint64_t due; l->idle_n > 0 && (due = next_due(l, now)) <= now && due < l->end_ns;) {
        struct bench_stream *s = l->idle[--l->idle_n];
        s->due_ns = due;
        l->send(s);
        l->due_ns += (uint64_t)(-l->mean_gap_ns * log(1 - bt_rng_unit(&l->rng)));
    }
}

static void take_answers(struct bench_load *l, const struct timespec *patience)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_pwait2(l->epoll_fd, ev, EVENTS, patience, NULL);
    for (int i = 0; i < n; i++) {
        struct bench_stream *s = ev[i].data.ptr;
        if (!l->take(s)) {
            continue;
        }
        l->idle[l->idle_n++] = s;
        if (l->answers < l->capacity) {
            l->latency[l->answers++] = bench_ns() - s->due_ns;
        }
    }
}

uint64_t bench_turn(struct bench_load *l, uint64_t ns)
{
    uint64_t start = bench_ns(), now = start;
    l->due_ns = start;
    l->end_ns = start + ns;
    for (; next_due(l, now) < l->end_ns || l->idle_n < l->connections; now = bench_ns()) {
        send_due(l, now);
        bool waiting = next_due(l, now) >= l->end_ns || l->idle_n == 0; // then only an answer is of use
        uint64_t gap = l->due_ns > now ? l->due_ns - now : 0;
        struct timespec t = {.tv_sec = (time_t)(gap / SECOND), .tv_nsec = (long)(gap % SECOND)};
        take_answers(l, waiting ? NULL : &t);
    }
    return now - start;
}

void bench_run(struct bench_load *l, double seconds)
{
    bench_tell(l, (double)bench_turn(l, (uint64_t)(seconds * 1e9)) / 1e9);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double at_share(const struct bench_load *l, double share)
{
    return l->answers != 0 ? (double)l->latency[(uint64_t)((double)l->answers * share)] / 1e3 : 0;
}

void bench_tell(struct bench_load *l, double took_seconds)
{
    qsort(l->latency, l->answers, sizeof *l->latency, ascending);
    printf("{\"completed\": %lu, \"ended\": %lu, \"achievedRps\": %.1f, \"p50Microseconds\": %.2f, "
           "\"p99Microseconds\": %.2f}\n",
           (unsigned long)l->answers, (unsigned long)l->ended, (double)l->answers / took_seconds, at_share(l, 0.5),
           at_share(l, 0.99));
}
