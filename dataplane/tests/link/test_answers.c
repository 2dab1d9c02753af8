// SPDX-License-Identifier: Apache-2.0
// What a link answers, announces and believes: what an answer may not inherit from its question, whom it counts, and
// which answers to its own questions count.
#include "bed.h"

#include "base/bytes.h"

static struct bed b;

// What the device found out about a question is not said of its answer, which is whole.
static void e17_answers_leave_nothing_to_the_device(void **state)
{
    (void)state;
    bed_open(&b);
    struct bt_pkt *asked[] = {
        bed_arp(&b, false, "10.0.0.9", their_mac, "10.0.0.2"),
        bed_nd(&b, false, "fd00::9", "ff02::1:ff00:2", "fd00::2", their_mac, 0),
        bed_icmp(&b, "10.0.0.9", "10.0.0.2", BT_ICMP4_ECHO, 0, 7, their_mac, 6),
        bed_icmp(&b, "fd00::9", "fd00::2", BT_ICMP6_ECHO, 0, 7, their_mac, 6),
        bed_udp(&b, "10.0.0.9:9", "10.0.0.2:9", 6),
        bed_udp(&b, "[fd00::9]:9", "[fd00::2]:9", 6),
    };
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        uint32_t len = asked[i]->len;
        asked[i]->offload = BT_PKT_RX_IP_OK | BT_PKT_RX_L4_OK;
        memset(bt_pkt_append(asked[i], 18), 0, 18); // Ethernet's padding
        bed_rx(&b, asked[i]);
        struct bt_pkt *answer = bed_sent(&b);
        assert_true(answer->len == len || i >= 4); // what quotes is longer
        assert_int_equal(answer->offload, 0);
        assert_memory_equal(answer->data, their_mac, 6);
        bed_put(&b, answer);
    }
    static const struct { // each is counted as what it is
        enum bt_link_counter counter;
        uint64_t n;
    } counted[] = {{BT_LINK_RX_ARP, 1},        {BT_LINK_TX_ARP, 1},    {BT_LINK_RX_NDP, 1},
                   {BT_LINK_TX_NDP, 1},        {BT_LINK_RX_ECHO, 2},   {BT_LINK_TX_ICMP_ERROR, 2},
                   {BT_LINK_DROP_UDP_PORT, 2}, {BT_LINK_TX_FRAMES, 6}, {BT_LINK_RX_FRAMES, 6}};
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        assert_int_equal(bed_count(&b, counted[i].counter), counted[i].n);
    }
}

// Who shall not announce does not when the carrier comes back either.
static void e19_no_announcements_are_none(void **state)
{
    (void)state;
    bed_open(&b);
    bt_link_announce(b.l, b.now);
    bed_tick(&b, 10 * LINK_SECOND);
    bed_sends_nothing(&b);
    bed_rx(&b, bed_arp(&b, false, "10.0.0.2", other_mac, "10.0.0.2"));
    bed_drain(&b); // the answer
    bed_tick(&b, 10 * LINK_SECOND);
    bed_sends_nothing(&b);
    assert_int_equal(bed_count(&b, BT_LINK_CONFLICTS), 1);
}

// A conflict is contradicted once, however often addresses are announced else.
static void e19_a_conflict_is_contradicted_once(void **state)
{
    (void)state;
    b.c.announcements = 3;
    bed_open(&b);
    for (unsigned conflicts = 0; conflicts < 2; conflicts++) {
        uint64_t before = bed_count(&b, BT_LINK_TX_ARP);
        if (conflicts > 0) {
            bed_rx(&b, bed_arp(&b, true, "10.0.0.2", other_mac, "10.0.0.9"));
        }
        for (unsigned s = 0; s < 6; s++) {
            bed_tick(&b, LINK_SECOND + MILLISECOND);
            bed_drain(&b);
        }
        assert_int_equal(bed_count(&b, BT_LINK_TX_ARP) - before, conflicts > 0 ? 1 : 3);
    }
}

