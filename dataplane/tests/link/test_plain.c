// SPDX-License-Identifier: Apache-2.0
// The short way (plain.c) beside the long one: two links alike but for that are told the same story and must do the
// same, packet for packet and counter for counter. Rules E-1 to E-7, E-13 to E-18.
#include "bed.h"

#include "base/bytes.h"
#include "wire/checksum.h"

static struct bed with, without;
static struct bt_rng rng;

static void open_both(void)
{
    bed_open(&with);
    bed_open(&without);
    assert_true(with.l->plain.on);
    without.l->plain.on = false;
}

static int setup(void **state)
{
    (void)state;
    bt_rng_seed(&rng, 20);
    bed_plan(&with);
    bed_plan(&without);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bed_close(&with);
    bed_close(&without);
    return 0;
}

static uint32_t some(uint32_t below)
{
    return bt_rng_below(&rng, below);
}

// --- the same

static void same_packet(const struct bt_pkt *a, const struct bt_pkt *z)
{
    assert_int_equal(a->len, z->len);
    assert_int_equal(a->room_before, z->room_before);
    assert_int_equal(a->room_after, z->room_after);
    assert_memory_equal(a->data, z->data, a->len);
    assert_memory_equal(&a->src, &z->src, sizeof a->src);
    assert_memory_equal(&a->dst, &z->dst, sizeof a->dst);
    assert_int_equal(a->local, z->local);
    assert_int_equal(a->ttl, z->ttl);
    assert_int_equal(a->offload, z->offload);
    assert_int_equal(a->tx_as_src, z->tx_as_src);
}

static void same_sent(void)
{
    assert_int_equal(with.out.n, without.out.n);
    while (with.out.n != 0) {
        struct bt_pkt *a = bed_sent(&with), *z = bed_sent(&without);
        same_packet(a, z);
        bed_put(&with, a);
        bed_put(&without, z);
    }
}

static void same_counters(void)
{
    assert_memory_equal(with.l->counters, without.l->counters, sizeof with.l->counters);
    assert_int_equal(with.fixed.left, without.fixed.left);
    assert_int_equal(bt_link_next(with.l), bt_link_next(without.l));
    struct bt_link_event a[4], z[4];
    unsigned n = bt_link_events(with.l, a, 4);
    assert_int_equal(bt_link_events(without.l, z, 4), n);
    assert_memory_equal(a, z, n * sizeof a[0]);
}

// --- in

// True if it was handed up; both frames are the links'.
static bool receive(struct bt_pkt *a, struct bt_pkt *z)
{
    enum bt_link_verdict v = bed_rx(&with, a);
    assert_int_equal(bed_rx(&without, z), v);
    if (v == BT_LINK_UDP) {
        same_packet(a, z);
        assert_null(a->next);
        bed_put(&with, a);
        bed_put(&without, z);
    }
    same_sent();
    same_counters();
    return v == BT_LINK_UDP;
}

// Bytes that decide: anywhere in the headers, with values near the border.
static void damage(struct bt_pkt *f)
{
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, 0x3f, 0x40, 0x45, 0x46, 17, 127, 224, 10, 2};
    uint32_t at = some(BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD);
    uint8_t flip = (uint8_t)(1u << some(8)), value = values[some(sizeof values)];
    f->data[at] = (uint8_t)(some(3) != 0 ? value : f->data[at] ^ flip);
    if (some(3) != 0) { // else nearly all would fail by the sum
        uint8_t *ip = f->data + BT_ETHER_HEAD;
        bt_put16(ip + 10, 0);
        bt_csum_store(ip + 10, bt_csum_bytes(0, ip, BT_IP4_HEAD));
    }
    if (some(3) == 0) {
        bt_put16(f->data + 40, 0);
    }
}

// The UDP checksum as a kernel leaves it to a device.
static void unfinish(struct bt_pkt *f)
{
    const uint8_t *ip = f->data + BT_ETHER_HEAD;
    uint64_t sum = bt_csum_field(bt_csum_bytes(0, ip + 12, 8), BT_PROTO_UDP);
    bt_csum_store_partial(f->data + 40, bt_csum_field(sum, bt_get16(f->data + 38)));
}

