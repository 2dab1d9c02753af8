// SPDX-License-Identifier: Apache-2.0
// The UDP driver on loopback: what is sent arrives as it was, every loss is counted, waiting ends
// when it should.
#include "unit.h"

#include "udp_bed.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void exchange(const char *ip, enum bt_idle idle)
{
    struct rig r;
    struct bt_txq q;
    struct bt_pkt *pkts[200];
    rig_open(&r, 512, ip, idle);
    bt_txq_init(&q);
    for (uint32_t i = 0; i < 150; i++) { // several batches, ports alternating
        udp_queue(&r, &q, (uint16_t)(i & 1), udp_local(r.b, 0), &i, sizeof i);
    }
    udp_queue(&r, &q, 1, udp_local(r.b, 0), "", 0); // header-only datagrams are legal UDP
    bt_io_tx(r.a, &q);
    assert_int_equal(q.n, 0);
    assert_int_equal(udp_counter(r.a, BT_UDP_TX_PACKETS), 151);
    assert_int_equal(udp_receive(r.b, BT_IO_ANY, pkts, 151), 151);
    for (uint32_t i = 0; i < 150; i++) {
        uint32_t v;
        struct bt_addr from = udp_local(r.a, i & 1);
        struct bt_addr to = udp_local(r.b, 0);
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
    udp_queue(&r, &q, 0, udp_local(r.a, 0), "request", 7);
    udp_queue(&r, &q, 0, udp_local(r.a, 1), "feedback", 8);
    bt_io_tx(r.b, &q);
    assert_int_equal(udp_receive(r.a, 1, pkts, 1), 1);
    assert_int_equal(pkts[0]->local, 1);
    bt_pool_put(r.pool, pkts[0]);
    assert_int_equal(bt_io_rx(r.a, 1, pkts, BT_IO_BATCH), 0);
    assert_int_equal(udp_receive(r.a, 0, pkts, 1), 1);
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
    struct bt_addr to = udp_local(r.b, 0);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bt_udp_to_sockaddr(&to, AF_INET, &sa, &len), 0);
    assert_int_equal(sendto(fd, big, BT_PKT_BUFFER - BT_PKT_HEADROOM + 1, 0, &sa.sa, len),
                     BT_PKT_BUFFER - BT_PKT_HEADROOM + 1);
    assert_int_equal(sendto(fd, big, BT_PKT_BUFFER - BT_PKT_HEADROOM, 0, &sa.sa, len), BT_PKT_BUFFER - BT_PKT_HEADROOM);
    assert_int_equal(udp_receive(r.b, 0, pkts, 1), 1);
    assert_int_equal(pkts[0]->len, BT_PKT_BUFFER - BT_PKT_HEADROOM);
    assert_int_equal(udp_counter(r.b, BT_UDP_RX_TRUNCATED), 1);
    assert_int_equal(udp_counter(r.b, BT_UDP_RX_PACKETS), 1); /* K-18: each is one or the other */
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
        udp_queue(&r, &q, 0, udp_local(r.b, 0), "x", 1);
    }
    bt_io_tx(r.a, &q);
    while (n < 64 && (held[n] = bt_pool_get(r.pool)) != NULL) {
        n++;
    }
    for (int turn = 0; turn < 10 && udp_counter(r.b, BT_UDP_RX_NO_BUFFER) < 10; turn++) {
        bt_io_wait(r.b, bt_io_now(r.b) + 200 * MS);
        assert_int_equal(bt_io_rx(r.b, 0, pkts, BT_IO_BATCH), 0);
    }
    assert_int_equal(udp_counter(r.b, BT_UDP_RX_NO_BUFFER), 10);
    while (n > 0) {
        bt_pool_put(r.pool, held[--n]);
    }
    udp_queue(&r, &q, 0, udp_local(r.b, 0), "y", 1); // and all is well afterwards
    bt_io_tx(r.a, &q);
    assert_int_equal(udp_receive(r.b, 0, pkts, 1), 1);
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
    struct bt_io *small = udp_open_at(r.pool, where, 1, BT_IDLE_BLOCK, false, 4096);
    struct bt_addr to = udp_local(small, 0);
    bt_txq_init(&q);
    for (int i = 0; i < 200; i++) {
        udp_queue(&r, &q, 0, to, "0123456789", 10);
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
        udp_queue(&r, &q, 0, to, "last", 4);
        bt_io_tx(r.a, &q);
    }
    bt_io_wait(small, bt_io_now(small) + 200 * MS);
    n = bt_io_rx(small, BT_IO_ANY, pkts, BT_IO_BATCH);
    got += n;
    for (unsigned i = 0; i < n; i++) {
        bt_pool_put(r.pool, pkts[i]);
    }
    assert_true(udp_counter(small, BT_UDP_RX_KERNEL_DROPS) > 0);
    assert_int_equal(got + udp_counter(small, BT_UDP_RX_KERNEL_DROPS), 202);
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
    udp_queue(&r, &q, 1, nobody, "anyone?", 7);
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
    assert_int_equal(udp_counter(r.a, BT_UDP_UNREACHABLE), 1);
    // The error of one datagram must not eat the next one, which has another destination.
    udp_queue(&r, &q, 1, nobody, "anyone?", 7);
    bt_io_tx(r.a, &q);
    udp_queue(&r, &q, 1, udp_local(r.b, 0), "you", 3);
    bt_io_tx(r.a, &q);
    assert_int_equal(udp_receive(r.b, 0, pkts, 1), 1);
    bt_pool_put(r.pool, pkts[0]);
    rig_close(&r);
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

