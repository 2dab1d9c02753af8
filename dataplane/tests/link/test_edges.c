// SPDX-License-Identifier: Apache-2.0
// The edges of a link: an empty pool, a full table, gateways outside of every network, prefixes of one host.
#include "bed.h"

#include <errno.h>

#include "base/bytes.h"

static struct bed b;
static struct bt_pkt *held[PACKETS];
static unsigned n_held;

static int setup(void **state)
{
    (void)state;
    bed_plan(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    while (n_held > 0) {
        bed_put(&b, held[--n_held]);
    }
    bed_close(&b);
    return 0;
}

static void hold_all_buffers(void)
{
    while ((held[n_held] = bt_pool_get(b.pool)) != NULL) {
        n_held++;
    }
}

// Whose address asks for a gateway that no prefix covers: one of its family, whichever was given first.
static void e16_a_gateway_outside_is_asked_for_by_its_family(void **state)
{
    (void)state;
    b.c.gateway4 = addr("192.168.77.1");
    b.c.gateway6 = addr("2001:db8::1");
    bed_open(&b);
    bed_tx(&b, AT_V4, "8.8.8.8:53", 1);
    bed_asks(&b, "192.168.77.1", NULL);
    bed_tx(&b, AT_V6, "[2001:db8:9::9]:53", 1);
    struct bt_ip ip = ip_of(b.out.head);
    struct bt_addr from = addr("fd00::2");
    assert_true(bt_addr_ip_eq(&ip.src, &from));
    bed_asks(&b, "2001:db8::1", NULL);
    bed_close(&b);
    bed_plan(&b);
    struct bt_link_prefix first = b.addrs[0];
    b.addrs[0] = b.addrs[1]; // the other order
    b.addrs[1] = first;
    b.c.gateway4 = addr("192.168.77.1");
    bed_open(&b);
    bed_tx(&b, AT_V4, "8.8.8.8:53", 1);
    bed_asks(&b, "192.168.77.1", NULL);
}

// A prefix of all bits holds its own address only: the next one is behind the gateway.
static void e16_a_host_is_a_network_of_its_own(void **state)
{
    (void)state;
    b.addrs[0].bits = 32;
    b.addrs[1].bits = 128;
    b.c.gateway4 = addr("10.0.0.9");
    bed_open(&b);
    bed_tx(&b, AT_V4, "10.0.0.3:53", 1);
    bed_asks(&b, "10.0.0.9", NULL);
    bed_tx(&b, AT_V6, "[fd00::3]:53", 1);
    bed_asks(&b, "fe80::1", NULL);
    bed_tx(&b, AT_V6, "[fd00::102]:53", 1);
    bed_sends_nothing(&b); // by the same gateway, which is asked already
    assert_null(bed_neigh(&b, "fd00::102"));
}

// Every message that the link would make by itself is missed, counted, and nothing else.
static void e20_an_empty_pool_is_counted(void **state)
{
    (void)state;
    b.c.announcements = 1;
    bed_open(&b);
    struct bt_pkt *frame = bed_nd(&b, false, "fd00::9", "ff02::1:ff00:2", "fd00::2", their_mac, 4);
    struct bt_pkt *six = bt_pool_get(b.pool);
    frame->room_after = 0; // and so short that the answer does not fit
    memset(bt_pkt_append(six, 1), 'x', 1);
    six->local = AT_V6;
    six->dst = addr("[fd00::9]:53");
    hold_all_buffers();
    bed_tick(&b, LINK_SECOND / 2);
    assert_int_equal(bed_count(&b, BT_LINK_TX_NO_BUFFER), 4); // a report, a request and two advertisements
    bt_link_tx(b.l, b.now, six, &b.out);
    assert_int_equal(bed_count(&b, BT_LINK_TX_NO_BUFFER), 5);
    bed_rx(&b, frame);
    assert_int_equal(bed_count(&b, BT_LINK_TX_NO_BUFFER), 6);
    bed_sends_nothing(&b);
    assert_int_equal(bed_count(&b, BT_LINK_TX_FRAMES), 0);
    assert_int_equal(bed_count(&b, BT_LINK_TX_NDP) + bed_count(&b, BT_LINK_TX_ARP), 0);
}

// A whole packet finds no place either when all neighbours are in use.
static void e15_a_full_table_refuses_whole_packets(void **state)
{
    (void)state;
    b.c.takes_tcp = true;
    b.c.max_neighbours = 8;
    bed_open(&b);
    for (unsigned i = 0; i < 8; i++) {
        char ip[32];
        snprintf(ip, sizeof ip, "10.0.0.%u", 100 + i);
        bed_know(&b, ip, their_mac);
    }
    struct bt_pkt *pkt = bt_pool_get(b.pool);
    uint8_t *p = bt_pkt_append(pkt, BT_IP4_HEAD + 20);
    struct bt_addr src = addr("10.0.0.2"), dst = addr("10.0.0.9");
    memset(p + BT_IP4_HEAD, 0, 20);
    bt_ip4_write(p, &src, &dst, BT_PROTO_TCP, 64, 20);
    pkt->dst = dst;
    pkt->local = 4; // behind the four UDP ports
    bt_link_tx(b.l, b.now, pkt, &b.out);
    bed_sends_nothing(&b);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TABLE_FULL), 1);
}

