// SPDX-License-Identifier: Apache-2.0
// Checksums left to the device, which no driver that runs everywhere can do. The linker puts these in front of DPDK's
// calls (--wrap): the ring says it can, and what it is asked for is looked at here.
#include "unit.h"

#include "dpdk_hosts.h"
#include "io/dpdk_internal.h"
#include "wire/frame.h"

#include <rte_ip.h>
#include <rte_udp.h>
#include <stdio.h>
#include <string.h>

#define TX_SUMS (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM)
#define RX_SUMS (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM)

enum { PAYLOAD = 11, PAYLOAD4_AT = BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD };

static const uint8_t peer_mac[6] = {2, 0, 0, 0, 0, 9};
static uint64_t can_tx, can_rx, asked_tx, asked_rx; // offloads

int __real_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info);
int __real_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf);
int __wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info);
int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf);

int __wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
    int failed = __real_rte_eth_dev_info_get(port, info);
    info->tx_offload_capa = can_tx;
    info->rx_offload_capa = can_rx;
    return failed;
}

int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf)
{
    struct rte_eth_conf without = *conf;
    asked_tx = conf->txmode.offloads;
    asked_rx = conf->rxmode.offloads;
    without.txmode.offloads = without.rxmode.offloads = 0;
    return __real_rte_eth_dev_configure(port, rx, tx, &without);
}

static char said[1000];

static void say(const char *line)
{
    size_t at = strlen(said);
    snprintf(said + at, sizeof said - at, "%s\n", line);
}

// A host whose peer's MAC is known, on the device that can do these.
static struct {
    struct bt_dpdk_device *dev;
    struct bt_io *io;
} host;

static void open_host(uint64_t tx, uint64_t rx)
{
    struct bt_link_static peers[2] = {{.ip = dpdk_address(false, 9, 0)}, {.ip = dpdk_address(true, 9, 0)}};
    struct bt_addr locals[2] = {dpdk_address(false, 2, REQUEST_PORT), dpdk_address(true, 2, REQUEST_PORT)};
    struct bt_dpdk_config io = {.locals = locals, .n_locals = 2};
    struct bt_link_prefix own[2];
    char err[400];
    for (unsigned i = 0; i < 2; i++) {
        memcpy(peers[i].mac, peer_mac, sizeof peer_mac);
    }
    dpdk_addresses(2, own);
    struct bt_dpdk_device_config cfg = {.port = "net_ring_b",
                                        .addrs = own,
                                        .n_addrs = 2,
                                        .statics = peers,
                                        .n_statics = 2,
                                        .buffers = 2048,
                                        .seed = 1,
                                        .log = say};
    can_tx = tx;
    can_rx = rx;
    said[0] = '\0';
    host.dev = bt_dpdk_device_open(&cfg, err, sizeof err);
    host.io = host.dev != NULL ? bt_dpdk_open(host.dev, &io, err, sizeof err) : NULL;
    if (host.io == NULL) {
        fail_msg("%s", err);
    }
}

static void close_host(void)
{
    void *m;
    host.io->ops->close(host.io);
    while (rte_ring_dequeue(wire[1], &m) == 0) {
        rte_pktmbuf_free(m);
    }
    assert_int_equal(bt_dpdk_device_close(host.dev), 0);
}

// --- out

static void send_to(bool v6, unsigned count)
{
    struct bt_txq q;
    bt_txq_init(&q);
    for (unsigned i = 0; i < count; i++) {
        struct bt_pkt *p = bt_pool_get(bt_dpdk_pool(host.dev));
        assert_non_null(p);
        memset(bt_pkt_append(p, PAYLOAD), (int)i + 1, PAYLOAD);
        p->local = v6;
        p->dst = dpdk_address(v6, 9, 7000);
        bt_txq_push(&q, p);
    }
    bt_io_tx(host.io, &q);
}