static struct bt_pkt *some_frame(struct bed *b)
{
    static const char *const from[] = {"10.0.0.9:5000", "192.0.2.1:7", "10.0.0.255:9", "10.0.0.2:8000", "127.0.0.1:1"};
    static const char *const to[] = {"10.0.0.2:8000", "10.0.0.2:8002", "10.0.0.2:9999", "10.0.0.3:8000"};
    uint32_t f = some(12), t = some(12);
    struct bt_pkt *pkt = bed_udp(b, from[f < 5 ? f : 0], to[t < 4 ? t : 0], some(70));
    for (uint32_t n = some(3); n > 0; n--) {
        damage(pkt);
    }
    if (some(3) == 0) {
        unfinish(pkt);
    }
    if (some(4) == 0) {
        link_resize(pkt, some(8) == 0 ? some(pkt->len + 1) : pkt->len + some(20)); // cut short, or padding
    }
    pkt->offload = some(4) == 0 ? (uint8_t)some(16) : 0;
    return pkt;
}

static struct bt_pkt *copy_of(const struct bt_pkt *a, struct bed *b)
{
    struct bt_pkt *z = bt_pool_get(b->pool);
    memcpy(bt_pkt_append(z, a->len), a->data, a->len);
    z->offload = a->offload;
    return z;
}

static void frames(void)
{
    unsigned up = 0;
    open_both();
    for (unsigned i = 0; i < 40000; i++) {
        struct bt_pkt *a = some_frame(&with);
        up += receive(a, copy_of(a, &without));
        with.now = without.now += some(1000000);
    }
    assert_in_range(up, 4000, 30000); // neither all nor none
}

static void e1_e7_frames_are_judged_alike(void **state)
{
    (void)state;
    frames();
}

static void e23_what_a_kernel_left_is_judged_alike(void **state)
{
    (void)state;
    with.c.rx_unfinished = without.c.rx_unfinished = true;
    frames();
    assert_in_range(bed_count(&with, BT_LINK_RX_UNFINISHED), 1000, 20000);
}

static void e7_with_a_transport_that_is_trusted(void **state)
{
    (void)state;
    with.c.rx_trusted = without.c.rx_trusted = true;
    frames();
}

static void e5_plain_frames_take_the_short_way(void **state)
{
    (void)state;
    open_both();
    static const char *const to[] = {"10.0.0.2:8000", "10.0.0.2:8002"};
    for (unsigned i = 0; i < 2; i++) {
        struct bt_pkt *a = bed_udp(&with, "10.0.0.9:5000", to[i], 20);
        assert_true(link_plain_rx(with.l, a));
        assert_int_equal(a->local, i == 0 ? AT_V4 : AT_ANY4);
        bed_put(&with, a);
    }
    struct bt_pkt *z = bed_udp(&without, "10.0.0.9:5000", to[0], 20);
    assert_false(link_plain_rx(without.l, z));
    bed_put(&without, z);
}

static void e5_not_with_two_addresses(void **state)
{
    (void)state;
    bed_open(&without);
    with.addrs[with.c.n_addrs++] = (struct bt_link_prefix){addr("10.1.0.2"), 24};
    bed_open(&with);
    assert_false(with.l->plain.on);
}

// --- out

static void send_both(uint16_t local, const char *to, uint32_t len, const char *as, uint8_t ttl)
{
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = i == 0 ? &with : &without;
        struct bt_pkt *pkt = bt_pool_get(b->pool);
        memset(bt_pkt_append(pkt, len), (int)len, len);
        pkt->local = local;
        pkt->dst = addr(to);
        pkt->dst.port = pkt->dst.port != 9 ? pkt->dst.port : 0;
        pkt->tx_as_src = as != NULL;
        pkt->ttl = ttl;
        if (as != NULL) {
            pkt->src = addr(as);
        }
        bt_link_tx(b->l, b->now, pkt, &b->out);
    }
    same_sent();
    same_counters();
}

static void some_answer(void)
{
    char text[32];
    const uint8_t mac[6] = {2, 9, 9, 9, 0, (uint8_t)some(3)};
    snprintf(text, sizeof text, "10.0.0.%u", 4 + some(12));
    bool reply = some(4) != 0;
    receive(bed_arp(&with, reply, text, mac, "10.0.0.2"), bed_arp(&without, reply, text, mac, "10.0.0.2"));
}

static void some_payload(void)
{
    static const char *const as[] = {"10.0.0.77:5", "192.0.2.7:99", "224.0.0.1:5", "[fd00::5]:5"};
    static const char *const odd[] = {"10.0.0.255:1", "10.0.0.2:8000", "192.0.2.1:5000",
                                      "127.0.0.1:7",  "[fd00::9]:7",   "224.0.0.1:9"};
    char text[32];
    uint32_t who = some(40), len = some(8) == 0 ? 1470 + some(6) : some(90);
    snprintf(text, sizeof text, "10.0.0.%u:%u", 4 + some(12), 1 + some(9));
    send_both((uint16_t)some(6), who < 6 ? odd[who] : text, len, some(2) == 0 ? as[some(8) % 4] : NULL,
              some(9) == 0 ? 1 : (uint8_t)some(256));
}

