// SPDX-License-Identifier: Apache-2.0
// The way out: source, next hop, headers, checksums, MTU, and what is refused.
#include "bed.h"

#include <errno.h>

#include "base/bytes.h"
#include "wire/checksum.h"

static struct bed b;

static void open_known(void)
{
    bed_open(&b);
    bed_know(&b, "10.0.0.9", their_mac);
    bed_know(&b, "fd00::9", their_mac);
    bed_know(&b, "fe80::9", their_mac);
    bed_know(&b, "10.0.0.1", other_mac);
    bed_know(&b, "fe80::1", other_mac);
}

// The one frame sent, from `from` by the station at `mac`.
static void leaves(uint16_t local, const char *to, uint32_t len, const char *from, const uint8_t mac[6])
{
    bed_tx(&b, local, to, len);
    struct bt_pkt *pkt = bed_sent(&b);
    struct bt_addr src = addr(from), dst = addr(to);
    struct bt_ip ip = ip_of(pkt);
    assert_int_equal(bt_udp_judge(&ip, true), BT_FRAME_OK);
    assert_true(bt_addr_eq(&ip.src, &src) && bt_addr_eq(&ip.dst, &dst));
    assert_int_equal(ip.body_len, len);
    assert_int_equal(ip.ttl, 64);
    assert_memory_equal(pkt->data, mac, 6);
    assert_memory_equal(pkt->data + 6, our_mac, 6);
    assert_int_equal(pkt->offload, 0);
    if (ip.v4) {
        assert_int_equal(bt_get16(ip.head + 6), 0x4000); // don't fragment
    }
    bed_put(&b, pkt);
}

static void e16_e17_sources_and_hops(void **state)
{
    (void)state;
    open_known();
    leaves(AT_V4, "10.0.0.9:5000", 0, "10.0.0.2:8000", their_mac);
    leaves(AT_V4, "192.0.2.1:5000", 33, "10.0.0.2:8000", other_mac);
    leaves(AT_ANY4, "10.0.0.9:5000", 1472, "10.0.0.2:8002", their_mac);
    leaves(AT_ANY4, "192.0.2.1:5000", 1, "10.0.0.2:8002", other_mac);
    leaves(AT_V6, "[fd00::9]:5000", 1452, "[fd00::2]:8001", their_mac);
    leaves(AT_ANY6, "[fd00::9]:5000", 7, "[fd00::2]:8003", their_mac);
    leaves(AT_ANY6, "[fe80::9]:5000", 7, "[fe80::ff:fe00:2]:8003", their_mac);
    leaves(AT_ANY6, "[2001:db8::1]:5000", 7, "[fd00::2]:8003", other_mac); // not from fe80::, though the gateway is
}

static void e16_an_answer_leaves_from_where_the_question_went(void **state)
{
    (void)state;
    assert_int_equal(bt_link_prefix_parse("10.0.0.5/24", &b.addrs[2]), 0);
    b.c.n_addrs = 3;
    open_known();
    struct bt_pkt *pkt = bed_udp(&b, "10.0.0.9:5000", "10.0.0.5:8002", 4);
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_UDP);
    struct bt_addr from = pkt->src, five = addr("10.0.0.5:8002");
    pkt->src = pkt->dst;
    pkt->dst = from;
    bt_link_tx(b.l, b.now, pkt, &b.out);
    assert_ptr_equal(bed_sent(&b), pkt);
    struct bt_ip ip = ip_of(pkt);
    assert_int_equal(bt_udp_judge(&ip, true), BT_FRAME_OK);
    assert_true(bt_addr_eq(&ip.src, &five));
    bed_put(&b, pkt);
}

static void refused(uint16_t local, const char *to, enum bt_link_counter why, int error)
{
    uint64_t before = bed_count(&b, why);
    bed_tx(&b, local, to, 10);
    assert_int_equal(bed_count(&b, why), before + 1);
    bed_sends_nothing(&b);
    assert_true(error == 0 || bed_event(&b, to, error));
}

static void e16_refusals(void **state)
{
    (void)state;
    b.c.gateway4 = b.c.gateway6 = (struct bt_addr){.port = 0};
    bed_open(&b);
    const char *bad[] = {"10.0.0.2:1", "10.0.0.255:1", "224.0.0.1:1", "255.255.255.255:1",
                         "0.0.0.0:1",  "127.0.0.1:1",  "[fd00::9]:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(AT_V4, bad[i], BT_LINK_TXDROP_BAD_ADDRESS, 0);
    }
    refused(AT_V6, "10.0.0.9:1", BT_LINK_TXDROP_BAD_ADDRESS, 0);
    refused(AT_ANY6, "10.0.0.9:1", BT_LINK_TXDROP_BAD_ADDRESS, 0);
    refused(AT_ANY6, "[ff02::1]:1", BT_LINK_TXDROP_BAD_ADDRESS, 0);
    refused(AT_ANY6, "[fe80::ff:fe00:2]:1", BT_LINK_TXDROP_BAD_ADDRESS, 0); // ourselves
    refused(4, "10.0.0.9:1", BT_LINK_TXDROP_BAD_ADDRESS, 0);                // no such local port
    refused(AT_V4, "192.0.2.1:1", BT_LINK_TXDROP_NO_ROUTE, ENETUNREACH);
    refused(AT_V6, "[2001:db8::1]:1", BT_LINK_TXDROP_NO_ROUTE, ENETUNREACH);
}