// The next UDP frame that left. Others (announcements) ask nothing of the device.
static struct rte_mbuf *sent(bool v6)
{
    void *p;
    while (rte_ring_dequeue(wire[1], &p) == 0) {
        struct rte_mbuf *m = p;
        const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
        if (memcmp(frame, peer_mac, sizeof peer_mac) == 0 && frame[12] == (v6 ? 0x86 : 0x08) && frame[13] != 6) {
            return m;
        }
        assert_int_equal(m->ol_flags, 0);
        rte_pktmbuf_free(m);
    }
    return NULL;
}

// DPDK's own arithmetic is the judge.
static void check_left_to_device(struct rte_mbuf *m, bool v6)
{
    assert_non_null(m);
    uint8_t *ip = rte_pktmbuf_mtod_offset(m, uint8_t *, BT_ETHER_HEAD);
    assert_int_equal(m->l2_len, BT_ETHER_HEAD);
    assert_int_equal(m->l3_len, v6 ? BT_IP6_HEAD : BT_IP4_HEAD);
    struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(void *)(ip + m->l3_len);
    if (v6) {
        assert_int_equal(m->ol_flags, RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_UDP_CKSUM);
        assert_int_equal(udp->dgram_cksum, rte_ipv6_phdr_cksum((struct rte_ipv6_hdr *)(void *)ip, m->ol_flags));
    } else {
        assert_int_equal(m->ol_flags, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM);
        assert_int_equal(((struct rte_ipv4_hdr *)(void *)ip)->hdr_checksum, 0);
        assert_int_equal(udp->dgram_cksum, rte_ipv4_phdr_cksum((struct rte_ipv4_hdr *)(void *)ip, m->ol_flags));
    }
}

static void check_complete(struct rte_mbuf *m, bool v6)
{
    assert_non_null(m);
    uint8_t *ip = rte_pktmbuf_mtod_offset(m, uint8_t *, BT_ETHER_HEAD);
    struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(void *)(ip + (v6 ? BT_IP6_HEAD : BT_IP4_HEAD));
    rte_be16_t there = udp->dgram_cksum;
    assert_int_equal(m->ol_flags, 0);
    assert_true(v6 || rte_raw_cksum(ip, BT_IP4_HEAD) == 0xffff);
    udp->dgram_cksum = 0;
    assert_int_equal(there, v6 ? rte_ipv6_udptcp_cksum((void *)ip, udp) : rte_ipv4_udptcp_cksum((void *)ip, udp));
}

static void e17_the_device_is_told_what_to_complete(void **state)
{
    (void)state;
    open_host(TX_SUMS, 0);
    assert_int_equal(asked_tx, TX_SUMS);
    assert_int_equal(asked_rx, 0);
    assert_non_null(strstr(said, "checksums: the device completes those sent, software checks those received"));
    for (unsigned v6 = 0; v6 < 2; v6++) {
        send_to(v6, 1);
        struct rte_mbuf *m = sent(v6);
        check_left_to_device(m, v6);
        rte_pktmbuf_free(m);
    }
    close_host();
}

