// SPDX-License-Identifier: Apache-2.0
// ARP and neighbour discovery as they come and go: who is answered, what is learned of it, what is malformed, and what
// we say unasked (E-11, E-12, E-19).
#include "bed.h"

#include "base/bytes.h"

static struct bed b;

static void answers_arp(const char *target, const uint8_t mac[6])
{
    struct bt_pkt *pkt = bed_sent(&b);
    struct bt_arp arp;
    struct bt_addr us = addr("10.0.0.2"), them = addr(target);
    assert_true(bt_arp_judge(pkt->data + BT_ETHER_HEAD, pkt->len - BT_ETHER_HEAD, &arp));
    assert_true(arp.reply && bt_addr_ip_eq(&arp.sender, &us) && bt_addr_ip_eq(&arp.target, &them));
    assert_memory_equal(arp.sender_mac, our_mac, 6);
    assert_memory_equal(pkt->data, mac, 6);
    bed_put(&b, pkt);
}

static void advertises(const char *own, const char *to, unsigned solicited)
{
    struct bt_pkt *pkt = bed_sent(&b);
    struct bt_nd nd;
    struct bt_ip ip = ip_of(pkt);
    struct bt_addr target = addr(own), dst = addr(to);
    assert_int_equal(pkt->offload, 0);
    assert_true(bt_icmp_judge(&ip) && bt_nd_judge(&ip, &nd));
    assert_true(nd.advertisement && nd.override && nd.solicited == solicited && !nd.router);
    assert_true(bt_addr_ip_eq(&nd.target, &target) && bt_addr_ip_eq(&ip.dst, &dst));
    assert_memory_equal(nd.mac, our_mac, 6);
    bed_put(&b, pkt);
}

static void e11_arp_is_answered_and_strangers_are_kept(void **state)
{
    (void)state;
    bed_open(&b);
    bed_rx(&b, bed_arp(&b, false, "10.0.0.9", their_mac, "10.0.0.2"));
    answers_arp("10.0.0.9", their_mac);
    assert_int_equal(bed_neigh(&b, "10.0.0.9")->state, NEIGH_STALE);
    bed_rx(&b, bed_arp(&b, false, "0.0.0.0", their_mac, "10.0.0.2")); // is it free? (RFC 5227)
    answers_arp("0.0.0.0", their_mac);
    bed_rx(&b, bed_arp(&b, false, "10.0.0.8", other_mac, "10.0.0.7")); // not for us: nothing learned
    bed_rx(&b, bed_arp(&b, true, "10.0.0.8", other_mac, "10.0.0.2"));  // never asked
    bed_rx(&b, bed_arp(&b, false, "10.0.0.8", other_mac, "10.0.0.8")); // gratuitous
    assert_null(bed_neigh(&b, "10.0.0.8"));
    bed_rx(&b, bed_arp(&b, false, "192.0.2.8", other_mac, "10.0.0.2")); // not of our link: answered, not kept
    answers_arp("192.0.2.8", other_mac);
    assert_null(bed_neigh(&b, "192.0.2.8"));
    bed_sends_nothing(&b);
}

static void e11_gratuitous_changes_the_known(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, "10.0.0.9", their_mac);
    bed_rx(&b, bed_arp(&b, false, "10.0.0.9", other_mac, "10.0.0.9"));
    assert_int_equal(bed_count(&b, BT_LINK_NEIGH_CHANGED), 1);
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_asks(&b, "10.0.0.9", other_mac); // hearsay: checked at first use
    bed_sends_udp_to(&b, other_mac);
    bed_rx(&b, bed_arp(&b, true, "10.0.0.9", other_mac, "10.0.0.2"));
    assert_int_equal(bed_neigh(&b, "10.0.0.9")->state, NEIGH_REACHABLE);
    bed_rx(&b, bed_arp(&b, true, "10.0.0.9", their_mac, "10.0.0.2")); // an answer nobody asked for
    assert_int_equal(bed_neigh(&b, "10.0.0.9")->state, NEIGH_STALE);
}