// Who failed to answer goes before anybody else, and the gateways stay.
static void e15_who_failed_makes_room_first(void **state)
{
    (void)state;
    b.c.max_neighbours = 8;
    bed_open(&b);
    bed_know(&b, "10.0.0.1", their_mac); // the gateways
    bed_know(&b, "fe80::1", their_mac);
    for (unsigned i = 0; i < 6; i++) {
        char ip[32];
        snprintf(ip, sizeof ip, "10.0.0.%u", 100 + i);
        bed_know(&b, ip, their_mac);
        bed_neigh(&b, ip)->state = i == 4 ? NEIGH_FAILED : NEIGH_STALE;
    }
    bed_neigh(&b, "10.0.0.1")->state = NEIGH_STALE;
    bed_neigh(&b, "fe80::1")->state = NEIGH_STALE;
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_asks(&b, "10.0.0.9", NULL);
    assert_null(bed_neigh(&b, "10.0.0.104"));
    for (unsigned i = 0; i < 5; i++) { // all others, but not the gateways
        char to[32];
        snprintf(to, sizeof to, "10.0.0.%u:5000", 50 + i);
        bed_tx(&b, AT_V4, to, 1);
        bed_drain(&b);
    }
    assert_int_equal(bed_count(&b, BT_LINK_NEIGH_EVICTED), 6);
    assert_non_null(bed_neigh(&b, "10.0.0.1"));
    assert_non_null(bed_neigh(&b, "fe80::1"));
}

// How long an answer is good for is drawn from half to one and a half of what is set, so that nobody asks in step.
static void e13_answers_are_good_for_different_times(void **state)
{
    (void)state;
    b.c.reachable_ns = 30 * LINK_SECOND;
    bed_open(&b);
    unsigned early = 0, late = 0;
    for (unsigned i = 0; i < 100; i++) {
        char ip[32];
        snprintf(ip, sizeof ip, "10.0.0.%u", 100 + i);
        bed_know(&b, ip, their_mac);
    }
    bed_tick(&b, 15 * LINK_SECOND - 2 * MILLISECOND);
    for (unsigned s = 15; s < 45; s++) {
        bed_tick(&b, LINK_SECOND);
        for (unsigned i = 0; i < 100; i++) {
            char ip[32];
            snprintf(ip, sizeof ip, "10.0.0.%u", 100 + i);
            struct neigh *n = bed_neigh(&b, ip);
            if (n->state == NEIGH_STALE && n->tries != 77) {
                n->tries = 77; // seen
                early += s < 25;
                late += s >= 35;
            }
        }
    }
    assert_in_range(early, 20, 46);
    assert_in_range(late, 20, 46);
    bed_tick(&b, LINK_SECOND);
    for (unsigned i = 0; i < 100; i++) {
        char ip[32];
        snprintf(ip, sizeof ip, "10.0.0.%u", 100 + i);
        assert_int_equal(bed_neigh(&b, ip)->state, NEIGH_STALE);
    }
}

// A segment comes with what is known of its checksum, and nothing else.
static void e22_what_is_known_of_a_checksum_is_handed_up(void **state)
{
    static const struct {
        uint8_t said;
        bool trusted;
        uint8_t known;
    } rows[] = {{0, false, 0},
                {BT_PKT_RX_IP_OK, false, 0},
                {BT_PKT_RX_IP_OK | BT_PKT_RX_L4_OK, false, BT_PKT_RX_L4_OK},
                {0, true, BT_PKT_RX_L4_OK}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i > 0) {
            bed_close(&b);
            bed_plan(&b);
        }
        b.c.takes_tcp = true;
        b.c.rx_trusted = rows[i].trusted;
        bed_open(&b);
        struct bt_pkt *pkt = bed_udp(&b, "10.0.0.9:9", "10.0.0.2:80", 20);
        pkt->data[BT_ETHER_HEAD + 9] = BT_PROTO_TCP;
        bed_seal(pkt);
        pkt->offload = rows[i].said;
        pkt->tx_as_src = 1;
        assert_int_equal(bed_rx(&b, pkt), BT_LINK_UDP);
        assert_int_equal(pkt->offload, rows[i].known);
        assert_int_equal(pkt->tx_as_src, 0);
        bed_put(&b, pkt);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(e16_a_gateway_outside_is_asked_for_by_its_family),
        TEST(e16_a_host_is_a_network_of_its_own),
        TEST(e20_an_empty_pool_is_counted),
        TEST(e15_a_full_table_refuses_whole_packets),
        TEST(e15_who_failed_makes_room_first),
        TEST(e13_answers_are_good_for_different_times),
        TEST(e22_what_is_known_of_a_checksum_is_handed_up),
    };
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
