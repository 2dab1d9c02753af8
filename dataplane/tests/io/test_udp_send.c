// SPDX-License-Identifier: Apache-2.0
// The UDP driver's way out: what is refused, packets that keep a foreign address, and runs that the kernel cuts apart.
#include "udp_bed.h"

#include <string.h>
#include <sys/socket.h>

#include "wire/checksum.h"
#include "wire/frame.h"

static void refused_packets_are_counted_by_reason(void **state)
{
    struct rig r;
    struct bt_txq q;
    struct bt_addr v6;
    (void)state;
    rig_open(&r, 256, "127.0.0.1", BT_IDLE_BLOCK);
    bt_txq_init(&q);
    assert_int_equal(bt_addr_parse("[2001:db8::1]:8000", 0, &v6), 0);
    udp_queue(&r, &q, 0, v6, "x", 1);                // an IPv4 port cannot send there
    udp_queue(&r, &q, 7, udp_local(r.b, 0), "x", 1); // no such port
    udp_queue(&r, &q, 0, udp_local(r.b, 0), "x", 1);
    q.tail->tx_as_src = 1; // nobody allowed Transparent
    q.tail->src = udp_local(r.b, 0);
    bt_io_tx(r.a, &q);
    assert_int_equal(udp_counter(r.a, BT_UDP_TX_BAD_ADDRESS), 2);
    assert_int_equal(udp_counter(r.a, BT_UDP_TX_NO_RAW), 1);
    assert_int_equal(udp_counter(r.a, BT_UDP_TX_PACKETS), 0);
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
        udp_queue(&r, &q, 0, udp_local(r.b, 0), "ab", i % 3); // odd and even lengths: the checksum's last byte
        q.tail->tx_as_src = 1;
        q.tail->src = client;
        q.tail->ttl = ttl[i];
    }
    bt_io_tx(r.a, &q);
    assert_int_equal(udp_counter(r.a, BT_UDP_TX_TTL), 1);
    assert_int_equal(udp_receive(r.b, 0, pkts, 3), 3);
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

// One queue with all there is: it is sent to its end, and each packet by its own way.
static void all_kinds_in_one_queue(void **state)
{
    enum { RUN = BT_IO_BATCH + 6 };
    struct rig r;
    struct bt_txq q;
    char why[200];
    struct bt_pkt *pkts[RUN + 3];
    struct bt_addr client = bt_addr_v4u(0x7f0a0b0c, 12345);
    (void)state;
    rig_open(&r, 512, "127.0.0.1", BT_IDLE_BLOCK);
    if (bt_udp_allow_transparent(r.a, why, sizeof why) != 0) {
        rig_close(&r);
        skip();
    }
    struct bt_addr to = udp_local(r.b, 0), six = {.ip = {0xfd, [15] = 9}, .port = 12345};
    bt_txq_init(&q);
    for (unsigned i = 0; i < RUN; i++) {
        udp_queue(&r, &q, 0, to, "raw", 3);
        q.tail->tx_as_src = 1;
        q.tail->src = client;
        if (i == 0) {
            udp_queue(&r, &q, 0, to, "x", 1);
            udp_queue(&r, &q, 2, to, "x", 1); // no such port
        }
    }
    udp_queue(&r, &q, 0, six, "raw", 3); // no socket for it
    q.tail->tx_as_src = 1;
    q.tail->src = client;
    udp_queue(&r, &q, 1, to, "x", 1);
    udp_queue(&r, &q, 0, to, "raw", 3); // two families
    q.tail->tx_as_src = 1;
    q.tail->src = six;
    bt_io_tx(r.a, &q);
    assert_int_equal(q.n, 0);
    assert_int_equal(udp_counter(r.a, BT_UDP_TX_PACKETS), RUN + 2);
    assert_int_equal(udp_counter(r.a, BT_UDP_TX_BAD_ADDRESS), 2);
    assert_int_equal(udp_counter(r.a, BT_UDP_TX_NO_RAW), 1);
    assert_int_equal(udp_receive(r.b, 0, pkts, RUN + 2), RUN + 2);
    unsigned of_client = 0, of_port[2] = {0, 0};
    for (unsigned i = 0; i < RUN + 2; i++) {
        of_client += bt_addr_eq(&pkts[i]->src, &client) && pkts[i]->len == 3;
        for (unsigned port = 0; port < 2; port++) {
            struct bt_addr local = udp_local(r.a, port);
            of_port[port] += bt_addr_eq(&pkts[i]->src, &local) && pkts[i]->len == 1;
        }
        bt_pool_put(r.pool, pkts[i]);
    }
    assert_int_equal(of_client, RUN);
    assert_int_equal(of_port[0], 1);
    assert_int_equal(of_port[1], 1);
    rig_close(&r);
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

// Whatever the payload and its length, the checksums add up; one that comes out as 0 is written as its complement,
// since 0 says that there is none. What does not fit into an IP packet gets no headers.
static void raw_headers_add_up(void **state)
{
    static uint8_t data[65535];
    (void)state;
    for (unsigned i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 7 + 201);
    }
    for (unsigned v6 = 0; v6 < 2; v6++) {
        struct bt_pkt p = {.data = data, .src = bt_addr_v4u(0xfffffffe, 65535), .dst = bt_addr_v4u(0xfffdfffc, 65534)};
        if (v6) {
            p.src = (struct bt_addr){.ip = {0xfd, [15] = 9}, .port = 65535};
            p.dst = (struct bt_addr){.ip = {0xfe, 0x80, [8] = 0xff, 0xff, [15] = 7}, .port = 65534};
        }
        uint32_t heads = v6 ? 48 : 28;
        for (uint32_t len = 0; len <= 65535 - 48; len += len < 64 ? 1 : 4091) {
            uint8_t head[BT_UDP_RAW_HEAD];
            p.len = len;
            assert_int_equal(bt_udp_raw_header(&p, 7, head), heads);
            assert_true(v6 || bt_csum_ok(bt_csum_bytes(0, head, 20)));
            uint64_t sum = bt_csum_bytes(bt_pseudo_sum(&p.src, &p.dst, BT_PROTO_UDP, len + 8), head + heads - 8, 8);
            assert_true(bt_csum_ok(bt_csum_bytes(sum, data, len)));
            if (len >= 2) {
                uint8_t was[2] = {data[0], data[1]};
                data[0] = data[1] = 0;
                assert_int_equal(bt_udp_raw_header(&p, 7, head), heads);
                memcpy(data, head + heads - 2, 2);
                assert_int_equal(bt_udp_raw_header(&p, 7, head), heads);
                assert_memory_equal(head + heads - 2, "\xff\xff", 2);
                memcpy(data, was, 2);
            }
        }
        uint8_t head[BT_UDP_RAW_HEAD];
        p.len = 65535 - 48;
        assert_int_equal(bt_udp_raw_header(&p, 7, head), heads);
        p.len++;
        assert_int_equal(bt_udp_raw_header(&p, 7, head), 0);
    }
}