// One of the two would leave the other to software, which fills in both or none.
static void e17_half_a_device_is_none(void **state)
{
    static const uint64_t tx[] = {0, RTE_ETH_TX_OFFLOAD_IPV4_CKSUM, RTE_ETH_TX_OFFLOAD_UDP_CKSUM};
    (void)state;
    for (unsigned i = 0; i < sizeof tx / sizeof tx[0]; i++) {
        open_host(tx[i], RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
        assert_int_equal(asked_tx | asked_rx, 0);
        assert_non_null(strstr(said, "checksums: software completes those sent, software checks those received"));
        for (unsigned v6 = 0; v6 < 2; v6++) {
            send_to(v6, 1);
            struct rte_mbuf *m = sent(v6);
            check_complete(m, v6);
            rte_pktmbuf_free(m);
        }
        close_host();
    }
}

// What a driver does not take when the frames are prepared for it: the second of three.
static uint16_t prepare_refuses_two(void *queue, struct rte_mbuf **m, uint16_t n)
{
    (void)queue;
    for (uint16_t i = 0; i < n; i++) {
        if (*rte_pktmbuf_mtod_offset(m[i], const uint8_t *, PAYLOAD4_AT) == 2) {
            return i;
        }
    }
    return n;
}

static void a_frame_the_driver_refuses_is_dropped_alone(void **state)
{
    (void)state;
    open_host(TX_SUMS, 0);
    rte_eth_fp_ops[host.dev->port].tx_pkt_prepare = prepare_refuses_two;
    send_to(false, 3);
    for (unsigned i = 1; i <= 3; i += 2) {
        struct rte_mbuf *m = sent(false);
        check_left_to_device(m, false);
        assert_int_equal(*rte_pktmbuf_mtod_offset(m, const uint8_t *, PAYLOAD4_AT), i);
        rte_pktmbuf_free(m);
    }
    assert_null(sent(false));
    assert_int_equal(hosts_counter(host.io, "io_tx_dropped_total", "refused"), 1);
    close_host();
}

// --- in

enum { RIGHT = 0, WRONG_IP = 1, WRONG_UDP = 2 };

// A datagram as the device would hand it over, with these flags.
static void deliver(bool v6, unsigned wrong, uint64_t flags)
{
    struct bt_addr from = dpdk_address(v6, 9, 7000);
    struct bt_addr to = dpdk_address(v6, 2, REQUEST_PORT);
    struct rte_mbuf *m = rte_pktmbuf_alloc(host.dev->buffers);
    assert_non_null(m);
    uint32_t head = v6 ? BT_IP6_HEAD : BT_IP4_HEAD;
    uint8_t *frame = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(BT_ETHER_HEAD + head + BT_UDP_HEAD + PAYLOAD));
    uint8_t *ip = frame + BT_ETHER_HEAD;
    memset(ip + head + BT_UDP_HEAD, 7, PAYLOAD);
    bt_ether_write(frame, host.dev->mac, peer_mac, v6 ? BT_ETHER_IP6 : BT_ETHER_IP4);
    if (v6) {
        bt_ip6_write(ip, &from, &to, BT_PROTO_UDP, BT_TTL, BT_UDP_HEAD + PAYLOAD);
    } else {
        bt_ip4_write(ip, &from, &to, BT_PROTO_UDP, BT_TTL, BT_UDP_HEAD + PAYLOAD);
    }
    bt_udp_write(ip + head, &from, &to, PAYLOAD, BT_UDP_SUM_FULL);
    ip[10] ^= !v6 && (wrong & WRONG_IP) != 0 ? 0x55 : 0;
    ip[head + 6] ^= (wrong & WRONG_UDP) != 0 ? 0x55 : 0;
    m->ol_flags = flags;
    assert_int_equal(rte_ring_enqueue(wire[0], m), 0);
}

struct story {
    unsigned wrong;
    uint64_t flags;
    const char *dropped; // as what; NULL: it is taken
};

static void tell(const struct story *s, bool v6)
{
    struct bt_pkt *pkts[BT_IO_BATCH];
    uint64_t before = s->dropped != NULL ? hosts_counter(host.io, "link_rx_dropped_total", s->dropped) : 0;
    deliver(v6, s->wrong, s->flags);
    unsigned n = bt_io_rx(host.io, BT_IO_ANY, pkts, BT_IO_BATCH);
    assert_int_equal(n, s->dropped == NULL);
    if (s->dropped != NULL) {
        assert_int_equal(hosts_counter(host.io, "link_rx_dropped_total", s->dropped), before + 1);
        return;
    }
    // Turned round in its buffer, it asks of the device what any other packet does, and no more.
    struct bt_txq q;
    bt_txq_init(&q);
    pkts[0]->dst = pkts[0]->src;
    bt_txq_push(&q, pkts[0]);
    bt_io_tx(host.io, &q);
    struct rte_mbuf *m = sent(v6);
    if (host.dev->tx_udp_sum) {
        check_left_to_device(m, v6);
    } else {
        check_complete(m, v6);
    }
    rte_pktmbuf_free(m);
}

