// SPDX-License-Identifier: Apache-2.0
// The UDP driver on loopback: what is sent arrives as it was, every loss is counted, waiting ends
// when it should.
#include "unit.h"

#include "io/udp.h"
#include "io/udp_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

struct rig {
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    void *mem;
    uint32_t packets;
    struct bt_io *a, *b; // a has two ports
};

static struct bt_io *open_at(struct bt_pool *pool, const char *const *where, unsigned n, enum bt_idle idle, bool report,
                             unsigned rcvbuf)
{
    struct bt_addr local[8];
    char err[256];
    for (unsigned i = 0; i < n; i++) {
        // Port 0 is no address a text may name; any free port will do here.
        assert_int_equal(bt_addr_parse(where[i], 1, &local[i]), 0);
        local[i].port = 0;
    }
    struct bt_udp_config cfg = {.locals = local,
                                .n_locals = n,
                                .pool = pool,
                                .idle = idle,
                                .report_unreachable = report,
                                .rcvbuf_bytes = rcvbuf};
    struct bt_io *io = bt_udp_open(&cfg, err, sizeof err);
    if (io == NULL) {
        fail_msg("%s", err);
    }
    return io;
}

static void rig_open(struct rig *r, uint32_t packets, const char *ip, enum bt_idle idle)
{
    const char *const two[] = {ip, ip};
    r->packets = packets;
    r->mem = malloc(bt_pool_fixed_bytes(packets));
    r->pool = bt_pool_fixed_init(&r->fixed, r->mem, packets);
    r->a = open_at(r->pool, two, 2, idle, true, 0);
    r->b = open_at(r->pool, two, 1, idle, false, 0);
}

static void rig_close(struct rig *r)
{
    r->a->ops->close(r->a);
    r->b->ops->close(r->b);
    assert_int_equal(r->fixed.left, r->packets); // every buffer came home
    free(r->mem);
}

static uint64_t counter(struct bt_io *io, enum bt_udp_counter c)
{
    const struct bt_counter_desc *desc;
    unsigned n;
    const uint64_t *v = io->ops->counters(io, &desc, &n);
    assert_int_equal(n, BT_UDP_COUNTERS);
    assert_non_null(desc[c].name);
    return v[c];
}

static struct bt_addr local(struct bt_io *io, uint32_t port)
{
    return io->ops->local(io, port);
}

static void queue(struct rig *r, struct bt_txq *q, uint16_t from, struct bt_addr dst, const void *data, uint32_t len)
{
    struct bt_pkt *p = bt_pool_get(r->pool);
    assert_non_null(p);
    memcpy(bt_pkt_append(p, len), data, len);
    p->local = from;
    p->dst = dst;
    bt_txq_push(q, p);
}

// Receives until `want` packets are there or a minute has passed.
static unsigned receive(struct bt_io *io, uint32_t port, struct bt_pkt **pkts, unsigned want)
{
    unsigned got = 0;
    uint64_t until = bt_io_now(io) + 60000 * MS;
    while (got < want && bt_io_now(io) < until) {
        bt_io_wait(io, until);
        got += bt_io_rx(io, port, pkts + got, want - got);
    }
    return got;
}

