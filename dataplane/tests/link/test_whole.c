// SPDX-License-Identifier: Apache-2.0
// TCP handed through whole, for a balancer: E-22.
#include "bed.h"

#include "base/bytes.h"
#include "wire/checksum.h"

enum { TCP_PORT = 4, TCP_BYTES = 60 }; // behind the bed's four UDP ports

static struct bed b;

static int setup(void **state)
{
    (void)state;
    bed_plan(&b);
    b.c.takes_tcp = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bed_close(&b);
    return 0;
}

// An IPv4 packet of protocol 6 with `pad` bytes of Ethernet padding behind.
static struct bt_pkt *segment(const char *from, const char *to, uint32_t pad)
{
    struct bt_addr src = addr(from), dst = addr(to);
    struct bt_pkt *pkt = bt_pool_get(b.pool);
    uint8_t *p = bt_pkt_append(pkt, BT_ETHER_HEAD + TCP_BYTES + pad);
    memset(p, 0xee, BT_ETHER_HEAD + TCP_BYTES + pad);
    bt_ether_write(p, our_mac, their_mac, BT_ETHER_IP4);
    bt_ip4_write(p + BT_ETHER_HEAD, &src, &dst, BT_PROTO_TCP, 61, TCP_BYTES - BT_IP4_HEAD, true);
    return pkt;
}

static void e22_a_packet_for_an_own_address_comes_whole(void **state)
{
    (void)state;
    bed_open(&b);
    struct bt_pkt *pkt = segment("10.0.0.9", "10.0.0.2", 7);
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_UDP);
    assert_int_equal(pkt->local, TCP_PORT);
    assert_int_equal(pkt->len, TCP_BYTES); // without padding
    assert_int_equal(pkt->data[0], 0x45);
    assert_int_equal(pkt->ttl, 61);
    bed_put(&b, pkt);
    assert_int_equal(bed_count(&b, BT_LINK_RX_TCP), 1);
    bed_drops(&b, segment("10.0.0.9", "10.0.0.77", 0), BT_LINK_DROP_ADDRESS);
    bed_drops(&b, segment("10.0.0.255", "10.0.0.2", 0), BT_LINK_DROP_MARTIAN);
}

static void e22_a_link_that_was_not_asked_to_drops_it(void **state)
{
    (void)state;
    b.c.takes_tcp = false;
    bed_open(&b);
    bed_drops(&b, segment("10.0.0.9", "10.0.0.2", 0), BT_LINK_DROP_PROTOCOL);
}

// Sends the packet as it is to that next hop.
static void send_on(const char *to, const char *hop)
{
    struct bt_pkt *pkt = segment("10.0.0.9", to, 0);
    bt_pkt_pull(pkt, BT_ETHER_HEAD);
    pkt->dst = addr(hop);
    pkt->local = TCP_PORT;
    bt_link_tx(b.l, b.now, pkt, &b.out);
}

static void e22_it_leaves_unchanged_to_the_next_hop_it_was_given(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, "10.0.0.8", other_mac);
    bed_know(&b, "10.0.0.1", their_mac);
    send_on("10.0.0.8", "10.0.0.8");
    send_on("203.0.113.5", "10.0.0.8"); // direct return: another destination than the hop's
    send_on("192.0.2.9", "192.0.2.9");  // by the gateway
    for (int i = 0; i < 3; i++) {
        struct bt_pkt *pkt = bed_sent(&b);
        assert_memory_equal(pkt->data, i < 2 ? other_mac : their_mac, 6);
        assert_memory_equal(pkt->data + 6, our_mac, 6);
        assert_int_equal(pkt->len, BT_ETHER_HEAD + TCP_BYTES);
        assert_int_equal(pkt->data[BT_ETHER_HEAD + 8], 61); // the TTL is the balancer's affair
        assert_true(bt_csum_ok(bt_csum_bytes(0, pkt->data + BT_ETHER_HEAD, BT_IP4_HEAD)));
        bed_put(&b, pkt);
    }
    assert_int_equal(bed_count(&b, BT_LINK_TX_TCP), 3);
}

static void e22_direct_return_by_a_gateway_would_come_straight_back(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, "10.0.0.1", their_mac);
    send_on("203.0.113.5", "192.0.2.9");
    bed_sends_nothing(&b);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_NO_ROUTE), 1);
    send_on("10.0.0.2", "10.0.0.2"); // ourselves
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_BAD_ADDRESS), 1);
}

static void e22_it_waits_for_an_unknown_neighbour_like_any_packet(void **state)
{
    (void)state;
    bed_open(&b);
    send_on("10.0.0.8", "10.0.0.8");
    struct bt_pkt *asks = bed_sent(&b);
    assert_int_equal(bt_get16(asks->data + 12), BT_ETHER_ARP);
    bed_put(&b, asks);
    bed_sends_nothing(&b);
    bed_rx(&b, bed_arp(&b, true, "10.0.0.8", other_mac, "10.0.0.2"));
    struct bt_pkt *pkt = bed_sent(&b);
    assert_memory_equal(pkt->data, other_mac, 6);
    assert_int_equal(pkt->data[BT_ETHER_HEAD + 9], BT_PROTO_TCP);
    bed_put(&b, pkt);
    assert_int_equal(bed_count(&b, BT_LINK_TX_TCP), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(e22_a_packet_for_an_own_address_comes_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(e22_a_link_that_was_not_asked_to_drops_it, setup, teardown),
        cmocka_unit_test_setup_teardown(e22_it_leaves_unchanged_to_the_next_hop_it_was_given, setup, teardown),
        cmocka_unit_test_setup_teardown(e22_direct_return_by_a_gateway_would_come_straight_back, setup, teardown),
        cmocka_unit_test_setup_teardown(e22_it_waits_for_an_unknown_neighbour_like_any_packet, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
