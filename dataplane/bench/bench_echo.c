// SPDX-License-Identifier: Apache-2.0
// Both ends of an echo over loopback, through libbobtail's public calls and through plain UDP sockets, in a closed
// loop: WINDOW requests of 64 bytes are always outstanding. The plain side is what one would write by hand: batches
// of recvmmsg and sendmmsg, a blocking socket, no state; udp-segments sends a batch as one message that the kernel cuts
// apart, as libbobtail's driver does.
// bobtail-default has the timers every endpoint has that does not ask for others: a request id then rests for so long
// that one client port runs out of them, and requests wait for one.
//   bench_echo bobtail|bobtail-default|udp|udp-segments serve PORT
//   bench_echo bobtail|bobtail-default|udp|udp-segments call PORT WINDOW SECONDS      prints one JSON object
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "bobtail/r2p2.h"

enum { BODY = 64, BATCH = 64, WINDOW_MAX = 1024, TIMEOUT_US = 2000000, IDS = 65536 };

struct run {
    uint64_t start_ns, end_ns;
    uint64_t answers, lost;
    uint64_t rounds_ns; // when every id had last been used once more; 0: never
    bool over;
};

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "bench_echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int report(const struct run *run)
{
    // Whoever waits for ids uses them in bursts: whole ones count.
    uint64_t end = run->rounds_ns != 0 ? run->rounds_ns : nanoseconds();
    uint64_t answers = run->rounds_ns != 0 ? run->answers / IDS * IDS : run->answers;
    double seconds = (double)(end - run->start_ns) / 1e9;
    printf("{\"completed\": %lu, \"lost\": %lu, \"rps\": %.1f}\n", (unsigned long)answers, (unsigned long)run->lost,
           (double)answers / seconds);
    return 0;
}

// --- libbobtail -------------------------------------------------------------

struct caller {
    struct r2p2_endpoint *ep;
    struct r2p2_ctx ctx[WINDOW_MAX];
    struct r2p2_host_tuple to;
    struct run run;
    unsigned outstanding;
    struct slot *waiting[WINDOW_MAX]; // for a request id
    unsigned waiting_n;
    bool waited;
    uint64_t bursts; // of all ids, since then
    char body[BODY];
};

struct slot {
    struct caller *c;
    struct r2p2_ctx *ctx;
};

// False: no request id is free.
static bool call_now(struct slot *s)
{
    struct iovec iov = {.iov_base = s->c->body, .iov_len = BODY};
    int result = r2p2_endpoint_send_req(s->c->ep, &iov, 1, s->ctx);
    if (result == R2P2_ERR_NO_ID) {
        return false;
    }
    if (result != 0) {
        fprintf(stderr, "bench_echo: a request could not be sent: %d\n", result);
        exit(1);
    }
    s->c->outstanding++;
    return true;
}

static void call_again(struct slot *s)
{
    if (!s->c->run.over && !call_now(s)) {
        s->c->waiting[s->c->waiting_n++] = s;
    }
}

static void call_waiting(struct caller *c)
{
    if (c->waiting_n > 0 && !c->waited) { // the ids it began with are no throughput
        c->waited = true;
        c->run.answers = 0;
        c->run.start_ns = nanoseconds();
    }
    if (c->waited && c->run.answers / IDS != c->bursts) {
        c->bursts = c->run.answers / IDS;
        c->run.rounds_ns = nanoseconds();
    }
    while (c->waiting_n > 0 && (c->run.over || call_now(c->waiting[c->waiting_n - 1]))) {
        c->waiting_n--;
    }
}

static void on_answer(r2p2_handle_t handle, void *arg, struct iovec *iov, int iovcnt)
{
    struct slot *s = arg;
    if (iovcnt != 1 || iov->iov_len != BODY || memcmp(iov->iov_base, s->c->body, BODY) != 0) {
        fprintf(stderr, "bench_echo: the answer is not its request\n");
        exit(1);
    }
    r2p2_endpoint_recv_resp_done(s->c->ep, handle);
    s->c->run.answers++;
    s->c->outstanding--;
    call_again(s);
}

static void on_timeout(void *arg)
{
    struct slot *s = arg;
    s->c->run.lost++;
    s->c->outstanding--;
    call_again(s);
}

static void on_error(void *arg, int err)
{
    (void)err;
    on_timeout(arg);
}