static void exchange(const char *ip, enum bt_idle idle)
{
    struct rig r;
    struct bt_txq q;
    struct bt_pkt *pkts[200];
    rig_open(&r, 512, ip, idle);
    bt_txq_init(&q);
    for (uint32_t i = 0; i < 150; i++) { // several batches, ports alternating
        queue(&r, &q, (uint16_t)(i & 1), local(r.b, 0), &i, sizeof i);
    }
    queue(&r, &q, 1, local(r.b, 0), "", 0); // header-only datagrams are legal UDP
    bt_io_tx(r.a, &q);
    assert_int_equal(q.n, 0);
    assert_int_equal(counter(r.a, BT_UDP_TX_PACKETS), 151);
    assert_int_equal(receive(r.b, BT_IO_ANY, pkts, 151), 151);
    for (uint32_t i = 0; i < 150; i++) {
        uint32_t v;
        struct bt_addr from = local(r.a, i & 1);
        struct bt_addr to = local(r.b, 0);
        assert_int_equal(pkts[i]->len, 4);
        memcpy(&v, pkts[i]->data, 4);
        assert_int_equal(v, i); // order is kept
        assert_true(bt_addr_eq(&pkts[i]->src, &from));
        assert_true(bt_addr_eq(&pkts[i]->dst, &to));
        assert_true(pkts[i]->t_rx_ns <= bt_io_now(r.b));
        assert_int_equal(pkts[i]->room_after, BT_PKT_BUFFER - BT_PKT_HEADROOM - 4);
    }
    assert_int_equal(pkts[150]->len, 0);
    for (unsigned i = 0; i < 151; i++) {
        bt_pool_put(r.pool, pkts[i]);
    }
    rig_close(&r);
}

static void packets_arrive_whole_in_order_and_attributed(void **state)
{
    (void)state;
    exchange("127.0.0.1", BT_IDLE_BLOCK);
    exchange("127.0.0.1", BT_IDLE_SPIN);
    exchange("127.0.0.1", BT_IDLE_YIELD);
}

static void ipv6_works_alike(void **state)
{
    (void)state;
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)(void *)&sa, sizeof sa) == 0;
    if (fd >= 0) {
        close(fd);
    }
    if (!have) {
        print_message("left out: this host has no IPv6 loopback\n");
        skip();
    }
    exchange("[::1]", BT_IDLE_BLOCK);
}

// R-118 needs to read one port and leave the other alone.
static void one_port_can_be_read_before_the_other(void **state)
{
    struct rig r;
    struct bt_txq q;
    struct bt_pkt *pkts[BT_IO_BATCH];
    (void)state;
    rig_open(&r, 256, "127.0.0.1", BT_IDLE_BLOCK);
    bt_txq_init(&q);
    queue(&r, &q, 0, local(r.a, 0), "request", 7);
    queue(&r, &q, 0, local(r.a, 1), "feedback", 8);
    bt_io_tx(r.b, &q);
    assert_int_equal(receive(r.a, 1, pkts, 1), 1);
    assert_int_equal(pkts[0]->local, 1);
    bt_pool_put(r.pool, pkts[0]);
    assert_int_equal(bt_io_rx(r.a, 1, pkts, BT_IO_BATCH), 0);
    assert_int_equal(receive(r.a, 0, pkts, 1), 1);
    assert_int_equal(pkts[0]->local, 0);
    bt_pool_put(r.pool, pkts[0]);
    rig_close(&r);
}

static void m14_too_long_datagrams_are_counted_and_dropped(void **state)
{
    struct rig r;
    struct bt_pkt *pkts[4];
    static uint8_t big[BT_PKT_BUFFER];
    (void)state;
    rig_open(&r, 256, "127.0.0.1", BT_IDLE_BLOCK);
    union bt_udp_sa sa;
    socklen_t len;
    struct bt_addr to = local(r.b, 0);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bt_udp_to_sockaddr(&to, AF_INET, &sa, &len), 0);
    assert_int_equal(sendto(fd, big, BT_PKT_BUFFER - BT_PKT_HEADROOM + 1, 0, &sa.sa, len),
                     BT_PKT_BUFFER - BT_PKT_HEADROOM + 1);
    assert_int_equal(sendto(fd, big, BT_PKT_BUFFER - BT_PKT_HEADROOM, 0, &sa.sa, len), BT_PKT_BUFFER - BT_PKT_HEADROOM);
    assert_int_equal(receive(r.b, 0, pkts, 1), 1);
    assert_int_equal(pkts[0]->len, BT_PKT_BUFFER - BT_PKT_HEADROOM);
    assert_int_equal(counter(r.b, BT_UDP_RX_TRUNCATED), 1);
    bt_pool_put(r.pool, pkts[0]);
    close(fd);
    rig_close(&r);
}

