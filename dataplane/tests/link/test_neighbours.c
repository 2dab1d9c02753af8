// SPDX-License-Identifier: Apache-2.0
// The life of a neighbour entry, and what may fill the table: E-13 to E-15, E-20.
#include "bed.h"

#include <errno.h>

static struct bed b;

static void e13_e14_resolution(void **state)
{
    (void)state;
    bed_open(&b);
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_asks(&b, "10.0.0.9", NULL);
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 2); // asked already
    bed_sends_nothing(&b);
    bed_tick(&b, LINK_SECOND / 2);
    bed_sends_nothing(&b);
    bed_tick(&b, LINK_SECOND / 2 + 1000);
    bed_asks(&b, "10.0.0.9", NULL);
    bed_rx(&b, bed_arp(&b, true, "10.0.0.9", their_mac, "10.0.0.2"));
    for (uint32_t len = 1; len <= 2; len++) {
        struct bt_pkt *pkt = bed_sent(&b);
        struct bt_ip ip = ip_of(pkt);
        assert_int_equal(ip.body_len, 8 + len); // in order
        assert_memory_equal(pkt->data, their_mac, 6);
        bed_put(&b, pkt);
    }
    assert_int_equal(bed_neigh(&b, "10.0.0.9")->state, NEIGH_REACHABLE);
    bed_tx(&b, AT_V6, "[fd00::9]:5000", 1);
    bed_asks(&b, "fd00::9", NULL);
    bed_rx(&b, bed_nd(&b, true, "fd00::9", "fd00::2", "fd00::9", their_mac, 1 | 2));
    bed_sends_udp_to(&b, their_mac);
    bed_tx(&b, AT_V6, "[2001:db8::1]:5000", 1);
    bed_asks(&b, "fe80::1", NULL); // the gateway
    bed_rx(&b, bed_nd(&b, true, "fe80::1", "fe80::ff:fe00:2", "fe80::1", other_mac, 1 | 2));
    bed_sends_udp_to(&b, other_mac);
}

static void e14_nobody_answers(void **state)
{
    (void)state;
    bed_open(&b);
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_tx(&b, AT_V4, "10.0.0.9:5001", 1);
    for (int i = 0; i < 3; i++) {
        bed_asks(&b, "10.0.0.9", NULL);
        bed_sends_nothing(&b);
        bed_tick(&b, LINK_SECOND + 1000);
    }
    bed_sends_nothing(&b);
    assert_true(bed_event(&b, "10.0.0.9:5000", EHOSTUNREACH));
    assert_true(bed_event(&b, "10.0.0.9:5001", EHOSTUNREACH));
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_UNREACHABLE), 2);
    assert_int_equal(bed_count(&b, BT_LINK_NEIGH_FAILED), 1);
    bed_tx(&b, AT_V4, "10.0.0.9:5002", 1); // refused at once, nothing is asked
    assert_true(bed_event(&b, "10.0.0.9:5002", EHOSTUNREACH));
    bed_sends_nothing(&b);
    bed_tick(&b, LINK_SECOND + 1000);
    assert_null(bed_neigh(&b, "10.0.0.9"));
    bed_tx(&b, AT_V4, "10.0.0.9:5003", 1); // and then tried again
    bed_asks(&b, "10.0.0.9", NULL);
}

static void e14_the_queue_keeps_the_youngest(void **state)
{
    (void)state;
    bed_open(&b);
    for (uint32_t i = 0; i < 20; i++) {
        bed_tx(&b, AT_V4, "10.0.0.9:5000", i);
    }
    bed_asks(&b, "10.0.0.9", NULL);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_QUEUE_FULL), 4);
    bed_rx(&b, bed_arp(&b, true, "10.0.0.9", their_mac, "10.0.0.2"));
    for (uint32_t i = 4; i < 20; i++) {
        struct bt_pkt *pkt = bed_sent(&b);
        assert_int_equal(ip_of(pkt).body_len, 8 + i);
        bed_put(&b, pkt);
    }
}

static void e13_an_entry_in_use_is_probed(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, "10.0.0.9", their_mac);
    uint64_t asked = 0;
    for (int i = 0; i < 600; i++) { // a minute, a packet every 100 ms; every probe is answered
        bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
        bed_sends_udp_to(&b, their_mac);
        bed_tick(&b, LINK_SECOND / 10);
        if (b.out.n > 0) {
            bed_asks(&b, "10.0.0.9", their_mac);
            asked++;
            bed_rx(&b, bed_arp(&b, true, "10.0.0.9", their_mac, "10.0.0.2"));
        }
    }
    assert_in_range(asked, 1, 4); // 30 s, drawn between 15 and 45
    assert_int_equal(bed_count(&b, BT_LINK_NEIGH_PROBES), asked);
}