static struct r2p2_endpoint *open_endpoint(uint16_t port, bool fast, const struct r2p2_endpoint_ops *ops)
{
    char why[256];
    // Timers of pinned processors: a request id rests 16 ms after use, so that one port's 65,536 carry 4 M requests/s.
    struct r2p2_config cfg = {
        .size = sizeof cfg, .port = port, .queue_depth = 64, .max_pending = 4096, .fast_timers = fast};
    struct r2p2_endpoint *ep = r2p2_endpoint_open(&cfg, ops, why, sizeof why);
    if (ep == NULL) {
        fprintf(stderr, "bench_echo: %s\n", why);
        exit(1);
    }
    return ep;
}

static int bobtail_call(uint16_t port, bool fast, unsigned window, double seconds)
{
    static struct caller c;
    static struct slot slot[WINDOW_MAX];
    c.ep = open_endpoint(0, fast, NULL);
    c.to = (struct r2p2_host_tuple){INADDR_LOOPBACK, port};
    memset(c.body, 'x', BODY);
    c.run.start_ns = nanoseconds();
    c.run.end_ns = c.run.start_ns + (uint64_t)(seconds * 1e9);
    for (unsigned i = 0; i < window; i++) {
        slot[i] = (struct slot){&c, &c.ctx[i]};
        c.ctx[i] = (struct r2p2_ctx){.success_cb = on_answer,
                                     .error_cb = on_error,
                                     .timeout_cb = on_timeout,
                                     .arg = &slot[i],
                                     .timeout = TIMEOUT_US,
                                     .destination = &c.to};
        call_again(&slot[i]);
    }
    while (c.outstanding + c.waiting_n > 0) {
        r2p2_endpoint_wait(c.ep, c.waiting_n > 0 ? 1000 : -1);
        r2p2_endpoint_poll(c.ep);
        c.run.over = nanoseconds() >= c.run.end_ns;
        call_waiting(&c);
    }
    report(&c.run);
    r2p2_endpoint_close(c.ep);
    return 0;
}

static void on_request(void *arg, r2p2_handle_t handle, struct iovec *iov, int iovcnt)
{
    struct r2p2_endpoint **ep = arg;
    r2p2_endpoint_send_response(*ep, handle, iov, iovcnt);
}

_Noreturn static void bobtail_serve(uint16_t port, bool fast)
{
    static struct r2p2_endpoint *ep;
    const struct r2p2_endpoint_ops ops = {.recv = on_request, .arg = &ep};
    ep = open_endpoint(port, fast, &ops);
    for (;;) {
        r2p2_endpoint_wait(ep, -1);
        r2p2_endpoint_poll(ep);
    }
}

// --- plain UDP --------------------------------------------------------------

struct batch {
    int fd;
    bool segments; // all datagrams of a batch have one destination here
    struct mmsghdr msgs[BATCH];
    struct iovec iov[BATCH];
    struct sockaddr_in from[BATCH];
    char body[BATCH][2048];
};

static void open_socket(struct batch *b, uint16_t port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int space = 4 << 20;
    b->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(b->fd, SOL_SOCKET, SO_RCVBUF, &space, sizeof space);
    if (b->fd < 0 || bind(b->fd, (struct sockaddr *)&at, sizeof at) != 0) {
        fail("bind");
    }
    for (unsigned i = 0; i < BATCH; i++) {
        b->iov[i].iov_base = b->body[i];
        b->msgs[i].msg_hdr = (struct msghdr){.msg_name = &b->from[i], .msg_iov = &b->iov[i], .msg_iovlen = 1};
    }
}

// Waits for datagrams and takes those that are there; 0 after a second without any.
static unsigned take(struct batch *b)
{
    for (unsigned i = 0; i < BATCH; i++) {
        b->iov[i].iov_len = sizeof b->body[i];
        b->msgs[i].msg_hdr.msg_namelen = sizeof b->from[i];
    }
    int n = recvmmsg(b->fd, b->msgs, BATCH, MSG_WAITFORONE, NULL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        fail("recvmmsg");
    }
    return n > 0 ? (unsigned)n : 0;
}

static void send_segments(struct batch *b, unsigned n)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
    const uint16_t size = BODY;
    struct msghdr h = b->msgs[0].msg_hdr;
    h.msg_iov = b->iov;
    h.msg_iovlen = n;
    h.msg_control = control;
    h.msg_controllen = sizeof control;
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    *c = (struct cmsghdr){.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof size)};
    memcpy(CMSG_DATA(c), &size, sizeof size);
    if (sendmsg(b->fd, &h, 0) < 0) {
        fail("sendmsg");
    }
}