static void m24_without_buffers_datagrams_are_read_and_counted(void **state)
{
    struct rig r;
    struct bt_txq q;
    struct bt_pkt *held[64];
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned n = 0;
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    bt_txq_init(&q);
    for (int i = 0; i < 10; i++) {
        queue(&r, &q, 0, local(r.b, 0), "x", 1);
    }
    bt_io_tx(r.a, &q);
    while (n < 64 && (held[n] = bt_pool_get(r.pool)) != NULL) {
        n++;
    }
    for (int turn = 0; turn < 10 && counter(r.b, BT_UDP_RX_NO_BUFFER) < 10; turn++) {
        bt_io_wait(r.b, bt_io_now(r.b) + 200 * MS);
        assert_int_equal(bt_io_rx(r.b, 0, pkts, BT_IO_BATCH), 0);
    }
    assert_int_equal(counter(r.b, BT_UDP_RX_NO_BUFFER), 10);
    while (n > 0) {
        bt_pool_put(r.pool, held[--n]);
    }
    queue(&r, &q, 0, local(r.b, 0), "y", 1); // and all is well afterwards
    bt_io_tx(r.a, &q);
    assert_int_equal(receive(r.b, 0, pkts, 1), 1);
    bt_pool_put(r.pool, pkts[0]);
    rig_close(&r);
}

static void kernel_drops_are_seen(void **state)
{
    static const char *const where[] = {"127.0.0.1"};
    struct rig r;
    struct bt_txq q;
    struct bt_pkt *pkts[BT_IO_BATCH];
    unsigned got = 0;
    unsigned n;
    (void)state;
    rig_open(&r, 512, "127.0.0.1", BT_IDLE_BLOCK);
    struct bt_io *small = open_at(r.pool, where, 1, BT_IDLE_BLOCK, false, 4096);
    struct bt_addr to = local(small, 0);
    bt_txq_init(&q);
    for (int i = 0; i < 200; i++) {
        queue(&r, &q, 0, to, "0123456789", 10);
    }
    bt_io_tx(r.a, &q);
    for (int turn = 0; turn < 2; turn++) { // the count travels with a packet that got through
        do {
            bt_io_wait(small, bt_io_now(small) + 20 * MS);
            n = bt_io_rx(small, BT_IO_ANY, pkts, BT_IO_BATCH);
            got += n;
            for (unsigned i = 0; i < n; i++) {
                bt_pool_put(r.pool, pkts[i]);
            }
        } while (n != 0);
        queue(&r, &q, 0, to, "last", 4);
        bt_io_tx(r.a, &q);
    }
    bt_io_wait(small, bt_io_now(small) + 200 * MS);
    n = bt_io_rx(small, BT_IO_ANY, pkts, BT_IO_BATCH);
    got += n;
    for (unsigned i = 0; i < n; i++) {
        bt_pool_put(r.pool, pkts[i]);
    }
    assert_true(counter(small, BT_UDP_RX_KERNEL_DROPS) > 0);
    assert_int_equal(got + counter(small, BT_UDP_RX_KERNEL_DROPS), 202);
    small->ops->close(small);
    rig_close(&r);
}

