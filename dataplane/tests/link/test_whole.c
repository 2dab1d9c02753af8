// SPDX-License-Identifier: Apache-2.0
// TCP handed through whole, for a balancer: E-22; each with IPv4 and with IPv6.
#include "bed.h"

#include <errno.h>

#include "base/bytes.h"
#include "wire/checksum.h"

enum { TCP_PORT = 4, TCP_BYTES = 60 }; // behind the bed's four UDP ports

static struct bed b;

// The hosts of the bed in both families; which one a test is about, its group says.
struct hosts {
    const char *us, *server, *peer, *gateway, *not_ours, *martian, *far, *vip;
};
static const struct hosts four = {"10.0.0.2",  "10.0.0.8",   "10.0.0.9",  "10.0.0.1",
                                  "10.0.0.77", "10.0.0.255", "192.0.2.9", "203.0.113.5"},
                          six = {"fd00::2",  "fd00::8", "fd00::9",     "fe80::1",
                                 "fd00::77", "::1",     "2001:db8::9", "2001:db8:1::5"};
static const struct hosts *on;

static int four_group(void **state)
{
    (void)state;
    on = &four;
    return 0;
}

static int six_group(void **state)
{
    (void)state;
    on = &six;
    return 0;
}

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

// A packet of protocol 6 with `pad` bytes of Ethernet padding behind.
static struct bt_pkt *segment(const char *from, const char *to, uint32_t pad)
{
    struct bt_addr src = addr(from), dst = addr(to);
    bool v4 = bt_addr_is_v4(&dst);
    struct bt_pkt *pkt = bt_pool_get(b.pool);
    uint8_t *p = bt_pkt_append(pkt, BT_ETHER_HEAD + TCP_BYTES + pad);
    memset(p, 0xee, BT_ETHER_HEAD + TCP_BYTES + pad);
    bt_ether_write(p, our_mac, their_mac, v4 ? BT_ETHER_IP4 : BT_ETHER_IP6);
    if (v4) {
        bt_ip4_write(p + BT_ETHER_HEAD, &src, &dst, BT_PROTO_TCP, 61, TCP_BYTES - BT_IP4_HEAD);
    } else {
        bt_ip6_write(p + BT_ETHER_HEAD, &src, &dst, BT_PROTO_TCP, 61, TCP_BYTES - BT_IP6_HEAD);
    }
    return pkt;
}

static void e22_a_packet_for_an_own_address_comes_whole(void **state)
{
    (void)state;
    bed_open(&b);
    struct bt_pkt *pkt = segment(on->peer, on->us, 7);
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_UDP);
    assert_int_equal(pkt->local, TCP_PORT);
    assert_int_equal(pkt->len, TCP_BYTES); // without padding
    assert_int_equal(pkt->data[0], on == &four ? 0x45 : 0x60);
    assert_int_equal(pkt->ttl, 61);
    bed_put(&b, pkt);
    assert_int_equal(bed_count(&b, BT_LINK_RX_TCP), 1);
    bed_drops(&b, segment(on->peer, on->not_ours, 0), BT_LINK_DROP_ADDRESS);
    bed_drops(&b, segment(on->martian, on->us, 0), BT_LINK_DROP_MARTIAN);
}

// With its whole checksum, or as a kernel leaves it to a device.
static struct bt_pkt *summed(bool whole)
{
    struct bt_pkt *pkt = segment(on->peer, on->us, 3);
    struct bt_addr src = addr(on->peer), dst = addr(on->us);
    uint32_t head = BT_ETHER_HEAD + (on == &four ? BT_IP4_HEAD : BT_IP6_HEAD), len = BT_ETHER_HEAD + TCP_BYTES - head;
    uint8_t *tcp = pkt->data + head;
    uint64_t pseudo = bt_pseudo_sum(&src, &dst, BT_PROTO_TCP, len);
    memset(tcp + 16, 0, 2);
    if (whole) {
        bt_csum_store(tcp + 16, bt_csum_bytes(pseudo, tcp, len));
    } else {
        bt_csum_store_partial(tcp + 16, pseudo);
    }
    return pkt;
}