static void send_back(struct batch *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        b->iov[i].iov_len = BODY;
    }
    if (b->segments && n > 1) {
        send_segments(b, n);
        return;
    }
    for (unsigned at = 0; at < n;) {
        int sent = sendmmsg(b->fd, b->msgs + at, n - at, 0);
        if (sent <= 0) {
            fail("sendmmsg");
        }
        at += (unsigned)sent;
    }
}

_Noreturn static void udp_serve(uint16_t port, bool segments)
{
    static struct batch b;
    b.segments = segments;
    open_socket(&b, port);
    for (;;) {
        send_back(&b, take(&b));
    }
}

static void send_window(struct batch *b, uint16_t port, unsigned window)
{
    for (unsigned sent = 0; sent < window;) {
        unsigned n = window - sent < BATCH ? window - sent : BATCH;
        for (unsigned i = 0; i < n; i++) {
            memset(b->body[i], 'x', BODY);
            b->from[i] = (struct sockaddr_in){
                .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
            b->msgs[i].msg_hdr.msg_namelen = sizeof b->from[i];
        }
        send_back(b, n);
        sent += n;
    }
}

static int udp_call(uint16_t port, unsigned window, double seconds, bool segments)
{
    static struct batch b;
    b.segments = segments;
    struct run run = {.start_ns = nanoseconds()};
    struct timeval second = {.tv_sec = 1};
    open_socket(&b, 0);
    (void)setsockopt(b.fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    run.end_ns = run.start_ns + (uint64_t)(seconds * 1e9);
    send_window(&b, port, window);
    while (nanoseconds() < run.end_ns) {
        unsigned n = take(&b);
        run.answers += n;
        if (n == 0) { // everything was lost
            run.lost += window;
            send_window(&b, port, window);
        } else {
            send_back(&b, n);
        }
    }
    return report(&run);
}

/* The sides that are measured, by name: how each serves, and how it calls. */
struct call {
    unsigned window;
    double seconds;
};

static void serve_fast(uint16_t port)
{
    bobtail_serve(port, true);
}

static void serve_default(uint16_t port)
{
    bobtail_serve(port, false);
}

static void serve_udp(uint16_t port)
{
    udp_serve(port, false);
}

static void serve_segments(uint16_t port)
{
    udp_serve(port, true);
}

static int call_fast(uint16_t port, struct call c)
{
    return bobtail_call(port, true, c.window, c.seconds);
}

static int call_default(uint16_t port, struct call c)
{
    return bobtail_call(port, false, c.window, c.seconds);
}

static int call_udp(uint16_t port, struct call c)
{
    return udp_call(port, c.window, c.seconds, false);
}

static int call_segments(uint16_t port, struct call c)
{
    return udp_call(port, c.window, c.seconds, true);
}

static const struct side {
    const char *name;
    void (*serve)(uint16_t port);
    int (*call)(uint16_t port, struct call c);
} sides[] = {
    {"bobtail", serve_fast, call_fast},
    {"bobtail-default", serve_default, call_default},
    {"udp", serve_udp, call_udp},
    {"udp-segments", serve_segments, call_segments},
};

static const struct side *side_named(const char *name)
{
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        if (strcmp(sides[i].name, name) == 0) {
            return &sides[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct side *side = side_named(argc > 1 ? argv[1] : "");
    int port = argc > 3 ? atoi(argv[3]) : 0;
    struct call c = {.window = argc == 6 ? (unsigned)atoi(argv[4]) : 0, .seconds = argc == 6 ? atof(argv[5]) : 0};
    bool known = side != NULL && port >= 1 && port <= 65535;
    if (known && argc == 4 && strcmp(argv[2], "serve") == 0) {
        side->serve((uint16_t)port);
    }
    if (known && c.window >= 1 && c.window <= WINDOW_MAX && c.seconds > 0 && strcmp(argv[2], "call") == 0) {
        return side->call((uint16_t)port, c);
    }
    fprintf(stderr,
            "usage: bench_echo bobtail|bobtail-default|udp|udp-segments serve PORT | call PORT WINDOW 1..%d SECONDS\n",
            WINDOW_MAX);
    return 2;
}