static void unreachable_peers_are_named(void **state)
{
    struct rig r;
    struct bt_txq q;
    struct bt_io_event ev[8];
    struct bt_pkt *pkts[4];
    (void)state;
    rig_open(&r, 256, "127.0.0.1", BT_IDLE_BLOCK);
    bt_txq_init(&q);
    struct bt_addr nobody = bt_addr_v4u(0x7f000001, 1); // tcpmux: nobody listens on UDP port 1
    queue(&r, &q, 1, nobody, "anyone?", 7);
    bt_io_tx(r.a, &q);
    unsigned n = 0;
    for (int turn = 0; turn < 20 && n == 0; turn++) {
        bt_io_wait(r.a, bt_io_now(r.a) + 100 * MS);
        bt_io_rx(r.a, BT_IO_ANY, pkts, 4);
        n = r.a->ops->events(r.a, ev, 8);
    }
    assert_int_equal(n, 1);
    assert_true(bt_addr_eq(&ev[0].peer, &nobody));
    assert_int_equal(ev[0].local, 1);
    assert_int_equal(counter(r.a, BT_UDP_UNREACHABLE), 1);
    // The error of one datagram must not eat the next one, which has another destination.
    queue(&r, &q, 1, nobody, "anyone?", 7);
    bt_io_tx(r.a, &q);
    queue(&r, &q, 1, local(r.b, 0), "you", 3);
    bt_io_tx(r.a, &q);
    assert_int_equal(receive(r.b, 0, pkts, 1), 1);
    bt_pool_put(r.pool, pkts[0]);
    rig_close(&r);
}

static void refused_packets_are_counted_by_reason(void **state)
{
    struct rig r;
    struct bt_txq q;
    struct bt_addr v6;
    (void)state;
    rig_open(&r, 256, "127.0.0.1", BT_IDLE_BLOCK);
    bt_txq_init(&q);
    assert_int_equal(bt_addr_parse("[2001:db8::1]:8000", 0, &v6), 0);
    queue(&r, &q, 0, v6, "x", 1);            // an IPv4 port cannot send there
    queue(&r, &q, 7, local(r.b, 0), "x", 1); // no such port
    queue(&r, &q, 0, local(r.b, 0), "x", 1);
    q.tail->tx_as_src = 1; // nobody allowed Transparent
    q.tail->src = local(r.b, 0);
    bt_io_tx(r.a, &q);
    assert_int_equal(counter(r.a, BT_UDP_TX_BAD_ADDRESS), 2);
    assert_int_equal(counter(r.a, BT_UDP_TX_NO_RAW), 1);
    assert_int_equal(counter(r.a, BT_UDP_TX_PACKETS), 0);
    rig_close(&r);
}

static void keep_clients_address(const char *ip, struct bt_addr client)
{
    struct rig r;
    struct bt_txq q;
    char why[200];
    struct bt_pkt *pkts[4];
    rig_open(&r, 256, ip, BT_IDLE_BLOCK);
    if (bt_udp_allow_transparent(r.a, why, sizeof why) != 0) {
        rig_close(&r);
        assert_non_null(strstr(why, "CAP_NET_RAW"));
        print_message("left out: %s\n", why);
        skip();
    }
    assert_int_equal(bt_udp_allow_transparent(r.a, why, sizeof why), 0);
    assert_int_equal(bt_udp_allow_transparent(r.b, why, sizeof why), 0); // so that it sees the TTL
    bt_txq_init(&q);
    static const uint8_t ttl[4] = {0, 200, 2, 1}; // unknown; two with hops left; one without
    for (uint32_t i = 0; i < 4; i++) {
        queue(&r, &q, 0, local(r.b, 0), "ab", i % 3); // odd and even lengths: the checksum's last byte
        q.tail->tx_as_src = 1;
        q.tail->src = client;
        q.tail->ttl = ttl[i];
    }
    bt_io_tx(r.a, &q);
    assert_int_equal(counter(r.a, BT_UDP_TX_TTL), 1);
    assert_int_equal(receive(r.b, 0, pkts, 3), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(bt_addr_eq(&pkts[i]->src, &client));
        assert_int_equal(pkts[i]->len, i);
        assert_int_equal(pkts[i]->ttl, ttl[i] != 0 ? ttl[i] - 1 : 63);
        bt_pool_put(r.pool, pkts[i]);
    }
    rig_close(&r);
}

static void r4_r123_transparent_packets_keep_the_clients_address(void **state)
{
    (void)state;
    keep_clients_address("127.0.0.1", bt_addr_v4u(0x7f0a0b0c, 12345)); // 127.10.11.12
}

