// SPDX-License-Identifier: Apache-2.0
// The smallest driver there is: reads a TAP device, hands frames to the link, writes what it pushes.
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/if_tun.h>

#define MILLISECOND UINT64_C(1000000)
#define PACKETS     64u

struct wire wire;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void wire_run(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0) {
        fail_msg("failed: %s", command);
    }
}

bool wire_says(const char *command, const char *text)
{
    char out[4096];
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, sizeof out - 1, f);
    out[n] = '\0';
    pclose(f);
    return strstr(out, text) != NULL;
}

static int open_tap(const char *name)
{
    struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (fd >= 0 && ioctl(fd, TUNSETIFF, &r) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void open_link(void)
{
    static struct bt_link_prefix addrs[2];
    struct bt_addr locals[2];
    struct bt_link_config c = {
        .mac = {2, 0, 0, 0, 0, 2}, .addrs = addrs, .n_addrs = 2, .locals = locals, .n_locals = 2};
    assert_int_equal(bt_link_prefix_parse("10.55.0.2/24", &addrs[0]), 0);
    assert_int_equal(bt_link_prefix_parse("fd55::2/64", &addrs[1]), 0);
    assert_int_equal(bt_addr_parse("0.0.0.0:7000", 0, &locals[0]), 0);
    assert_int_equal(bt_addr_parse("[::]:7001", 0, &locals[1]), 0);
    assert_int_equal(bt_addr_parse("10.55.0.1", 1, &c.gateway4), 0);
    assert_int_equal(bt_addr_parse("fd55::1", 1, &c.gateway6), 0);
    c.retry_ns = 50 * MILLISECOND;
    c.reachable_ns = 400 * MILLISECOND;
    c.pool = wire.pool;
    c.seed = 7;
    size_t bytes = bt_link_bytes(&c);
    struct bt_link_error err;
    wire.mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    wire.l = bt_link_init(wire.mem, bytes, &c, now_ns(), &err);
    if (wire.l == NULL) {
        fail_msg("%s[%u] %s", err.field, err.index, err.problem);
    }
}

int wire_open(void **state)
{
    (void)state;
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        wire.refused = "needs root, to make a network namespace";
        return 0;
    }
    wire.tap = open_tap("tap0");
    if (wire.tap < 0) {
        wire.refused = "no TAP device (/dev/net/tun)";
        return 0;
    }
    wire.slab = malloc(bt_pool_fixed_bytes(PACKETS));
    wire.pool = bt_pool_fixed_init(&wire.fixed, wire.slab, PACKETS);
    // A bridge without ports is an interface behind which nobody lives.
    wire_run("ip link set lo up; ip link add far0 type bridge && ip link set far0 mtu 1300 up && "
             "ip addr add 10.55.0.1/24 dev tap0 && ip -6 addr add fd55::1/64 dev tap0 nodad && ip link set tap0 up && "
             "ip addr add 10.66.0.1/24 dev far0 && ip -6 addr add fd66::1/64 dev far0 nodad && "
             "echo 1 >/proc/sys/net/ipv4/ip_forward && echo 1 >/proc/sys/net/ipv6/conf/all/forwarding && "
             "echo 0 >/proc/sys/net/ipv6/icmp/ratelimit");
    open_link();
    wire_for(100);
    return 0;
}

int wire_close(void **state)
{
    (void)state;
    if (wire.l != NULL) {
        if (wire.last != NULL) {
            bt_pool_put(wire.pool, wire.last);
        }
        bt_link_close(wire.l);
        assert_int_equal(wire.fixed.left, PACKETS); // E-20
        free(wire.mem);
        free(wire.slab);
        close(wire.tap);
    }
    return 0;
}

void wire_needed(void)
{
    if (wire.refused != NULL) {
        print_message("skipped: %s\n", wire.refused);
        skip();
    }
}

static void write_out(struct bt_txq *out)
{
    for (struct bt_pkt *p; (p = bt_txq_pop(out)) != NULL;) {
        assert_int_equal(write(wire.tap, p->data, p->len), p->len);
        bt_pool_put(wire.pool, p);
    }
}

static void take_payload(struct bt_pkt *p, struct bt_txq *out)
{
    wire.received++;
    if (wire.echo) {
        struct bt_addr from = p->src;
        p->src = p->dst;
        p->dst = from;
        bt_link_tx(wire.l, now_ns(), p, out);
        return;
    }
    if (wire.last != NULL) {
        bt_pool_put(wire.pool, wire.last);
    }
    wire.last = p;
}

// False: nothing was there.
static bool turn(void)
{
    struct bt_txq out;
    bt_txq_init(&out);
    if (bt_link_next(wire.l) <= now_ns()) {
        bt_link_tick(wire.l, now_ns(), &out);
    }
    struct bt_pkt *p = bt_pool_get(wire.pool);
    assert_non_null(p);
    ssize_t n = read(wire.tap, p->data, p->room_after);
    if (n > 0) {
        bt_pkt_append(p, (uint32_t)n);
        if (bt_link_rx(wire.l, now_ns(), p, &out) == BT_LINK_UDP) {
            take_payload(p, &out);
        }
    } else {
        bt_pool_put(wire.pool, p);
    }
    write_out(&out);
    return n > 0;
}

bool wire_until(bool (*done)(void *arg), void *arg)
{
    for (unsigned idle = 0; idle < 1000;) {
        if (done != NULL && done(arg)) {
            return true;
        }
        if (turn()) {
            continue;
        }
        struct pollfd fd = {.fd = wire.tap, .events = POLLIN};
        idle += poll(&fd, 1, 2) == 0;
    }
    return false;
}

void wire_for(unsigned milliseconds)
{
    for (uint64_t end = now_ns() + milliseconds * MILLISECOND; now_ns() < end;) {
        struct pollfd fd = {.fd = wire.tap, .events = POLLIN};
        if (!turn()) {
            poll(&fd, 1, 2);
        }
    }
}

static struct bt_pkt *payload(const char *to, const void *data, uint32_t n)
{
    struct bt_pkt *p = bt_pool_get(wire.pool);
    assert_non_null(p);
    memcpy(bt_pkt_append(p, n), data, n);
    assert_int_equal(bt_addr_parse(to, 0, &p->dst), 0);
    return p;
}

void wire_send(uint16_t local, const char *to, const void *data, uint32_t n)
{
    struct bt_txq out;
    bt_txq_init(&out);
    struct bt_pkt *p = payload(to, data, n);
    p->local = local;
    bt_link_tx(wire.l, now_ns(), p, &out);
    write_out(&out);
}

void wire_send_as(const char *from, uint8_t ttl, const char *to, const void *data, uint32_t n)
{
    struct bt_txq out;
    bt_txq_init(&out);
    struct bt_pkt *p = payload(to, data, n);
    assert_int_equal(bt_addr_parse(from, 0, &p->src), 0);
    p->tx_as_src = 1;
    p->ttl = ttl;
    bt_link_tx(wire.l, now_ns(), p, &out);
    write_out(&out);
}

uint64_t wire_counter(enum bt_link_counter c)
{
    const struct bt_counter_desc *desc;
    unsigned n;
    return bt_link_counters(wire.l, &desc, &n)[c];
}

static bool event_came(void *arg)
{
    return bt_link_events(wire.l, arg, 1) == 1;
}

bool wire_event(struct bt_link_event *e)
{
    return wire_until(event_came, e);
}

void wire_sockaddr(const char *text, void *sa, unsigned *len)
{
    struct bt_addr a;
    assert_int_equal(bt_addr_parse(text, 0, &a), 0);
    if (bt_addr_is_v4(&a)) {
        struct sockaddr_in s = {.sin_family = AF_INET, .sin_port = htons(a.port)};
        memcpy(&s.sin_addr, a.ip + 12, 4);
        memcpy(sa, &s, *len = sizeof s);
    } else {
        struct sockaddr_in6 s = {.sin6_family = AF_INET6, .sin6_port = htons(a.port)};
        memcpy(&s.sin6_addr, a.ip, 16);
        s.sin6_scope_id = a.ip[0] == 0xfe ? if_nametoindex("tap0") : 0;
        memcpy(sa, &s, *len = sizeof s);
    }
}

int wire_socket(const char *at)
{
    struct sockaddr_storage sa;
    unsigned len;
    wire_sockaddr(at, &sa, &len);
    int fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, len), 0);
    return fd;
}

void wire_connect(int fd, const char *to)
{
    struct sockaddr_storage sa;
    unsigned len;
    wire_sockaddr(to, &sa, &len);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, len), 0);
}

struct reading {
    int fd;
    void *buf;
    size_t n;
    long got;
};

static bool was_read(void *arg)
{
    struct reading *r = arg;
    ssize_t n = recv(r->fd, r->buf, r->n, MSG_DONTWAIT);
    r->got = n >= 0 ? n : -errno;
    return r->got != -EAGAIN;
}

long wire_recv(int fd, void *buf, size_t n)
{
    struct reading r = {.fd = fd, .buf = buf, .n = n};
    wire_until(was_read, &r);
    return r.got;
}