// Only an answer to us, and to us alone, says that the way there and back works. From anything else the MAC is taken,
// and it is asked for at once by who uses it.
static void e11_only_an_answer_to_us_confirms(void **state)
{
    static const struct {
        bool reply, broadcast;
        const char *target;
        bool confirms;
    } rows[] = {
        {true, false, "10.0.0.2", true},    {true, true, "10.0.0.2", false},  {true, false, "10.0.0.77", false},
        {false, false, "10.0.0.77", false}, {false, true, "10.0.0.9", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i > 0) {
            bed_close(&b);
            bed_plan(&b);
        }
        bed_open(&b);
        bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
        bed_asks(&b, "10.0.0.9", NULL);
        struct bt_pkt *pkt = bed_arp(&b, rows[i].reply, "10.0.0.9", their_mac, rows[i].target);
        if (rows[i].broadcast) {
            memset(pkt->data, 0xff, 6);
        }
        bed_rx(&b, pkt);
        assert_int_equal(bed_neigh(&b, "10.0.0.9")->state, rows[i].confirms ? NEIGH_REACHABLE : NEIGH_PROBE);
        if (!rows[i].confirms) {
            bed_asks(&b, "10.0.0.9", their_mac);
        }
        bed_sends_udp_to(&b, their_mac); // what waited
        bed_sends_nothing(&b);
        assert_int_equal(bed_count(&b, BT_LINK_TX_ARP), rows[i].confirms ? 1 : 2);
        assert_int_equal(bed_count(&b, BT_LINK_NEIGH_PROBES), !rows[i].confirms);
    }
}

// The packet behind an option that asks routers to look at it.
static struct bt_pkt *behind_an_option(struct bt_pkt *pkt)
{
    static const uint8_t alert[8] = {BT_PROTO_ICMP6, 0, 5, 2, 0, 0, 1, 0};
    uint8_t *ip = pkt->data + BT_ETHER_HEAD;
    uint32_t body = bt_get16(ip + 4);
    assert_non_null(bt_pkt_append(pkt, sizeof alert));
    memmove(ip + BT_IP6_HEAD + sizeof alert, ip + BT_IP6_HEAD, body);
    memcpy(ip + BT_IP6_HEAD, alert, sizeof alert);
    bt_put16(ip + 4, (uint16_t)(body + sizeof alert));
    ip[6] = BT_PROTO_HOP_BY_HOP;
    bed_seal(pkt);
    return pkt;
}

// E-4: queries come behind one, and nothing else may.
static void e4_e19_only_a_query_may_come_behind_an_option(void **state)
{
    static const uint8_t body[20];
    (void)state;
    bed_open(&b);
    struct bt_pkt *query = bed_icmp(&b, "fe80::1", "ff02::1", BT_ICMP6_LISTENER_QUERY, 0, 0, body, sizeof body);
    bt_ip6_group_mac(&(struct bt_addr){.ip = {0xff, 2, [15] = 1}}, query->data);
    query->data[BT_ETHER_HEAD + 7] = 1;
    bed_rx(&b, behind_an_option(query));
    assert_int_equal(bed_count(&b, BT_LINK_RX_NDP), 1);
    bed_tick(&b, LINK_SECOND + MILLISECOND);
    assert_int_equal(b.out.n, 1); // the report
    bed_drain(&b);
    bed_drops(&b, behind_an_option(bed_icmp(&b, "fd00::9", "fd00::2", BT_ICMP6_ECHO, 0, 7, body, 6)),
              BT_LINK_DROP_IP_OPTIONS);
}

#define TEST(f) cmocka_unit_test_prestate_setup_teardown(f, bed_setup, bed_teardown, &b)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(e17_answers_leave_nothing_to_the_device),       TEST(e19_no_announcements_are_none),
        TEST(e19_a_conflict_is_contradicted_once),           TEST(e11_only_an_answer_to_us_confirms),
        TEST(e4_e19_only_a_query_may_come_behind_an_option),
    };
    return cmocka_run_group_tests_name("answers", tests, NULL, NULL);
}