static void r4_r123_the_same_over_ipv6(void **state)
{
    (void)state;
    keep_clients_address("[::1]", (struct bt_addr){.ip = {0xfd, [15] = 9}, .port = 12345});
}

// Headers whose checksums were computed apart from this code (RFC 1071).
static void raw_headers_carry_right_checksums(void **state)
{
    static uint8_t data[3] = {'h', 'i', '!'};
    static const uint8_t v4[28] = {0x45, 0x00, 0x00, 0x1f, 0x12, 0x34, 0x40, 0x00, 0x3f, 0x11, 0x15, 0x98, 0x0a, 0x00,
                                   0x00, 0x01, 0x0a, 0x00, 0x00, 0x02, 0x4e, 0x20, 0x1f, 0x40, 0x00, 0x0b, 0xf5, 0x0b};
    static const uint8_t v6[48] = {0x60, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x11, 0x06, 0xfd, 0x00, 0x00, 0x00,
                                   0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a,
                                   0xfd, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                   0x00, 0x00, 0x00, 0x0b, 0x4e, 0x20, 0x1f, 0x40, 0x00, 0x0b, 0x0e, 0xf8};
    struct bt_pkt p = {
        .data = data, .len = 3, .src = bt_addr_v4u(0x0a000001, 20000), .dst = bt_addr_v4u(0x0a000002, 8000)};
    uint8_t head[BT_UDP_RAW_HEAD];
    (void)state;
    assert_int_equal(bt_udp_raw_header(&p, 0x1234, head), sizeof v4);
    assert_memory_equal(head, v4, sizeof v4);
    p.src = (struct bt_addr){.ip = {0xfd, [15] = 0x0a}, .port = 20000};
    assert_int_equal(bt_udp_raw_header(&p, 1, head), 0); // two families
    p.dst = (struct bt_addr){.ip = {0xfd, [15] = 0x0b}, .port = 8000};
    p.ttl = 7; // one less
    assert_int_equal(bt_udp_raw_header(&p, 1, head), sizeof v6);
    assert_memory_equal(head, v6, sizeof v6);
}

static void *wake_soon(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000000}, NULL);
    bt_io_wake(arg);
    return NULL;
}

static void waiting_ends_in_time_or_when_woken(void **state)
{
    struct rig r;
    pthread_t t;
    (void)state;
    rig_open(&r, 256, "127.0.0.1", BT_IDLE_BLOCK);
    uint64_t start = bt_io_now(r.b);
    bt_io_wait(r.b, start + 20 * MS);
    assert_true(bt_io_now(r.b) >= start + 20 * MS); // nothing else could end it
    start = bt_io_now(r.b);
    bt_io_wait(r.b, start + 50 * MS);
    bt_io_wait(r.b, start + 10 * MS); // an earlier time after a later one
    bt_io_wait(r.b, start);           // the past: returns at once
    assert_int_equal(pthread_create(&t, NULL, wake_soon, r.b), 0);
    bt_io_wait(r.b, BT_IO_FOREVER);
    pthread_join(t, NULL);
    bt_io_wake(r.b); // a wake before the wait is not lost
    bt_io_wait(r.b, BT_IO_FOREVER);
    rig_close(&r);
}