static void e17_transparent(void **state)
{
    (void)state;
    open_known();
    const struct {
        const char *from, *to;
        uint8_t arrived, leaves;
    } cases[] = {{"192.0.2.7:99", "10.0.0.9:8000", 0, 63},
                 {"192.0.2.7:99", "10.0.0.9:8000", 17, 16},
                 {"10.0.0.77:99", "10.0.0.9:8000", 255, 254},
                 {"[2001:db8::7]:99", "[fd00::9]:8000", 2, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bt_pkt *pkt = bt_pool_get(b.pool);
        memset(bt_pkt_append(pkt, 9), 1, 9);
        pkt->src = addr(cases[i].from);
        pkt->dst = addr(cases[i].to);
        pkt->tx_as_src = 1;
        pkt->ttl = cases[i].arrived;
        pkt->local = 999; // has no say
        struct bt_addr src = pkt->src;
        bt_link_tx(b.l, b.now, pkt, &b.out);
        struct bt_ip ip = ip_of(bed_sent(&b));
        assert_int_equal(bt_udp_judge(&ip, true), BT_FRAME_OK);
        assert_true(bt_addr_eq(&ip.src, &src));
        assert_int_equal(ip.ttl, cases[i].leaves);
        bed_put(&b, pkt);
    }
}

static void e17_transparent_refusals(void **state)
{
    (void)state;
    open_known();
    const char *pairs[][2] = {{"192.0.2.7:99", "10.0.0.9:8000"},  // arrived with TTL 1
                              {"[2001:db8::7]:99", "10.0.0.9:1"}, // another family
                              {"224.0.0.1:99", "10.0.0.9:1"}};
    for (int i = 0; i < 3; i++) {
        struct bt_pkt *pkt = bt_pool_get(b.pool);
        pkt->src = addr(pairs[i][0]);
        pkt->dst = addr(pairs[i][1]);
        pkt->tx_as_src = 1;
        pkt->ttl = 1;
        bt_link_tx(b.l, b.now, pkt, &b.out);
        bed_sends_nothing(&b);
    }
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TTL), 1);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_BAD_ADDRESS), 2);
}

static void e17_the_device_completes(void **state)
{
    (void)state;
    b.c.tx_ip_sum = b.c.tx_udp_sum = true;
    open_known();
    const char *to[] = {"10.0.0.9:5000", "[fd00::9]:5000"};
    for (uint16_t i = 0; i < 2; i++) {
        bed_tx(&b, i == 0 ? AT_V4 : AT_V6, to[i], 101);
        struct bt_pkt *pkt = bed_sent(&b);
        uint8_t *p = pkt->data + BT_ETHER_HEAD, *udp = p + (i == 0 ? BT_IP4_HEAD : BT_IP6_HEAD);
        assert_int_equal(pkt->offload, i == 0 ? BT_PKT_TX_IP_SUM | BT_PKT_TX_UDP_SUM : BT_PKT_TX_UDP_SUM);
        if (i == 0) {
            assert_int_equal(bt_get16(p + 10), 0);
            bt_csum_store(p + 10, bt_csum_bytes(0, p, BT_IP4_HEAD)); // what the device does
        }
        bt_csum_store_udp(udp + 6, bt_csum_bytes(0, udp, 8 + 101));
        struct bt_ip ip = ip_of(pkt);
        assert_int_equal(bt_udp_judge(&ip, true), BT_FRAME_OK);
        bed_put(&b, pkt);
    }
}

static void e18_mtu(void **state)
{
    (void)state;
    b.c.mtu = 1400;
    open_known();
    struct bt_link_event e;
    const struct {
        uint16_t local;
        const char *to;
        uint32_t most;
    } cases[] = {{AT_V4, "10.0.0.9:5000", 1372}, {AT_V6, "[fd00::9]:5000", 1352}};
    for (int i = 0; i < 2; i++) {
        bed_tx(&b, cases[i].local, cases[i].to, cases[i].most);
        bed_put(&b, bed_sent(&b));
        bed_tx(&b, cases[i].local, cases[i].to, cases[i].most + 1);
        bed_sends_nothing(&b);
        assert_int_equal(bt_link_events(b.l, &e, 1), 1);
        assert_true(e.error == EMSGSIZE && e.mtu == 1400);
    }
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TOO_LONG), 2);
}

static void e17_headroom(void **state)
{
    (void)state;
    open_known();
    for (uint32_t room = 0; room < 42; room++) {
        struct bt_pkt *pkt = bt_pool_get(b.pool);
        pkt->room_before = room;
        pkt->dst = addr("10.0.0.9:1");
        bt_link_tx(b.l, b.now, pkt, &b.out);
    }
    bed_sends_nothing(&b);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_NO_ROOM), 42);
}

static void e16_random_ports(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        b.locals[i] = addr("0.0.0.0:1"), b.locals[i].port = 0;
    }
    bed_open(&b);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(bt_link_local(b.l, i).port >= 49152);
        for (uint32_t k = 0; k < i; k++) {
            assert_int_not_equal(bt_link_local(b.l, i).port, bt_link_local(b.l, k).port);
        }
        struct bt_addr at = addr("10.0.0.2:1");
        at.port = bt_link_local(b.l, i).port;
        assert_int_equal(link_find_local(b.l, &at), i);
    }
    assert_int_equal(bt_link_local(b.l, 4).port, 0);
}

#define TEST(f) cmocka_unit_test_prestate_setup_teardown(f, bed_setup, bed_teardown, &b)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(e16_e17_sources_and_hops),
        TEST(e16_an_answer_leaves_from_where_the_question_went),
        TEST(e16_refusals),
        TEST(e17_transparent),
        TEST(e17_transparent_refusals),
        TEST(e17_the_device_completes),
        TEST(e18_mtu),
        TEST(e17_headroom),
        TEST(e16_random_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