static void e11_malformed(void **state)
{
    (void)state;
    bed_open(&b);
    const uint32_t at[] = {1, 3, 4, 5, 7}; // hardware, protocol, lengths, operation
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct bt_pkt *pkt = bed_arp(&b, false, "10.0.0.9", their_mac, "10.0.0.2");
        pkt->data[BT_ETHER_HEAD + at[i]] = 9;
        bed_drops(&b, pkt, BT_LINK_DROP_ARP);
    }
    const uint8_t group[6] = {1}, zero[6] = {0};
    bed_drops(&b, bed_arp(&b, false, "10.0.0.9", group, "10.0.0.2"), BT_LINK_DROP_ARP);
    bed_drops(&b, bed_arp(&b, false, "10.0.0.9", zero, "10.0.0.2"), BT_LINK_DROP_ARP);
    bed_drops(&b, bed_arp(&b, false, "10.0.0.9", our_mac, "10.0.0.2"), BT_LINK_DROP_ARP);
    bed_drops(&b, bed_arp(&b, false, "224.0.0.9", their_mac, "10.0.0.2"), BT_LINK_DROP_ARP);
    bed_drops(&b, bed_arp(&b, true, "0.0.0.0", their_mac, "10.0.0.2"), BT_LINK_DROP_ARP);
    for (uint32_t n = 0; n < 28; n++) {
        struct bt_pkt *pkt = bed_arp(&b, false, "10.0.0.9", their_mac, "10.0.0.2");
        link_resize(pkt, BT_ETHER_HEAD + n);
        bed_drops(&b, pkt, BT_LINK_DROP_ARP);
    }
}

static void e12_solicitations(void **state)
{
    (void)state;
    bed_open(&b);
    bed_rx(&b, bed_nd(&b, false, "fd00::9", "ff02::1:ff00:2", "fd00::2", their_mac, 0));
    advertises("fd00::2", "fd00::9", 1);
    assert_int_equal(bed_neigh(&b, "fd00::9")->state, NEIGH_STALE);
    bed_rx(&b, bed_nd(&b, false, "fd00::9", "fd00::2", "fd00::2", their_mac, 4)); // unicast, without its MAC
    advertises("fd00::2", "fd00::9", 1);
    bed_rx(&b, bed_nd(&b, false, "::", "ff02::1:ff00:2", "fd00::2", their_mac, 4)); // somebody wants our address
    advertises("fd00::2", "ff02::1", 0);
    bed_rx(&b, bed_nd(&b, false, "fe80::9", "ff02::1:ff00:2", "fe80::ff:fe00:2", their_mac, 0));
    advertises("fe80::ff:fe00:2", "fe80::9", 1);
    bed_drops(&b, bed_nd(&b, false, "fd00::9", "ff02::1:ff00:2", "fd00:1::2", their_mac, 0), BT_LINK_DROP_ADDRESS);
    bed_drops(&b, bed_nd(&b, false, "fd00::9", "ff02::1", "fd00::2", their_mac, 0), BT_LINK_DROP_ADDRESS);
}

static struct bt_pkt *nd_with(uint32_t at, uint8_t value, bool advertisement)
{
    struct bt_pkt *pkt = bed_nd(&b, advertisement, "fd00::9", "fd00::2", advertisement ? "fd00::9" : "fd00::2",
                                their_mac, advertisement ? 3 : 0);
    pkt->data[BT_ETHER_HEAD + at] = value;
    bed_seal(pkt);
    return pkt;
}