static void e13_an_idle_entry_is_left_alone(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, "10.0.0.9", their_mac);
    bed_tick(&b, 46 * LINK_SECOND);
    bed_sends_nothing(&b);
    assert_int_equal(bed_neigh(&b, "10.0.0.9")->state, NEIGH_STALE);
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1); // used again: asked, but not waited for
    bed_asks(&b, "10.0.0.9", their_mac);
    bed_sends_udp_to(&b, their_mac);
    bed_rx(&b, bed_arp(&b, true, "10.0.0.9", their_mac, "10.0.0.2"));
    bed_tick(&b, 46 * LINK_SECOND);
    bed_sends_nothing(&b);
    bed_tick(&b, 601 * LINK_SECOND);
    assert_null(bed_neigh(&b, "10.0.0.9")); // forgotten
}

static void e13_a_failed_probe_starts_anew(void **state)
{
    (void)state;
    bed_open(&b);
    bed_know(&b, "10.0.0.9", their_mac);
    bed_tick(&b, 46 * LINK_SECOND);
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_asks(&b, "10.0.0.9", their_mac);
    bed_sends_udp_to(&b, their_mac);
    for (int i = 0; i < 2; i++) {
        bed_tick(&b, LINK_SECOND + 1000);
        bed_asks(&b, "10.0.0.9", their_mac);
    }
    bed_tick(&b, LINK_SECOND + 1000);
    bed_sends_nothing(&b);
    assert_null(bed_neigh(&b, "10.0.0.9"));
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_asks(&b, "10.0.0.9", NULL);
    bed_rx(&b, bed_arp(&b, true, "10.0.0.9", other_mac, "10.0.0.2"));
    bed_sends_udp_to(&b, other_mac);
}

static void e13_static_entries_stay(void **state)
{
    (void)state;
    struct bt_link_static s = {.ip = addr("10.0.0.9"), .mac = {2, 0, 0, 0, 0, 9}};
    b.c.statics = &s;
    b.c.n_statics = 1;
    bed_open(&b);
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_sends_udp_to(&b, their_mac);
    bed_rx(&b, bed_arp(&b, true, "10.0.0.9", other_mac, "10.0.0.2"));
    bed_rx(&b, bed_arp(&b, false, "10.0.0.9", other_mac, "10.0.0.9"));
    bed_tick(&b, 3600 * LINK_SECOND);
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_sends_udp_to(&b, their_mac);
}

static void ip_number(char text[32], unsigned i)
{
    snprintf(text, 32, "10.0.0.%u", 20 + i);
}

static void e15_a_flood_of_strangers(void **state)
{
    (void)state;
    b.c.max_neighbours = 64;
    bed_open(&b);
    char ip[32];
    for (unsigned i = 0; i < 40; i++) {
        ip_number(ip, i);
        bed_know(&b, ip, their_mac);
    }
    for (unsigned i = 40; i < 230; i++) { // each asks for us, as is its right
        ip_number(ip, i);
        bed_rx(&b, bed_arp(&b, false, ip, other_mac, "10.0.0.2"));
        bed_drain(&b);
        assert_true(b.l->neigh_strangers <= 16);
    }
    for (unsigned i = 0; i < 40; i++) {
        ip_number(ip, i);
        assert_non_null(bed_neigh(&b, ip)); // not one of those we know is gone
    }
    assert_true(bed_count(&b, BT_LINK_NEIGH_REFUSED) + bed_count(&b, BT_LINK_NEIGH_EVICTED) > 100);
    ip_number(ip, 0);
    bed_tx(&b, AT_V4, "10.0.0.19:5000", 1); // and there is room for whom we want to talk to
    bed_asks(&b, "10.0.0.19", NULL);
}

static void e15_a_flood_of_forged_sources(void **state)
{
    (void)state;
    b.c.max_neighbours = 32;
    bed_open(&b);
    bed_know(&b, "10.0.0.1", other_mac);
    bed_know(&b, "10.0.0.9", their_mac);
    for (unsigned i = 0; i < 200; i++) { // we answer each, and nobody is there
        char to[32];
        snprintf(to, sizeof to, "10.0.0.%u:5000", 20 + i);
        bed_tx(&b, AT_V4, to, 1);
        bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
        bed_tx(&b, AT_V4, "192.0.2.1:5000", 1);
        bed_drain(&b);
        bed_tick(&b, 10 * MILLISECOND);
        bed_drain(&b);
    }
    assert_non_null(bed_neigh(&b, "10.0.0.1"));
    assert_int_equal(bed_count(&b, BT_LINK_TX_UDP), 400);
    assert_true(bed_count(&b, BT_LINK_NEIGH_EVICTED) > 100);
}

static void e15_nothing_to_evict(void **state)
{
    (void)state;
    b.c.max_neighbours = 8;
    bed_open(&b);
    for (unsigned i = 0; i < 8; i++) {
        char ip[32];
        ip_number(ip, i);
        bed_know(&b, ip, their_mac);
    }
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TABLE_FULL), 1);
    b.now += 3 * LINK_SECOND; // as long as one is asked for; who is idle for longer makes room
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TABLE_FULL), 2);
    b.now += 1;
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_asks(&b, "10.0.0.9", NULL);
}