#define IP_GOOD RTE_MBUF_F_RX_IP_CKSUM_GOOD
#define IP_BAD  RTE_MBUF_F_RX_IP_CKSUM_BAD
#define IP_NONE RTE_MBUF_F_RX_IP_CKSUM_NONE
#define L4_GOOD RTE_MBUF_F_RX_L4_CKSUM_GOOD
#define L4_BAD  RTE_MBUF_F_RX_L4_CKSUM_BAD
#define L4_NONE RTE_MBUF_F_RX_L4_CKSUM_NONE

// E-3, E-7: what the device found out counts; what it did not look at, software does.
static void e7_the_device_is_believed_as_far_as_it_looked(void **state)
{
    static const struct story stories[] = {
        {RIGHT, IP_GOOD | L4_GOOD, NULL},
        {WRONG_IP | WRONG_UDP, IP_GOOD | L4_GOOD, NULL}, // nobody looks twice
        {RIGHT, IP_BAD | L4_GOOD, "ip_checksum"},
        {RIGHT, IP_GOOD | L4_BAD, "udp_checksum"},
        {RIGHT, 0, NULL},
        {WRONG_IP, 0, "ip_checksum"},
        {WRONG_UDP, 0, "udp_checksum"},
        {WRONG_UDP, IP_GOOD, "udp_checksum"},
        {WRONG_IP, L4_GOOD, "ip_checksum"},
        // The field holds no checksum yet, but the data is known to be whole: a virtual machine beside us sent it.
        {WRONG_UDP, IP_GOOD | L4_NONE, NULL},
        {WRONG_IP, IP_NONE | L4_GOOD, NULL},
    };
    (void)state;
    open_host(TX_SUMS, RX_SUMS);
    assert_int_equal(asked_rx, RX_SUMS);
    assert_non_null(strstr(said, "checksums: the device completes those sent, the device checks those received"));
    for (unsigned i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        tell(&stories[i], false);
    }
    close_host();
}

static void e7_over_ipv6_only_udp_has_a_checksum(void **state)
{
    static const struct story stories[] = {
        {RIGHT, L4_GOOD, NULL}, {WRONG_UDP, L4_GOOD, NULL},     {RIGHT, L4_BAD, "udp_checksum"},
        {RIGHT, 0, NULL},       {WRONG_UDP, 0, "udp_checksum"}, {WRONG_UDP, L4_NONE, NULL},
    };
    (void)state;
    open_host(TX_SUMS, RX_SUMS);
    for (unsigned i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        tell(&stories[i], true);
    }
    close_host();
}

// Flags of a device that was asked for nothing mean nothing.
static void e7_a_device_that_was_not_asked_is_not_believed(void **state)
{
    static const struct story stories[] = {
        {RIGHT, IP_BAD | L4_BAD, NULL},
        {WRONG_UDP, IP_GOOD | L4_GOOD, "udp_checksum"},
        {WRONG_IP, IP_GOOD | L4_GOOD, "ip_checksum"},
    };
    (void)state;
    open_host(0, 0);
    for (unsigned i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        tell(&stories[i], false);
    }
    close_host();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e17_the_device_is_told_what_to_complete),
        cmocka_unit_test(e17_half_a_device_is_none),
        cmocka_unit_test(a_frame_the_driver_refuses_is_dropped_alone),
        cmocka_unit_test(e7_the_device_is_believed_as_far_as_it_looked),
        cmocka_unit_test(e7_over_ipv6_only_udp_has_a_checksum),
        cmocka_unit_test(e7_a_device_that_was_not_asked_is_not_believed),
    };
    return cmocka_run_group_tests(tests, hosts_start, NULL);
}
