// SPDX-License-Identifier: Apache-2.0
// What a hop over UDP sockets costs at least: a forwarder that does nothing but forward, between the ends of the
// proxy comparison. A generator sends 64-byte requests at times of its own (open loop, Poisson); a service answers
// straight to it. In between lies nothing, or a forwarder that waits with epoll and moves batches (the shape of our
// driver), or one that sleeps in the receive itself (the fewest system calls there can be). With FEEDBACK the service
// also sends the forwarder one message for each answer, which it takes before its next requests and not sooner.
//   bench_hop RATE SECONDS direct|epoll|block [feedback]      prints one JSON object, processor time per request
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"

enum { BATCH = 64, BYTES = 64 };

#define SECOND UINT64_C(1000000000)

// What a request carries: where its answer goes, and FEEDBACK if any.
struct request {
    struct sockaddr_in client, feedback;
    char rest[BYTES - 2 * sizeof(struct sockaddr_in)];
};

struct batch {
    struct mmsghdr msgs[BATCH];
    struct iovec iov[BATCH];
    struct request data[BATCH];
};

struct bed {
    int client, service, hop, hop_feedback; // sockets
    struct sockaddr_in to_service, to_hop, to_feedback;
    pid_t served_by, forwarded_by; // 0: no forwarder
};

static uint64_t clock_ns(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static uint64_t spent_ns(pid_t pid)
{
    clockid_t of;
    return pid != 0 && clock_getcpuclockid(pid, &of) == 0 ? clock_ns(of) : 0;
}

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "bench_hop: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_socket(struct sockaddr_in *at)
{
    int room = 4 << 20;
    socklen_t len = sizeof *at;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof *at) != 0 ||
        getsockname(fd, (struct sockaddr *)at, &len) != 0) {
        fail("bind");
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    return fd;
}

static void prepare(struct batch *b)
{
    for (unsigned i = 0; i < BATCH; i++) {
        b->iov[i] = (struct iovec){.iov_base = &b->data[i], .iov_len = BYTES};
        b->msgs[i].msg_hdr = (struct msghdr){.msg_iov = &b->iov[i], .msg_iovlen = 1};
    }
}

static int receive(int fd, struct batch *b, int flags)
{
    for (unsigned i = 0; i < BATCH; i++) {
        b->msgs[i].msg_hdr.msg_name = NULL;
        b->msgs[i].msg_hdr.msg_namelen = 0;
    }
    return recvmmsg(fd, b->msgs, BATCH, flags, NULL);
}

static void send_all(int fd, struct mmsghdr *msgs, int n)
{
    for (int at = 0, sent; at < n; at += sent) {
        if ((sent = sendmmsg(fd, msgs + at, (unsigned)(n - at), 0)) <= 0) {
            fail("sendmmsg");
        }
    }
}

static void watch(int epoll_fd, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
        fail("epoll_ctl");
    }
}

static void forward(const struct bed *bed, struct batch *b, int n)
{
    for (int i = 0; i < n; i++) {
        b->msgs[i].msg_hdr.msg_name = (void *)&bed->to_service;
        b->msgs[i].msg_hdr.msg_namelen = sizeof bed->to_service;
    }
    send_all(bed->hop, b->msgs, n);
}

_Noreturn static void forward_for_ever(const struct bed *bed, bool with_epoll, bool feedback)
{
    static struct batch b;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    prepare(&b);
    watch(epoll_fd, bed->hop);
    for (;;) {
        struct epoll_event ev;
        if (with_epoll && epoll_wait(epoll_fd, &ev, 1, -1) < 0) {
            fail("epoll_wait");
        }
        int n = with_epoll ? 0 : receive(bed->hop, &b, MSG_WAITFORONE);
        if (!with_epoll && n > 0) {
            forward(bed, &b, n);
        }
        while (feedback && receive(bed->hop_feedback, &b, MSG_DONTWAIT) == BATCH) {
        }
        if (with_epoll && (n = receive(bed->hop, &b, MSG_DONTWAIT)) > 0) {
            forward(bed, &b, n);
        }
    }
}