// Takes the packet and compares what is handed up with the packet as it would be with its whole checksum.
static void comes_as_if_summed(struct bt_pkt *pkt, bool same)
{
    struct bt_pkt *want = summed(true);
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_UDP);
    assert_int_equal(pkt->len, TCP_BYTES);
    assert_int_equal(memcmp(pkt->data, want->data + BT_ETHER_HEAD, TCP_BYTES) == 0, same);
    bed_put(&b, pkt);
    bed_put(&b, want);
}

static void e23_a_segment_a_kernel_left_to_a_device_is_completed(void **state)
{
    (void)state;
    b.c.rx_unfinished = true;
    bed_open(&b);
    comes_as_if_summed(summed(false), true);
    assert_int_equal(bed_count(&b, BT_LINK_RX_UNFINISHED), 1);
    comes_as_if_summed(summed(true), true);
    struct bt_pkt *damaged = summed(true);
    damaged->data[damaged->len - 4] ^= 1; // stays damaged (C-23)
    comes_as_if_summed(damaged, false);
    assert_int_equal(bed_count(&b, BT_LINK_RX_UNFINISHED), 1);
}

static void e23_a_segment_elsewhere_comes_as_it_is(void **state)
{
    (void)state;
    bed_open(&b);
    comes_as_if_summed(summed(false), false);
    assert_int_equal(bed_count(&b, BT_LINK_RX_UNFINISHED), 0);
}

static void e22_a_link_that_was_not_asked_to_drops_it(void **state)
{
    (void)state;
    b.c.takes_tcp = false;
    bed_open(&b);
    bed_drops(&b, segment(on->peer, on->us, 0), BT_LINK_DROP_PROTOCOL);
}

// Sends the packet as it is to that next hop, with so many bytes more than usual.
static void send_longer(const char *to, const char *hop, uint32_t more)
{
    struct bt_pkt *pkt = segment(on->peer, to, more);
    bt_pkt_pull(pkt, BT_ETHER_HEAD);
    pkt->dst = addr(hop);
    pkt->local = TCP_PORT;
    bt_link_tx(b.l, b.now, pkt, &b.out);
}

static void send_on(const char *to, const char *hop)
{
    send_longer(to, hop, 0);
}

static void e22_it_leaves_unchanged_to_the_next_hop_it_was_given(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, on->server, other_mac);
    bed_know(&b, on->gateway, their_mac);
    send_on(on->server, on->server);
    send_on(on->vip, on->server); // direct return: another destination than the hop's
    send_on(on->far, on->far);    // by the gateway
    for (int i = 0; i < 3; i++) {
        struct bt_pkt *pkt = bed_sent(&b);
        assert_memory_equal(pkt->data, i < 2 ? other_mac : their_mac, 6);
        assert_memory_equal(pkt->data + 6, our_mac, 6);
        assert_int_equal(pkt->len, BT_ETHER_HEAD + TCP_BYTES);
        const uint8_t *ip = pkt->data + BT_ETHER_HEAD;
        assert_int_equal(bt_get16(ip - 2), on == &four ? BT_ETHER_IP4 : BT_ETHER_IP6);
        assert_int_equal(ip[on == &four ? 8 : 7], 61); // the TTL is the balancer's affair
        assert_true(on == &six || bt_csum_ok(bt_csum_bytes(0, ip, BT_IP4_HEAD)));
        bed_put(&b, pkt);
    }
    assert_int_equal(bed_count(&b, BT_LINK_TX_TCP), 3);
}

static void e22_direct_return_by_a_gateway_would_come_straight_back(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, on->gateway, their_mac);
    send_on(on->vip, on->far);
    bed_sends_nothing(&b);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_NO_ROUTE), 1);
    send_on(on->us, on->us); // ourselves
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_BAD_ADDRESS), 1);
    send_on(on->server, on == &four ? six.server : four.server); // a hop of the other family
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_BAD_ADDRESS), 2);
}

