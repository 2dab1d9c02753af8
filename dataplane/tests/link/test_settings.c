// SPDX-License-Identifier: Apache-2.0
// What a link makes of its settings: those that are given, those that are not, and the networks its addresses are in.
#include "bed.h"

static struct bed b;

// What link.h says of a 0.
static void e16_what_is_not_set_has_its_usual_value(void **state)
{
    (void)state;
    b.c.announcements = 0;
    bed_open(&b);
    const struct bt_link *l = b.l;
    assert_int_equal(l->mtu, 1500);
    assert_int_equal(l->neigh_max, 1024);
    assert_int_equal(l->queue_limit, 16);
    assert_int_equal(l->errors.cost_ns, 10 * MILLISECOND);
    assert_int_equal(l->errors.most_ns, 320 * MILLISECOND);
    assert_int_equal(l->echoes.cost_ns, MILLISECOND / 10);
    assert_int_equal(l->echoes.most_ns, 256 * MILLISECOND / 10);
    assert_int_equal(l->retry_ns, LINK_SECOND);
    assert_int_equal(l->tries, 3);
    assert_int_equal(l->reachable_ns, 30 * LINK_SECOND);
    assert_int_equal(l->forget_ns, 600 * LINK_SECOND);
    assert_int_equal(l->announcements, 2);
    assert_true(l->has_gateway4 && l->has_gateway6);
    assert_false(l->tx_ip_sum || l->tx_udp_sum || l->tx_no_udp_sum || l->rx_trusted || l->rx_unfinished ||
                 l->takes_tcp || l->secondary);
    assert_int_equal(l->tx_offload4, 0);
}

static void e16_what_is_set_is_taken(void **state)
{
    (void)state;
    b.c.mtu = 9000;
    b.c.max_neighbours = 50;
    b.c.queue_per_neighbour = 7;
    b.c.icmp_errors_per_s = 200;
    b.c.icmp_echo_per_s = 20;
    b.c.retry_ns = 11;
    b.c.tries = 12;
    b.c.reachable_ns = 13;
    b.c.forget_ns = 14;
    b.c.announcements = 15;
    b.c.gateway4.port = 99;
    b.c.gateway6 = (struct bt_addr){0};
    b.c.tx_ip_sum = b.c.tx_udp_sum = b.c.tx_no_udp_sum = b.c.rx_trusted = b.c.rx_unfinished = b.c.takes_tcp = true;
    bed_open(&b);
    const struct bt_link *l = b.l;
    assert_true(l->mtu == 9000 && l->neigh_max == 50 && l->queue_limit == 7 && l->tries == 12);
    assert_true(l->errors.cost_ns == 5 * MILLISECOND && l->echoes.cost_ns == 50 * MILLISECOND);
    assert_true(l->retry_ns == 11 && l->reachable_ns == 13 && l->forget_ns == 14 && l->announcements == 15);
    assert_true(l->has_gateway4 && l->gateway4.port == 0 && !l->has_gateway6);
    assert_true(l->tx_ip_sum && l->tx_udp_sum && l->rx_trusted && l->rx_unfinished && l->takes_tcp);
    assert_false(l->tx_no_udp_sum); // the device makes it
    assert_int_equal(l->tx_offload4, BT_PKT_TX_UDP_SUM | BT_PKT_TX_IP_SUM);
    assert_memory_equal(l->mac, our_mac, 6);
    assert_ptr_equal(l->pool, b.pool);
}

static void e16_a_secondary_announces_nothing(void **state)
{
    (void)state;
    b.c.secondary = true;
    b.c.announcements = 5;
    bed_open(&b);
    assert_int_equal(b.l->announcements, 0);
    bed_tick(&b, 10 * LINK_SECOND);
    bed_sends_nothing(&b);
}

// The first and the last address of a network, and those beside it.
static void e16_a_network_ends_where_its_prefix_says(void **state)
{
    static const struct {
        const char *own;
        unsigned bits;
        const char *first, *last, *before, *behind;
        const char *broadcast; // NULL: none
    } rows[] = {
        {"10.1.2.130", 24, "10.1.2.0", "10.1.2.255", "10.1.1.255", "10.1.3.0", "10.1.2.255"},
        {"10.1.2.130", 25, "10.1.2.128", "10.1.2.255", "10.1.2.127", "10.1.3.0", "10.1.2.255"},
        {"10.1.2.130", 23, "10.1.2.0", "10.1.3.255", "10.1.1.255", "10.1.4.0", "10.1.3.255"},
        {"10.1.2.130", 1, "1.0.0.0", "127.255.255.255", "128.0.0.0", "255.255.255.255", "127.255.255.255"},
        {"10.1.2.130", 30, "10.1.2.128", "10.1.2.131", "10.1.2.127", "10.1.2.132", "10.1.2.131"},
        {"10.1.2.130", 31, "10.1.2.130", "10.1.2.131", "10.1.2.129", "10.1.2.132", NULL},
        {"10.1.2.130", 32, "10.1.2.130", "10.1.2.130", "10.1.2.129", "10.1.2.131", NULL},
        {"fd00::5", 64, "fd00::", "fd00::ffff:ffff:ffff:ffff", "fcff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
         "fd00:0:0:1::", NULL},
        {"fd00::5", 126, "fd00::4", "fd00::7", "fd00::3", "fd00::8", NULL},
        {"fd00::5", 128, "fd00::5", "fd00::5", "fd00::4", "fd00::6", NULL},
        {"fd00:8000::5", 17, "fd00:8000::", "fd00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
         "fd00:7fff:ffff:ffff:ffff:ffff:ffff:ffff", "fd01::", NULL},
    };
    static const struct bt_addr none;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i > 0) {
            bed_close(&b);
            bed_plan(&b);
        }
        b.addrs[0] = (struct bt_link_prefix){.addr = addr(rows[i].own), .bits = (uint8_t)rows[i].bits};
        b.c.n_addrs = 1;
        b.c.n_locals = 0;
        b.c.no_link_local = true;
        b.c.gateway4 = b.c.gateway6 = none;
        bed_open(&b);
        struct bt_addr in[] = {addr(rows[i].first), addr(rows[i].last)},
                       out[] = {addr(rows[i].before), addr(rows[i].behind)};
        for (unsigned k = 0; k < 2; k++) {
            assert_ptr_equal(link_on_link(b.l, &in[k]), &b.l->own[0]);
            assert_null(link_on_link(b.l, &out[k]));
        }
        struct bt_addr broadcast = rows[i].broadcast != NULL ? addr(rows[i].broadcast) : none;
        assert_memory_equal(b.l->own[0].broadcast.ip, broadcast.ip, 16);
        assert_int_equal(b.l->has_v6, !bt_addr_is_v4(&b.addrs[0].addr));
        assert_int_equal(b.l->own[0].link_local, 0);
        assert_int_equal(b.l->own[0].addr.port, 0);
    }
}