static void send_one(struct rig *r, uint32_t to)
{
    struct bt_txq q;
    bt_txq_init(&q);
    udp_queue(r, &q, 0, udp_local(r->a, to), "x", 1);
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
    assert_int_equal(udp_receive(r.a, 0, &p, 1), 1); // other ports still do
    bt_pool_put(r.pool, p);
    bt_io_quiet(r.a, 1, false); // what lies there counts from now on
    bt_io_wait(r.a, BT_IO_FOREVER);
    assert_int_equal(bt_io_rx(r.a, 1, &p, 1), 1);
    bt_pool_put(r.pool, p);
    send_one(&r, 1);
    assert_int_equal(udp_receive(r.a, 1, &p, 1), 1);
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
    assert_int_equal(udp_receive(r.a, 0, held, 40), 40);
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
        assert_int_equal(udp_receive(r.a, round % 2, &p, 1), 1);
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

static void send_of(int fd, const struct bt_addr *to, uint8_t first, uint32_t len)
{
    static uint8_t bytes[BT_PKT_BUFFER];
    union bt_udp_sa sa;
    socklen_t n;
    bytes[0] = first;
    assert_int_equal(bt_udp_to_sockaddr(to, AF_INET, &sa, &n), 0);
    assert_int_equal(sendto(fd, bytes, len, 0, &sa.sa, n), len);
}

// Of one batch some were handed out and some were too long, in turns, when the pool is dry: what is left serves the
// slots in front, each buffer one of them.
static void a_dry_pool_and_datagrams_too_long(void **state)
{
    struct rig r;
    struct bt_pkt *held[BT_IO_BATCH], *pkts[BT_IO_BATCH];
    (void)state;
    rig_open(&r, BT_IO_BATCH, "127.0.0.1", BT_IDLE_BLOCK); // the driver takes them all
    struct bt_addr to = udp_local(r.a, 0);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (unsigned i = 0; i < BT_IO_BATCH; i++) {
        bool fits = i < 20 || (i >= 40 && i < 60);
        send_of(fd, &to, (uint8_t)i, fits ? 1 : BT_PKT_BUFFER);
    }
    unsigned kept = 0;
    uint64_t until = bt_io_now(r.a) + 60000 * MS;
    while (kept + udp_counter(r.a, BT_UDP_RX_TRUNCATED) < BT_IO_BATCH && bt_io_now(r.a) < until) {
        bt_io_wait(r.a, until);
        kept += bt_io_rx(r.a, 0, held + kept, BT_IO_BATCH - kept);
    }
    assert_int_equal(kept, 40);
    assert_int_equal(udp_counter(r.a, BT_UDP_RX_TRUNCATED), 24);
    for (unsigned i = 0; i < 40; i++) {
        send_of(fd, &to, (uint8_t)(100 + i), 1);
    }
    unsigned got = 0;
    while (got + udp_counter(r.a, BT_UDP_RX_NO_BUFFER) < 40 && bt_io_now(r.a) < until) {
        bt_io_wait(r.a, until);
        got += bt_io_rx(r.a, 0, pkts + got, BT_IO_BATCH - got);
    }
    assert_int_equal(got, 24); // as many buffers as the driver has
    assert_int_equal(udp_counter(r.a, BT_UDP_RX_NO_BUFFER), 16);
    for (unsigned i = 0; i < got; i++) {
        assert_int_equal(pkts[i]->len, 1);
        assert_int_equal(pkts[i]->data[0], 100 + i);
        bt_pool_put(r.pool, pkts[i]);
    }
    for (unsigned i = 0; i < 40; i++) {
        bt_pool_put(r.pool, held[i]);
    }
    close(fd);
    rig_close(&r);
}

static void a_taken_port_is_named_in_the_error(void **state)
{
    struct rig r;
    char err[256];
    char text[BT_ADDR_TEXT];
    (void)state;
    rig_open(&r, 256, "127.0.0.1", BT_IDLE_BLOCK);
    struct bt_addr taken = udp_local(r.b, 0);
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
        cmocka_unit_test(waiting_ends_in_time_or_when_woken),
        cmocka_unit_test(a_quiet_port_does_not_end_a_wait),
        cmocka_unit_test(a_short_pool_still_receives),
        cmocka_unit_test(a_dry_pool_and_datagrams_too_long),
        cmocka_unit_test(a_taken_port_is_named_in_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