static void e12_what_fails_rfc4861(void **state)
{
    (void)state;
    bed_open(&b);
    for (int adv = 0; adv < 2; adv++) {
        bed_drops(&b, nd_with(7, 254, adv), BT_LINK_DROP_NDP);       // a router passed it on
        bed_drops(&b, nd_with(41, 1, adv), BT_LINK_DROP_NDP);        // code
        bed_drops(&b, nd_with(40 + 8, 0xff, adv), BT_LINK_DROP_NDP); // group as target
        bed_drops(&b, nd_with(40 + 25, 0, adv), BT_LINK_DROP_NDP);   // option of length 0
        bed_drops(&b, nd_with(40 + 25, 2, adv), BT_LINK_DROP_NDP);   // option longer than the packet
        bed_drops(&b, nd_with(40 + 26, 1, adv), BT_LINK_DROP_NDP);   // group MAC
        struct bt_pkt *pkt = nd_with(7, 255, adv);
        pkt->data[BT_ETHER_HEAD + 42] ^= 1;
        bed_drops(&b, pkt, BT_LINK_DROP_NDP); // checksum
        pkt = nd_with(7, 255, adv);
        link_resize(pkt, pkt->len - 9);
        bt_put16(pkt->data + BT_ETHER_HEAD + 4, 23);
        bed_seal(pkt);
        bed_drops(&b, pkt, BT_LINK_DROP_NDP); // too short
    }
    bed_drops(&b, bed_nd(&b, false, "::", "fd00::2", "fd00::2", their_mac, 4), BT_LINK_DROP_NDP);
    bed_drops(&b, bed_nd(&b, false, "::", "ff02::1:ff00:2", "fd00::2", their_mac, 0), BT_LINK_DROP_NDP);
    bed_drops(&b, bed_nd(&b, false, "ff02::1", "fd00::2", "fd00::2", their_mac, 0), BT_LINK_DROP_NDP);
    bed_drops(&b, bed_nd(&b, true, "fd00::9", "ff02::1", "fd00::9", their_mac, 1),
              BT_LINK_DROP_NDP); // solicited, to all
    bed_drops(&b, bed_nd(&b, true, "fd00::9", "fd00::2", "fd00::9", our_mac, 1), BT_LINK_DROP_NDP);
}

// RFC 4861 §7.2.5, one line of its table after the other. flags as in bed_nd.
static void e12_advertisements(void **state)
{
    (void)state;
    bed_open(&b);
    const struct {
        enum neigh_state before;
        const uint8_t *mac;
        unsigned flags;
        enum neigh_state after;
        const uint8_t *now;
    } cases[] = {
        {NEIGH_INCOMPLETE, their_mac, 1, NEIGH_REACHABLE, their_mac},
        {NEIGH_INCOMPLETE, their_mac, 0, NEIGH_STALE, their_mac},
        {NEIGH_REACHABLE, other_mac, 1, NEIGH_STALE, their_mac}, // contradicted without override: doubted
        {NEIGH_STALE, other_mac, 1, NEIGH_STALE, their_mac},     // and ignored
        {NEIGH_STALE, their_mac, 1, NEIGH_REACHABLE, their_mac},
        {NEIGH_STALE, other_mac, 1 | 2, NEIGH_REACHABLE, other_mac},
        {NEIGH_REACHABLE, other_mac, 2, NEIGH_STALE, other_mac},
        {NEIGH_REACHABLE, their_mac, 2, NEIGH_REACHABLE, their_mac},
        {NEIGH_STALE, their_mac, 1 | 4, NEIGH_REACHABLE, their_mac}, // without a MAC: only a confirmation
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char ip[32];
        snprintf(ip, sizeof ip, "fd00::%x", 0x100 + i);
        struct bt_addr a = addr(ip);
        a.port = 0;
        if (cases[i].before == NEIGH_STALE) {
            link_neigh_stranger(b.l, b.now, &a, their_mac);
        } else if (cases[i].before == NEIGH_REACHABLE) {
            bed_know(&b, ip, their_mac);
        } else {
            link_neigh_want(b.l, b.now, &a);
        }
        bed_rx(&b, bed_nd(&b, true, ip, "fd00::2", ip, cases[i].mac, cases[i].flags));
        assert_int_equal(bed_neigh(&b, ip)->state, cases[i].after);
        assert_memory_equal(bed_neigh(&b, ip)->mac, cases[i].now, 6);
    }
    bed_rx(&b, bed_nd(&b, true, "fd00::77", "ff02::1", "fd00::77", their_mac, 2));
    assert_null(bed_neigh(&b, "fd00::77")); // unasked and unknown
    bed_tx(&b, AT_V6, "[fd00::78]:1", 1);
    bed_asks(&b, "fd00::78", NULL);
    bed_rx(&b, bed_nd(&b, true, "fd00::78", "fd00::2", "fd00::78", their_mac, 1 | 4)); // does not say where
    assert_int_equal(bed_neigh(&b, "fd00::78")->state, NEIGH_INCOMPLETE);
}