// So many at once, and then one for each interval; what was not used does not add up to more. A clock that stands or
// goes back gives nothing.
static void e8_e9_a_rate_is_kept(void **state)
{
    (void)state;
    bed_open(&b);
    struct bucket k = {.cost_ns = 10, .most_ns = 30, .credit_ns = 30, .since_ns = 1000};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(link_allowed(&k, 1000), i < 3);
    }
    assert_false(link_allowed(&k, 1009));
    assert_true(link_allowed(&k, 1010));
    assert_false(link_allowed(&k, 1010));
    assert_false(link_allowed(&k, 900));
    assert_false(link_allowed(&k, 1019));
    assert_true(link_allowed(&k, 1020));
    assert_true(link_allowed(&k, 1045)); // and five are left
    assert_true(link_allowed(&k, 1050));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(link_allowed(&k, 1000000), i < 3);
    }
    struct bucket *const full[] = {&b.l->errors, &b.l->echoes};
    for (unsigned i = 0; i < 2; i++) { // a link begins with all it may have
        assert_int_equal(full[i]->credit_ns, full[i]->most_ns);
        assert_int_equal(full[i]->since_ns, b.now);
    }
}

// A device that filters is told of the group of all nodes and of that of each address, as many as there is room for.
static void e19_groups_are_named(void **state)
{
    (void)state;
    b.addrs[2] = (struct bt_link_prefix){.addr = addr("fd01::1:2:304"), .bits = 64};
    b.c.n_addrs = 3;
    bed_open(&b);
    uint8_t macs[5][6];
    static const uint8_t want[4][6] = {{0x33, 0x33, 0, 0, 0, 1},
                                       {0x33, 0x33, 0xff, 0, 0, 2},
                                       {0x33, 0x33, 0xff, 2, 3, 4},
                                       {0x33, 0x33, 0xff, 0, 0, 2}};
    for (unsigned max = 0; max <= 5; max++) {
        memset(macs, 0xee, sizeof macs);
        assert_int_equal(bt_link_groups(b.l, macs, max), 4);
        for (unsigned i = 0; i < 5; i++) {
            static const uint8_t untouched[6] = {0xee, 0xee, 0xee, 0xee, 0xee, 0xee};
            assert_memory_equal(macs[i], i < max && i < 4 ? want[i] : untouched, 6);
        }
    }
}

// An address that is given twice among the known neighbours is one, and the last word counts.
static void e13_known_neighbours_take_their_places(void **state)
{
    const struct bt_link_static known[] = {{.ip = addr("10.0.0.8:7"), .mac = {2, 1}},
                                           {.ip = addr("fd00::8"), .mac = {2, 2}},
                                           {.ip = addr("10.0.0.8"), .mac = {2, 3}}};
    (void)state;
    b.c.statics = known;
    b.c.n_statics = 3;
    b.c.max_neighbours = 8;
    bed_open(&b);
    assert_int_equal(bed_neigh(&b, "10.0.0.8")->state, NEIGH_STATIC);
    assert_int_equal(bed_neigh(&b, "10.0.0.8")->ip.port, 0);
    assert_memory_equal(bed_neigh(&b, "10.0.0.8")->mac, known[2].mac, 6);
    assert_memory_equal(bed_neigh(&b, "fd00::8")->mac, known[1].mac, 6);
    unsigned free = 0;
    for (uint32_t i = b.l->neigh_free; i != LINK_NONE; i = b.l->neigh[i].next_free) {
        assert_int_equal(b.l->neigh[i].state, NEIGH_FREE);
        free++;
    }
    assert_int_equal(free, 6);
}

#define TEST(f) cmocka_unit_test_prestate_setup_teardown(f, bed_setup, bed_teardown, &b)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(e16_what_is_not_set_has_its_usual_value),
        TEST(e16_what_is_set_is_taken),
        TEST(e16_a_secondary_announces_nothing),
        TEST(e16_a_network_ends_where_its_prefix_says),
        TEST(e8_e9_a_rate_is_kept),
        TEST(e19_groups_are_named),
        TEST(e13_known_neighbours_take_their_places),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