static void payloads(void)
{
    with.c.max_neighbours = without.c.max_neighbours = 10; // fewer than there are: entries come and go
    open_both();
    for (unsigned i = 0; i < 40000; i++) {
        if (some(6) == 0) {
            some_answer();
        } else {
            some_payload();
        }
        uint64_t later = some(50) == 0 ? 20000 * MILLISECOND : some(1000000);
        bed_tick(&with, later);
        bed_tick(&without, later);
        same_sent();
    }
    assert_true(bed_count(&with, BT_LINK_TX_UDP) > 5000);
    assert_true(bed_count(&with, BT_LINK_NEIGH_EVICTED) > 100);
    assert_true(bed_count(&with, BT_LINK_NEIGH_CHANGED) > 100);
}

static void e13_to_e18_payloads_leave_alike(void **state)
{
    (void)state;
    payloads();
}

static void e17_with_checksums_left_to_the_device(void **state)
{
    (void)state;
    with.c.tx_ip_sum = without.c.tx_ip_sum = with.c.tx_udp_sum = without.c.tx_udp_sum = true;
    payloads();
}

static void e17_without_udp_checksums(void **state)
{
    (void)state;
    with.c.tx_no_udp_sum = without.c.tx_no_udp_sum = true;
    payloads();
}

static void e17_no_udp_checksum_is_for_ipv4(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = i == 0 ? &with : &without;
        b->c.tx_no_udp_sum = true;
    }
    open_both();
    for (unsigned i = 0; i < 2; i++) {
        bed_know(&with, i == 0 ? "10.0.0.9" : "fd00::9", their_mac);
        bed_tx(&with, i == 0 ? AT_V4 : AT_V6, i == 0 ? "10.0.0.9:1" : "[fd00::9]:1", 30);
        struct bt_pkt *pkt = bed_sent(&with);
        struct bt_ip ip = ip_of(pkt);
        assert_int_equal(bt_get16(ip.body + 6) == 0, i == 0);
        assert_int_equal(bt_udp_judge(&ip, true), BT_FRAME_OK);
        assert_int_equal(pkt->offload, 0);
        bed_put(&with, pkt);
    }
}

static void e13_known_neighbours_take_the_short_way(void **state)
{
    (void)state;
    open_both();
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = i == 0 ? &with : &without;
        bed_know(b, "10.0.0.9", their_mac);
        struct bt_pkt *pkt = bt_pool_get(b->pool);
        pkt->local = AT_V4;
        pkt->dst = addr("10.0.0.9:5");
        assert_false(link_plain_tx(b->l, b->now, pkt, &b->out)); // not yet found
        bed_tx(b, AT_V4, "10.0.0.9:5", 0);
        assert_int_equal(link_plain_tx(b->l, b->now, pkt, &b->out), i == 0);
        if (i != 0) {
            bed_put(b, pkt);
        }
        bed_drain(b);
    }
}

/* Destinations whose routes are kept in the same place. */
static void e13_who_shares_a_place_does_not_share_a_neighbour(void **state)
{
    (void)state;
    open_both();
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = i == 0 ? &with : &without;
        bed_know(b, "10.0.0.9", their_mac);
        bed_know(b, "10.0.0.153", other_mac);
    }
    for (unsigned i = 0; i < 3; i++) {
        send_both(AT_V4, "10.0.0.9:5", 7, NULL, 0);
        send_both(AT_V4, "10.0.0.9:5", 7, NULL, 0);
        send_both(AT_V4, "10.0.0.153:5", 7, NULL, 0);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(e1_e7_frames_are_judged_alike),
        TEST(e7_with_a_transport_that_is_trusted),
        TEST(e23_what_a_kernel_left_is_judged_alike),
        TEST(e5_plain_frames_take_the_short_way),
        TEST(e5_not_with_two_addresses),
        TEST(e13_to_e18_payloads_leave_alike),
        TEST(e17_with_checksums_left_to_the_device),
        TEST(e17_without_udp_checksums),
        TEST(e17_no_udp_checksum_is_for_ipv4),
        TEST(e13_known_neighbours_take_the_short_way),
        TEST(e13_who_shares_a_place_does_not_share_a_neighbour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