static void e19_announcements(void **state)
{
    (void)state;
    b.c.announcements = 2;
    bed_open(&b);
    for (int i = 0; i < 2; i++) {
        bed_tick(&b, LINK_SECOND + 1000);
        struct bt_pkt *report = bed_sent(&b);
        struct bt_ip ip = ip_of(report);
        assert_int_equal(ip.proto, BT_PROTO_ICMP6);
        assert_true(bt_icmp_judge(&ip));
        assert_int_equal(ip.body[0], BT_ICMP6_LISTENER_REPORT);
        assert_int_equal(bt_get16(ip.body + 6), 2);
        assert_int_equal(ip.ttl, 1);
        struct bt_addr group = addr("ff02::1:ff00:2"), from = addr("fe80::ff:fe00:2"); // of both of our addresses
        assert_memory_equal(ip.body + 12, group.ip, 16);
        assert_memory_equal(ip.body + 32, group.ip, 16);
        assert_true(bt_addr_ip_eq(&ip.src, &from));
        bed_put(&b, report);
        bed_asks(&b, "10.0.0.2", NULL);
        advertises("fd00::2", "ff02::1", 0);
        advertises("fe80::ff:fe00:2", "ff02::1", 0);
        bed_sends_nothing(&b);
    }
    bed_tick(&b, 100 * LINK_SECOND);
    bed_sends_nothing(&b);
    bt_link_announce(b.l, b.now);
    bed_tick(&b, 1000);
    assert_int_equal(b.out.n, 4);
    bed_drain(&b);
    uint8_t macs[4][6];
    assert_int_equal(bt_link_groups(b.l, macs, 4), 3);
    const uint8_t all[6] = {0x33, 0x33, 0, 0, 0, 1}, ours[6] = {0x33, 0x33, 0xff, 0, 0, 2};
    assert_memory_equal(macs[0], all, 6);
    assert_memory_equal(macs[1], ours, 6);
}

static void e19_conflicts(void **state)
{
    (void)state;
    b.c.announcements = 1;
    bed_open(&b);
    bed_tick(&b, LINK_SECOND);
    bed_drain(&b);
    uint64_t before = bed_count(&b, BT_LINK_TX_NDP);
    for (int i = 0; i < 50; i++) { // twice a second somebody says it is us
        bed_rx(&b, bed_arp(&b, false, "10.0.0.2", other_mac, "10.0.0.2"));
        bed_drain(&b);
        bed_rx(&b, bed_nd(&b, true, "fd00::2", "ff02::1", "fd00::2", other_mac, 2));
        bed_tick(&b, LINK_SECOND / 2);
        bed_drain(&b);
    }
    assert_int_equal(bed_count(&b, BT_LINK_CONFLICTS), 100);
    assert_int_equal(bed_count(&b, BT_LINK_TX_NDP) - before, 3 * 3); // contradicted at 0, 10 and 20 s
    assert_null(bed_neigh(&b, "10.0.0.2"));
}

static void e19_queries_are_answered(void **state)
{
    (void)state;
    bed_open(&b);
    uint8_t body[20] = {0};
    struct bt_pkt *pkt = bed_icmp(&b, "fe80::1", "ff02::1", BT_ICMP6_LISTENER_QUERY, 0, 0, body, sizeof body);
    bt_ip6_group_mac(&(struct bt_addr){.ip = {0xff, 2, [15] = 1}}, pkt->data);
    bed_drops(&b, pkt, BT_LINK_DROP_NDP); // hop limit 60
    pkt = bed_icmp(&b, "fe80::1", "ff02::1", BT_ICMP6_LISTENER_QUERY, 0, 0, body, sizeof body);
    pkt->data[BT_ETHER_HEAD + 7] = 1;
    bed_rx(&b, pkt);
    bed_sends_nothing(&b);
    bed_tick(&b, LINK_SECOND + 1000);
    assert_int_equal(b.out.n, 1);
    bed_drain(&b);
}

#define TEST(f) cmocka_unit_test_prestate_setup_teardown(f, bed_setup, bed_teardown, &b)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(e11_arp_is_answered_and_strangers_are_kept),
        TEST(e11_gratuitous_changes_the_known),
        TEST(e11_malformed),
        TEST(e12_solicitations),
        TEST(e12_what_fails_rfc4861),
        TEST(e12_advertisements),
        TEST(e19_announcements),
        TEST(e19_conflicts),
        TEST(e19_queries_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