// Packets to one place leave in few messages that the kernel cuts apart; nobody may notice.
static void runs_of_equal_packets_arrive_one_by_one(void **state)
{
    static const uint32_t length[] = {100, 100, 100, 40, 100, 100, 1200, 1200, 0, 7, 7, 8, 8, 8, 1};
    enum { N = 60 };
    struct rig r;
    struct bt_txq q;
    struct bt_pkt *pkts[2][N];
    uint8_t bytes[1200];
    (void)state;
    rig_open(&r, 512, "127.0.0.1", BT_IDLE_BLOCK);
    bt_txq_init(&q);
    for (unsigned i = 0; i < N; i++) {
        memset(bytes, (int)i, sizeof bytes);
        queue(&r, &q, 0, local(r.a, i % 16 == 5), bytes, length[i % 15]);
    }
    bt_io_tx(r.b, &q);
    assert_int_equal(counter(r.b, BT_UDP_TX_PACKETS), N);
    unsigned other = receive(r.a, 1, pkts[1], 4);
    unsigned got = receive(r.a, 0, pkts[0], N - other);
    assert_int_equal(got + other, N);
    unsigned at[2] = {0, 0};
    for (unsigned i = 0; i < N; i++) { // in order at each port
        struct bt_pkt *p = pkts[i % 16 == 5][at[i % 16 == 5]++];
        assert_int_equal(p->len, length[i % 15]);
        assert_true(p->len == 0 || (p->data[0] == i && p->data[p->len - 1] == i));
        bt_pool_put(r.pool, p);
    }
    assert_int_equal(counter(r.a, BT_UDP_RX_PACKETS), N);
    rig_close(&r);
}

static bool sends_segments(const struct bt_io *io)
{
    return !((const struct bt_udp *)io)->no_segments;
}

static void two_to(struct rig *r, struct bt_addr dst)
{
    struct bt_txq q;
    bt_txq_init(&q);
    queue(r, &q, 0, dst, "equal", 5);
    queue(r, &q, 0, dst, "equal", 5);
    bt_io_tx(r->b, &q);
}