// Answers, each followed by its FEEDBACK, leave in one call.
_Noreturn static void serve_for_ever(const struct bed *bed, bool feedback)
{
    static struct batch b;
    static struct mmsghdr out[2 * BATCH];
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    prepare(&b);
    watch(epoll_fd, bed->service);
    for (;;) {
        struct epoll_event ev;
        int n = epoll_wait(epoll_fd, &ev, 1, -1) > 0 ? receive(bed->service, &b, MSG_DONTWAIT) : 0;
        int k = 0;
        for (int i = 0; i < n; i++) {
            out[k] = b.msgs[i];
            out[k].msg_hdr.msg_name = &b.data[i].client;
            out[k++].msg_hdr.msg_namelen = sizeof b.data[i].client;
            if (feedback) {
                out[k] = b.msgs[i];
                out[k].msg_hdr.msg_name = &b.data[i].feedback;
                out[k++].msg_hdr.msg_namelen = sizeof b.data[i].feedback;
            }
        }
        send_all(bed->service, out, k);
    }
}

static pid_t child(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        fail("fork");
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1); // it had gone before we asked
        }
    }
    return pid;
}

static struct bed start(const char *variant, bool feedback)
{
    struct bed bed = {0};
    struct sockaddr_in client;
    bool direct = strcmp(variant, "direct") == 0;
    bed.client = open_socket(&client);
    bed.service = open_socket(&bed.to_service);
    bed.hop = open_socket(&bed.to_hop);
    bed.hop_feedback = open_socket(&bed.to_feedback);
    if ((bed.served_by = child()) == 0) {
        serve_for_ever(&bed, feedback && !direct);
    }
    if (!direct && (bed.forwarded_by = child()) == 0) {
        forward_for_ever(&bed, strcmp(variant, "epoll") == 0, feedback);
    }
    return bed;
}

// Sends requests when they are due and takes answers until `end_ns`; returns how many came.
static uint64_t drive(const struct bed *bed, double rate, uint64_t end_ns)
{
    static struct batch b;
    struct bt_rng rng;
    struct request rq = {.feedback = bed->to_feedback};
    const struct sockaddr_in *to = bed->forwarded_by != 0 ? &bed->to_hop : &bed->to_service;
    socklen_t len = sizeof rq.client;
    uint64_t answers = 0, now = clock_ns(CLOCK_MONOTONIC), due = now;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    getsockname(bed->client, (struct sockaddr *)&rq.client, &len);
    bt_rng_seed(&rng, now);
    prepare(&b);
    watch(epoll_fd, bed->client);
    for (; now < end_ns; now = clock_ns(CLOCK_MONOTONIC)) {
        for (; due <= now; due += (uint64_t)(-1e9 / rate * log(1 - bt_rng_unit(&rng)))) {
            if (sendto(bed->client, &rq, sizeof rq, 0, (const struct sockaddr *)to, sizeof *to) != sizeof rq) {
                fail("sendto");
            }
        }
        struct timespec t = {.tv_nsec = (long)(due - now < SECOND ? due - now : SECOND - 1)};
        struct epoll_event ev;
        if (epoll_pwait2(epoll_fd, &ev, 1, &t, NULL) > 0) {
            int n = receive(bed->client, &b, MSG_DONTWAIT);
            answers += n > 0 ? (uint64_t)n : 0;
        }
    }
    return answers;
}

static bool known(const char *variant)
{
    return strcmp(variant, "direct") == 0 || strcmp(variant, "epoll") == 0 || strcmp(variant, "block") == 0;
}

int main(int argc, char **argv)
{
    double rate = argc > 3 ? atof(argv[1]) : 0, seconds = argc > 3 ? atof(argv[2]) : 0;
    bool feedback = argc > 4 && strcmp(argv[4], "feedback") == 0;
    if (rate <= 0 || seconds <= 0 || !known(argv[3]) || (argc > 4 && !feedback)) {
        fprintf(stderr, "usage: bench_hop RATE SECONDS direct|epoll|block [feedback]\n");
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1UL); // the default adds 50 us to every pause
    struct bed bed = start(argv[3], feedback);
    uint64_t begin = clock_ns(CLOCK_MONOTONIC);
    uint64_t answers = drive(&bed, rate, begin + (uint64_t)(seconds * 1e9));
    double per = answers != 0 ? 1e3 * (double)answers : 1e3;
    printf("{\"answers\": %lu, \"achievedRps\": %.1f, \"generatorMicroseconds\": %.2f, "
           "\"serviceMicroseconds\": %.2f, \"forwarderMicroseconds\": %.2f}\n",
           (unsigned long)answers, (double)answers / seconds, (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / per,
           (double)spent_ns(bed.served_by) / per, (double)spent_ns(bed.forwarded_by) / per);
    kill(bed.served_by, SIGKILL);
    if (bed.forwarded_by != 0) {
        kill(bed.forwarded_by, SIGKILL);
    }
    while (wait(NULL) > 0) {
    }
    return 0;
}