static void e18_e22_what_is_longer_than_the_mtu_does_not_leave(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, on->server, other_mac);
    send_longer(on->server, on->server, 1500 - TCP_BYTES);
    bed_put(&b, bed_sent(&b));
    send_longer(on->server, on->server, 1501 - TCP_BYTES);
    bed_sends_nothing(&b);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TOO_LONG), 1);
    assert_true(bed_event(&b, on == &four ? "10.0.0.8:1" : "[fd00::8]:1", EMSGSIZE));
}

static void e22_it_waits_for_an_unknown_neighbour_like_any_packet(void **state)
{
    (void)state;
    bed_open(&b);
    send_on(on->server, on->server);
    struct bt_pkt *asks = bed_sent(&b);
    if (on == &four) {
        assert_int_equal(bt_get16(asks->data + 12), BT_ETHER_ARP);
    } else {
        assert_int_equal(asks->data[BT_ETHER_HEAD + BT_IP6_HEAD], BT_ICMP6_NEIGHBOUR_SOLICITATION);
    }
    bed_put(&b, asks);
    bed_sends_nothing(&b);
    if (on == &four) {
        bed_rx(&b, bed_arp(&b, true, on->server, other_mac, on->us));
    } else {
        bed_rx(&b, bed_nd(&b, true, on->server, on->us, on->server, other_mac, 3));
    }
    struct bt_pkt *pkt = bed_sent(&b);
    assert_memory_equal(pkt->data, other_mac, 6);
    assert_int_equal(pkt->data[BT_ETHER_HEAD + (on == &four ? 9 : 6)], BT_PROTO_TCP);
    bed_put(&b, pkt);
    assert_int_equal(bed_count(&b, BT_LINK_TX_TCP), 1);
}

// E-4, C-9: what a balancer would have to look behind is counted here, whatever header it is.
static void e4_tcp_behind_extension_headers_is_dropped(void **state)
{
    (void)state;
    const uint8_t chain[] = {0, 43, 51, 60, 135, 139, 140};
    bed_open(&b);
    for (unsigned i = 0; i < sizeof chain; i++) {
        struct bt_pkt *pkt = segment(six.peer, six.us, 0);
        uint8_t *ip = pkt->data + BT_ETHER_HEAD;
        ip[6] = chain[i];
        ip[BT_IP6_HEAD] = BT_PROTO_TCP;
        ip[BT_IP6_HEAD + 1] = 0;
        assert_int_equal(bed_rx(&b, pkt), BT_LINK_TAKEN);
        assert_int_equal(bed_count(&b, BT_LINK_DROP_IP_OPTIONS), i + 1);
    }
    struct bt_pkt *pkt = segment(six.peer, six.us, 0);
    pkt->data[BT_ETHER_HEAD + 6] = BT_PROTO_FRAGMENT;
    bed_drops(&b, pkt, BT_LINK_DROP_FRAGMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(e22_a_packet_for_an_own_address_comes_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(e23_a_segment_a_kernel_left_to_a_device_is_completed, setup, teardown),
        cmocka_unit_test_setup_teardown(e23_a_segment_elsewhere_comes_as_it_is, setup, teardown),
        cmocka_unit_test_setup_teardown(e22_a_link_that_was_not_asked_to_drops_it, setup, teardown),
        cmocka_unit_test_setup_teardown(e22_it_leaves_unchanged_to_the_next_hop_it_was_given, setup, teardown),
        cmocka_unit_test_setup_teardown(e22_direct_return_by_a_gateway_would_come_straight_back, setup, teardown),
        cmocka_unit_test_setup_teardown(e18_e22_what_is_longer_than_the_mtu_does_not_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(e22_it_waits_for_an_unknown_neighbour_like_any_packet, setup, teardown),
        cmocka_unit_test_setup_teardown(e4_tcp_behind_extension_headers_is_dropped, setup, teardown),
    };
    int failed = cmocka_run_group_tests_name("IPv4", tests, four_group, NULL);
    return failed + cmocka_run_group_tests_name("IPv6", tests, six_group, NULL);
}