// Addresses as sockets have them, and back.
static void addresses_go_both_ways(void **state)
{
    const struct bt_addr four = bt_addr_v4u(0x0a0b0c0d, 0x1234), six = {.ip = {0xfd, 1, [14] = 2, 3}, .port = 0x4321};
    union bt_udp_sa sa;
    socklen_t len = 0;
    (void)state;
    memset(&sa, 0xff, sizeof sa);
    assert_int_equal(bt_udp_to_sockaddr(&four, AF_INET, &sa, &len), 0);
    assert_true(len == sizeof sa.v4 && sa.v4.sin_family == AF_INET);
    struct bt_addr back = bt_udp_from_sockaddr(&sa);
    assert_true(bt_addr_eq(&back, &four));
    assert_int_equal(bt_udp_to_sockaddr(&six, AF_INET, &sa, &len), -1);
    const struct bt_addr both[] = {six, four}; // a socket of IPv6 takes IPv4 mapped into it
    for (unsigned i = 0; i < 2; i++) {
        memset(&sa, 0xff, sizeof sa);
        assert_int_equal(bt_udp_to_sockaddr(&both[i], AF_INET6, &sa, &len), 0);
        assert_true(len == sizeof sa.v6 && sa.v6.sin6_family == AF_INET6 && sa.v6.sin6_scope_id == 0);
        back = bt_udp_from_sockaddr(&sa);
        assert_true(bt_addr_eq(&back, &both[i]));
    }
    sa.sa.sa_family = AF_UNIX;
    back = bt_udp_from_sockaddr(&sa);
    assert_memory_equal(&back, &(struct bt_addr){0}, sizeof back);
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
        udp_queue(&r, &q, 0, udp_local(r.a, i % 16 == 5), bytes, length[i % 15]);
    }
    bt_io_tx(r.b, &q);
    assert_int_equal(udp_counter(r.b, BT_UDP_TX_PACKETS), N);
    unsigned other = udp_receive(r.a, 1, pkts[1], 4);
    unsigned got = udp_receive(r.a, 0, pkts[0], N - other);
    assert_int_equal(got + other, N);
    unsigned at[2] = {0, 0};
    for (unsigned i = 0; i < N; i++) { // in order at each port
        struct bt_pkt *p = pkts[i % 16 == 5][at[i % 16 == 5]++];
        assert_int_equal(p->len, length[i % 15]);
        assert_true(p->len == 0 || (p->data[0] == i && p->data[p->len - 1] == i));
        bt_pool_put(r.pool, p);
    }
    assert_int_equal(udp_counter(r.a, BT_UDP_RX_PACKETS), N);
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
    udp_queue(r, &q, 0, dst, "equal", 5);
    udp_queue(r, &q, 0, dst, "equal", 5);
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
    assert_int_equal(udp_counter(r.b, BT_UDP_TX_BAD_ADDRESS), 2);
    assert_true(sends_segments(r.b));
    // Nor does the kernel cut for a socket that makes no checksums.
    assert_int_equal(setsockopt(((struct bt_udp *)r.b)->ports[0].fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
    two_to(&r, udp_local(r.a, 0));
    assert_false(sends_segments(r.b));
    assert_int_equal(udp_counter(r.b, BT_UDP_TX_PACKETS), 2);
    assert_int_equal(udp_receive(r.a, 0, pkts, 2), 2);
    bt_pool_put(r.pool, pkts[0]);
    bt_pool_put(r.pool, pkts[1]);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_packets_are_counted_by_reason),
        cmocka_unit_test(r4_r123_transparent_packets_keep_the_clients_address),
        cmocka_unit_test(r4_r123_the_same_over_ipv6),
        cmocka_unit_test(all_kinds_in_one_queue),
        cmocka_unit_test(raw_headers_carry_right_checksums),
        cmocka_unit_test(raw_headers_add_up),
        cmocka_unit_test(addresses_go_both_ways),
        cmocka_unit_test(runs_of_equal_packets_arrive_one_by_one),
        cmocka_unit_test(only_the_kernel_ends_cutting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