// A table of eight, `at` which place who is known for what: the order in which they make room.
static void fill(unsigned stranger, unsigned unused)
{
    char ip[32];
    b.c.max_neighbours = 8;
    bed_open(&b);
    for (unsigned i = 0; i < 8; i++) { // places are taken in turn
        ip_number(ip, i);
        if (i == stranger) {
            bed_rx(&b, bed_arp(&b, false, ip, other_mac, "10.0.0.2")); // asked for us, and was answered
            bed_drain(&b);
        } else if (i != unused) {
            bed_know(&b, ip, their_mac);
        } else {
            bed_know(&b, ip, other_mac);
            bed_neigh(&b, ip)->state = NEIGH_STALE; // as after its time
        }
    }
}

static void wanted(unsigned i)
{
    char to[32];
    snprintf(to, sizeof to, "10.0.0.%u:5000", 100 + i);
    bed_tx(&b, AT_V4, to, 1);
    bed_drain(&b);
}

static bool there(unsigned i)
{
    char ip[32];
    ip_number(ip, i);
    return bed_neigh(&b, ip) != NULL;
}

// E-15: first a stranger, then one that is not used any more; one in use never, nor one that waits for an answer while
// they are no more than half.
static void e15_who_makes_room_first(void **state)
{
    (void)state;
    static const unsigned places[][2] = {{1, 5}, {5, 1}, {0, 7}, {7, 0}};
    for (unsigned i = 0; i < 4; i++) {
        if (i > 0) {
            bed_plan(&b);
        }
        fill(places[i][0], places[i][1]);
        wanted(0);
        assert_false(there(places[i][0]));
        assert_true(there(places[i][1]));
        assert_int_equal(bed_count(&b, BT_LINK_NEIGH_EVICTED), 1);
        wanted(1);
        assert_false(there(places[i][1]));
        assert_int_equal(bed_count(&b, BT_LINK_NEIGH_EVICTED), 2);
        wanted(2);
        assert_int_equal(bed_count(&b, BT_LINK_NEIGH_EVICTED), 2);
        assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TABLE_FULL), 1);
        for (unsigned k = 0; k < 8; k++) {
            assert_int_equal(there(k), k != places[i][0] && k != places[i][1]);
        }
        if (i < 3) {
            bed_close(&b);
        }
    }
}

static void e15_those_that_wait_keep_half_of_the_table(void **state)
{
    (void)state;
    b.c.max_neighbours = 8;
    bed_open(&b);
    char ip[32];
    for (unsigned i = 0; i < 4; i++) {
        ip_number(ip, i);
        bed_know(&b, ip, their_mac);
    }
    for (unsigned i = 0; i < 4; i++) {
        wanted(i);
    }
    wanted(4);
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TABLE_FULL), 1); // half, and all of them are in use
    ip_number(ip, 0);
    bed_neigh(&b, ip)->state = NEIGH_STALE;
    wanted(4);
    assert_null(bed_neigh(&b, ip));
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TABLE_FULL), 1);
    wanted(5); // more than half: one of those that wait goes, and says so
    assert_int_equal(bed_count(&b, BT_LINK_TXDROP_TABLE_FULL), 2);
    assert_int_equal(bed_count(&b, BT_LINK_NEIGH_EVICTED), 2);
    assert_non_null(bed_neigh(&b, "10.0.0.105"));
    for (unsigned i = 1; i < 4; i++) {
        assert_true(there(i));
    }
}

static void e20_no_buffer(void **state)
{
    (void)state;
    bed_open(&b);
    struct bt_pkt *held[PACKETS];
    for (unsigned i = 1; i < PACKETS; i++) {
        held[i] = bt_pool_get(b.pool);
    }
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1); // waits, but the request could not be made
    bed_sends_nothing(&b);
    assert_int_equal(bed_count(&b, BT_LINK_TX_NO_BUFFER), 1);
    for (unsigned i = 1; i < PACKETS; i++) {
        bed_put(&b, held[i]);
    }
    bed_tick(&b, LINK_SECOND + 1000);
    bed_asks(&b, "10.0.0.9", NULL);
}

#define TEST(f) cmocka_unit_test_prestate_setup_teardown(f, bed_setup, bed_teardown, &b)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(e13_e14_resolution),
        TEST(e14_nobody_answers),
        TEST(e14_the_queue_keeps_the_youngest),
        TEST(e13_an_entry_in_use_is_probed),
        TEST(e13_an_idle_entry_is_left_alone),
        TEST(e13_a_failed_probe_starts_anew),
        TEST(e13_static_entries_stay),
        TEST(e15_a_flood_of_strangers),
        TEST(e15_a_flood_of_forged_sources),
        TEST(e15_nothing_to_evict),
        TEST(e15_who_makes_room_first),
        TEST(e15_those_that_wait_keep_half_of_the_table),
        TEST(e20_no_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