// What one destination does not take says nothing about the others; what the socket does not cut is sent apart.
static void only_the_kernel_ends_cutting(void **state)
{
    struct rig r;
    struct bt_pkt *pkts[2];
    int on = 1;
    (void)state;
    rig_open(&r, 64, "127.0.0.1", BT_IDLE_BLOCK);
    two_to(&r, bt_addr_v4u(0x7f000001, 0)); // the kernel says EINVAL
    assert_int_equal(counter(r.b, BT_UDP_TX_BAD_ADDRESS), 2);
    assert_true(sends_segments(r.b));
    // Nor does the kernel cut for a socket that makes no checksums.
    assert_int_equal(setsockopt(((struct bt_udp *)r.b)->ports[0].fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
    two_to(&r, local(r.a, 0));
    assert_false(sends_segments(r.b));
    assert_int_equal(counter(r.b, BT_UDP_TX_PACKETS), 2);
    assert_int_equal(receive(r.a, 0, pkts, 2), 2);
    bt_pool_put(r.pool, pkts[0]);
    bt_pool_put(r.pool, pkts[1]);
    rig_close(&r);
}

static void send_one(struct rig *r, uint32_t to)
{
    struct bt_txq q;
    bt_txq_init(&q);
    queue(r, &q, 0, local(r->a, to), "x", 1);
    bt_io_tx(r->b, &q);
}

static void a_quiet_port_does_not_end_a_wait(void **state)
{
    struct rig r;
    struct bt_pkt *p;
    (void)state;
    rig_open(&r, 512, "127.0.0.1", BT_IDLE_BLOCK);
    bt_io_quiet(r.a, 1, true);
    bool stamped = false; // the kernel begins to stamp a moment after it was asked to
    for (unsigned i = 0; i < 50 && !stamped; i++) {
        send_one(&r, 1);
        uint64_t sent = bt_io_now(r.a);
        bt_io_wait(r.a, sent + 30 * MS);
        assert_true(bt_io_now(r.a) >= sent + 30 * MS); // slept through it
        assert_int_equal(bt_io_rx(r.a, 1, &p, 1), 1);
        stamped = p->t_rx_ns <= sent; // when it came, not when it was read
        bt_pool_put(r.pool, p);
        assert_int_equal(bt_io_rx(r.a, 1, &p, 1), 0); // nothing more, and the next wait knows
    }
    assert_true(stamped);
    send_one(&r, 1);
    send_one(&r, 0);
    assert_int_equal(receive(r.a, 0, &p, 1), 1); // other ports still do
    bt_pool_put(r.pool, p);
    bt_io_quiet(r.a, 1, false); // what lies there counts from now on
    bt_io_wait(r.a, BT_IO_FOREVER);
    assert_int_equal(bt_io_rx(r.a, 1, &p, 1), 1);
    bt_pool_put(r.pool, p);
    send_one(&r, 1);
    assert_int_equal(receive(r.a, 1, &p, 1), 1);
    bt_pool_put(r.pool, p);
    bt_io_quiet(r.a, 7, true); // no such port: nothing happens
    rig_close(&r);
}

// A pool that is nearly empty: the buffers that are left must serve whatever slot is read.
static void a_short_pool_still_receives(void **state)
{
    struct rig r;
    struct bt_pkt *held[BT_IO_BATCH];
    struct bt_pkt *p;
    (void)state;
    rig_open(&r, 160, "127.0.0.1", BT_IDLE_BLOCK);
    for (unsigned i = 0; i < 40; i++) {
        send_one(&r, 0);
    }
    assert_int_equal(receive(r.a, 0, held, 40), 40);
    struct bt_txq rest;
    bt_txq_init(&rest);
    while ((p = bt_pool_get(r.pool)) != NULL) {
        bt_txq_push(&rest, p);
    }
    for (unsigned round = 0; round < 30; round++) { // 24 descriptors of a are left, then it runs dry
        bt_txq_push(&rest, held[round]);
        p = bt_txq_pop(&rest);
        bt_pool_put(r.pool, p);
        send_one(&r, round % 2);
        assert_int_equal(receive(r.a, round % 2, &p, 1), 1);
        assert_int_equal(p->len, 1);
        held[round] = p;
    }
    for (unsigned i = 0; i < 40; i++) {
        bt_pool_put(r.pool, held[i]);
    }
    while ((p = bt_txq_pop(&rest)) != NULL) {
        bt_pool_put(r.pool, p);
    }
    rig_close(&r);
}

static void a_taken_port_is_named_in_the_error(void **state)
{
    struct rig r;
    char err[256];
    char text[BT_ADDR_TEXT];
    (void)state;
    rig_open(&r, 256, "127.0.0.1", BT_IDLE_BLOCK);
    struct bt_addr taken = local(r.b, 0);
    struct bt_udp_config cfg = {.locals = &taken, .n_locals = 1, .pool = r.pool};
    assert_null(bt_udp_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, bt_addr_format(&taken, text)));
    assert_non_null(strstr(err, "another process"));
    taken = bt_addr_v4u(0xc0000201, 9); // 192.0.2.1, an address of documentation
    assert_null(bt_udp_open(&cfg, err, sizeof err));
    assert_non_null(strstr(err, "does not have that address"));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_arrive_whole_in_order_and_attributed),
        cmocka_unit_test(ipv6_works_alike),
        cmocka_unit_test(one_port_can_be_read_before_the_other),
        cmocka_unit_test(m14_too_long_datagrams_are_counted_and_dropped),
        cmocka_unit_test(m24_without_buffers_datagrams_are_read_and_counted),
        cmocka_unit_test(kernel_drops_are_seen),
        cmocka_unit_test(unreachable_peers_are_named),
        cmocka_unit_test(refused_packets_are_counted_by_reason),
        cmocka_unit_test(r4_r123_transparent_packets_keep_the_clients_address),
        cmocka_unit_test(r4_r123_the_same_over_ipv6),
        cmocka_unit_test(raw_headers_carry_right_checksums),
        cmocka_unit_test(waiting_ends_in_time_or_when_woken),
        cmocka_unit_test(runs_of_equal_packets_arrive_one_by_one),
        cmocka_unit_test(only_the_kernel_ends_cutting),
        cmocka_unit_test(a_quiet_port_does_not_end_a_wait),
        cmocka_unit_test(a_short_pool_still_receives),
        cmocka_unit_test(a_taken_port_is_named_in_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
