// SPDX-License-Identifier: Apache-2.0
// ICMP by hand: what is an error and which one, the quoted packet, reports of groups, and frames cut short.
#include "bed.h"

#include <errno.h>
#include <string.h>

#include "base/toeplitz.h"
#include "counter_names.h"
#include "wire/checksum.h"
#include "wire/frame_icmp.h"

static struct bt_ip body(bool v4, const uint8_t *p, uint32_t len)
{
    return (struct bt_ip){.body = p, .body_len = len, .v4 = v4};
}

static void e8_what_is_an_error(void **state)
{
    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        uint8_t p[1] = {(uint8_t)type};
        struct bt_ip four = body(true, p, 1), six = body(false, p, 1), none4 = body(true, p, 0),
                     none6 = body(false, p, 0);
        bool error4 = type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
        assert_int_equal(bt_icmp_is_error(&four), error4);
        assert_int_equal(bt_icmp_is_error(&six), type < 128);
        assert_false(bt_icmp_is_error(&none4));
        assert_false(bt_icmp_is_error(&none6));
    }
}

// A UDP packet 10.0.0.2:8000 to 10.0.0.9:5000 is quoted, its header of `words` words.
static uint32_t quote4(uint8_t *p, unsigned words)
{
    const uint8_t ports[4] = {0x1f, 0x40, 0x13, 0x88}, from[4] = {10, 0, 0, 2}, to[4] = {10, 0, 0, 9};
    memset(p, 0, 4 * words);
    p[0] = (uint8_t)(0x40 | words);
    p[9] = BT_PROTO_UDP;
    memcpy(p + 12, from, 4);
    memcpy(p + 16, to, 4);
    memcpy(p + 4 * words, ports, 4);
    return 4 * words + 4;
}

static uint32_t quote6(uint8_t *p)
{
    const uint8_t ports[4] = {0x1f, 0x41, 0x13, 0x89};
    struct bt_addr from = addr("fd00::2"), to = addr("fd00::9");
    memset(p, 0, BT_IP6_HEAD);
    p[0] = 0x60;
    p[6] = BT_PROTO_UDP;
    memcpy(p + 8, from.ip, 16);
    memcpy(p + 24, to.ip, 16);
    memcpy(p + BT_IP6_HEAD, ports, 4);
    return BT_IP6_HEAD + 4;
}

// The errno of a type and code; 0: it is none that is told.
static int told(bool v4, uint8_t type, uint8_t code, uint16_t *mtu)
{
    uint8_t p[8 + 64] = {type, code};
    struct bt_icmp_error e = {0};
    p[5] = 1; // 65541 beside 1300: the two families have it at different places
    p[6] = 0x05;
    p[7] = 0x14;
    struct bt_ip ip = body(v4, p, BT_ICMP_HEAD + (v4 ? quote4(p + BT_ICMP_HEAD, 5) : quote6(p + BT_ICMP_HEAD)));
    bool is = bt_icmp_error_judge(&ip, &e);
    assert_int_equal(is, e.error != 0);
    if (is) {
        struct bt_addr src = addr(v4 ? "10.0.0.2:8000" : "[fd00::2]:8001"),
                       dst = addr(v4 ? "10.0.0.9:5000" : "[fd00::9]:5001");
        assert_true(bt_addr_eq(&e.src, &src) && bt_addr_eq(&e.dst, &dst));
    }
    *mtu = e.mtu;
    return e.error;
}

// As Linux converts them (RFC 1122 §4.1.3.3).
static void e10_errors_are_told_as_linux_tells_them(void **state)
{
    (void)state;
    static const int four[] = {ENETUNREACH,  EHOSTUNREACH, ENOPROTOOPT,  ECONNREFUSED, EMSGSIZE,     EOPNOTSUPP,
                               ENETUNREACH,  EHOSTDOWN,    ENONET,       ENETUNREACH,  EHOSTUNREACH, ENETUNREACH,
                               EHOSTUNREACH, EHOSTUNREACH, EHOSTUNREACH, EHOSTUNREACH};
    static const int six[] = {ENETUNREACH, EACCES, EHOSTUNREACH, EHOSTUNREACH, ECONNREFUSED, EACCES, EACCES};
    uint16_t mtu;
    for (unsigned type = 0; type < 256; type++) {
        for (uint8_t code = 0; code < 20; code++) {
            int want4 = type == 3 ? (code < 16 ? four[code] : 0) : type == 11 ? EHOSTUNREACH : type == 12 ? EPROTO : 0;
            assert_int_equal(told(true, (uint8_t)type, code, &mtu), want4);
            assert_int_equal(mtu, want4 == EMSGSIZE ? 1300 : 0);
            int want6 = type == 1   ? (code < 7 ? six[code] : 0)
                        : type == 2 ? EMSGSIZE
                        : type == 3 ? EHOSTUNREACH
                        : type == 4 ? EPROTO
                                    : 0;
            assert_int_equal(told(false, (uint8_t)type, code, &mtu), want6);
            assert_int_equal(mtu, want6 == EMSGSIZE ? UINT16_MAX : 0); // as much as 16 bits say
        }
    }
}

static bool quoted(bool v4, const uint8_t *packet, uint32_t len)
{
    uint8_t p[8 + 64] = {v4 ? BT_ICMP4_UNREACHABLE : BT_ICMP6_UNREACHABLE, v4 ? 3 : 4};
    struct bt_icmp_error e;
    memcpy(p + BT_ICMP_HEAD, packet, len);
    struct bt_ip ip = body(v4, p, BT_ICMP_HEAD + len);
    return bt_icmp_error_judge(&ip, &e);
}

static bool quoted_with(bool v4, unsigned at, uint8_t value)
{
    uint8_t p[64];
    uint32_t n = v4 ? quote4(p, 5) : quote6(p);
    p[at] = value;
    return quoted(v4, p, n);
}

// Addresses and ports must be there; of a later fragment they are not.
static void e10_what_is_quoted_is_the_start_of_a_udp_packet(void **state)
{
    (void)state;
    uint8_t p[64];
    for (unsigned words = 5; words <= 15 && 4 * words + 4 <= sizeof p; words++) {
        uint32_t n = quote4(p, words);
        for (uint32_t len = 0; len <= n; len++) {
            assert_int_equal(quoted(true, p, len), len == n);
        }
    }
    uint32_t n = quote6(p);
    for (uint32_t len = 0; len <= n; len++) {
        assert_int_equal(quoted(false, p, len), len == n);
    }
    for (uint32_t len = 0; len < BT_ICMP_HEAD; len++) { // too short for a head, whatever stands behind
        uint8_t short4[8 + 64] = {BT_ICMP4_UNREACHABLE, 3};
        struct bt_icmp_error e = {0};
        quote4(short4 + BT_ICMP_HEAD, 5);
        struct bt_ip ip = body(true, short4, len);
        assert_false(bt_icmp_error_judge(&ip, &e));
        assert_false(bt_icmp_judge(&ip));
    }
    assert_false(quoted_with(true, 0, 0x65));
    assert_false(quoted_with(true, 0, 0x44)); // shorter than a header
    assert_false(quoted_with(true, 9, 6));
    assert_true(quoted_with(true, 6, 0x20)); // the first fragment
    assert_true(quoted_with(true, 6, 0x40));
    assert_false(quoted_with(true, 6, 0x01)); // later ones
    assert_false(quoted_with(true, 6, 0x10));
    assert_false(quoted_with(true, 7, 0x01));
    assert_false(quoted_with(false, 0, 0x45));
    assert_false(quoted_with(false, 6, 6));
}

// A header alone is a packet; one byte less is none.
static void e3_the_shortest_packet_of_ipv4(void **state)
{
    (void)state;
    uint8_t p[BT_IP4_HEAD] = {0x45, 0, 0, BT_IP4_HEAD, 0, 0, 0, 0, 64, BT_PROTO_UDP, 0, 0, 10, 0, 0, 9, 10, 0, 0, 2};
    struct bt_ip ip;
    bt_csum_store(p + 10, bt_csum_bytes(0, p, sizeof p));
    assert_int_equal(bt_ip4_judge(p, sizeof p, true, &ip), BT_FRAME_OK);
    assert_int_equal(ip.body_len, 0);
    assert_int_equal(bt_ip4_judge(p, sizeof p - 1, true, &ip), BT_FRAME_TRUNCATED);
}

// To whom nobody listens for, from where it was sent to, quoting the datagram.
static void e8_a_port_is_unreachable(void **state)
{
    (void)state;
    struct bed b;
    bed_plan(&b);
    bed_open(&b);
    const char *const theirs[] = {"10.0.0.9:5000", "[fd00::9]:5000"}, *const ours[] = {"10.0.0.2:9", "[fd00::2]:9"};
    for (unsigned i = 0; i < 2; i++) {
        struct bt_addr to = addr(theirs[i]), from = addr(ours[i]);
        bed_rx(&b, bed_udp(&b, theirs[i], ours[i], 20));
        struct bt_pkt *pkt = bed_sent(&b);
        struct bt_ip ip = ip_of(pkt);
        struct bt_icmp_error e;
        assert_int_equal(ip.proto, i == 0 ? BT_PROTO_ICMP4 : BT_PROTO_ICMP6);
        assert_int_equal(ip.ttl, 64);
        assert_memory_equal(pkt->data, their_mac, 6);
        assert_true(bt_addr_ip_eq(&ip.dst, &to) && bt_addr_ip_eq(&ip.src, &from));
        assert_true(bt_icmp_judge(&ip) && bt_icmp_error_judge(&ip, &e));
        assert_int_equal(e.error, ECONNREFUSED);
        assert_true(bt_addr_eq(&e.src, &to) && bt_addr_eq(&e.dst, &from));
        assert_int_equal(pkt->offload, 0);
        assert_int_equal(bed_count(&b, BT_LINK_TX_ICMP_ERROR), i + 1);
        bed_put(&b, pkt);
        bed_drain(&b);
    }
    bed_close(&b);
}

// RFC 3810 §5.2: a record for each group, which joins it from every source.
static void e19_a_report_joins_each_group(void **state)
{
    (void)state;
    struct bt_addr src = addr("fe80::ff:fe00:2"), routers = bt_mld_routers(), all = addr("ff02::16");
    struct bt_addr groups[2] = {addr("ff02::1:ff00:2"), addr("ff02::1:ff00:9")};
    uint8_t p[BT_MLD_BYTES(2)];
    const uint8_t head[16] = {58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0, 0, 0, 0, 2};
    memset(p, 0xff, sizeof p);
    bt_mld_write(p, &src, groups, 2);
    assert_true(bt_addr_ip_eq(&routers, &all));
    assert_memory_equal(p, head, 10);
    assert_memory_equal(p + 12, head + 12, 4);
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t record[4] = {4, 0, 0, 0};
        assert_memory_equal(p + 16 + 20 * i, record, 4);
        assert_memory_equal(p + 20 + 20 * i, groups[i].ip, 16);
    }
    uint32_t len = BT_MLD_BYTES(2) - 8;
    assert_true(bt_csum_ok(bt_csum_bytes(bt_pseudo_sum(&src, &routers, BT_PROTO_ICMP6, len), p + 8, len)));
}

// What stands behind a frame's end is not looked at, whatever it is.
static void e21_a_frame_cut_short_belongs_to_no_connection(void **state)
{
    (void)state;
    struct bed b;
    bed_plan(&b);
    bed_open(&b);
    const char *const from[] = {"10.0.0.9:5000", "[fd00::9]:5000"}, *const to[] = {"10.0.0.2:80", "[fd00::2]:80"};
    for (unsigned i = 0; i < 2; i++) {
        struct bt_pkt *pkt = bed_udp(&b, from[i], to[i], 20);
        uint32_t hash = 0;
        pkt->data[BT_ETHER_HEAD + (i == 0 ? 9 : 6)] = BT_PROTO_TCP;
        assert_true(bt_link_tcp_flow(pkt->data, pkt->len, &hash));
        struct bt_addr src = addr(from[i]), dst = addr(to[i]);
        assert_int_equal(hash, bt_toeplitz(&src, &dst));
        for (uint32_t len = 0; len < pkt->len; len++) {
            assert_false(bt_link_tcp_flow(pkt->data, len, &hash));
        }
        pkt->data[BT_ETHER_HEAD + (i == 0 ? 9 : 6)] = BT_PROTO_UDP;
        assert_false(bt_link_tcp_flow(pkt->data, pkt->len, &hash));
        pkt->data[12] ^= 1;
        assert_false(bt_link_tcp_flow(pkt->data, pkt->len, &hash));
        bed_put(&b, pkt);
    }
    bed_close(&b);
}

static const char counter_names[] = "link_rx_frames_total\n"
                                    "link_rx_unfinished_checksums_total\n"
                                    "link_rx_total{kind=udp}\n"
                                    "link_rx_total{kind=tcp}\n"
                                    "link_rx_total{kind=arp}\n"
                                    "link_rx_total{kind=ndp}\n"
                                    "link_rx_total{kind=echo}\n"
                                    "link_rx_total{kind=icmp_error}\n"
                                    "link_rx_dropped_total{reason=truncated}\n"
                                    "link_rx_dropped_total{reason=mac}\n"
                                    "link_rx_dropped_total{reason=vlan}\n"
                                    "link_rx_dropped_total{reason=ethertype}\n"
                                    "link_rx_dropped_total{reason=ip_header}\n"
                                    "link_rx_dropped_total{reason=ip_options}\n"
                                    "link_rx_dropped_total{reason=ip_checksum}\n"
                                    "link_rx_dropped_total{reason=fragment}\n"
                                    "link_rx_dropped_total{reason=address}\n"
                                    "link_rx_dropped_total{reason=group}\n"
                                    "link_rx_dropped_total{reason=martian}\n"
                                    "link_rx_dropped_total{reason=protocol}\n"
                                    "link_rx_dropped_total{reason=udp_length}\n"
                                    "link_rx_dropped_total{reason=udp_checksum}\n"
                                    "link_rx_dropped_total{reason=udp_port}\n"
                                    "link_rx_dropped_total{reason=arp}\n"
                                    "link_rx_dropped_total{reason=ndp}\n"
                                    "link_rx_dropped_total{reason=icmp}\n"
                                    "link_rx_dropped_total{reason=icmp_foreign}\n"
                                    "link_rx_dropped_total{reason=rate}\n"
                                    "link_tx_frames_total\n"
                                    "link_tx_total{kind=udp}\n"
                                    "link_tx_total{kind=tcp}\n"
                                    "link_tx_total{kind=arp}\n"
                                    "link_tx_total{kind=ndp}\n"
                                    "link_tx_total{kind=icmp_error}\n"
                                    "link_tx_dropped_total{reason=too_long}\n"
                                    "link_tx_dropped_total{reason=bad_address}\n"
                                    "link_tx_dropped_total{reason=no_route}\n"
                                    "link_tx_dropped_total{reason=ttl}\n"
                                    "link_tx_dropped_total{reason=no_room}\n"
                                    "link_tx_dropped_total{reason=queue_full}\n"
                                    "link_tx_dropped_total{reason=unreachable}\n"
                                    "link_tx_dropped_total{reason=table_full}\n"
                                    "link_no_buffer_total\n"
                                    "link_icmp_limited_total\n"
                                    "link_neighbours_total{event=created}\n"
                                    "link_neighbours_total{event=changed}\n"
                                    "link_neighbours_total{event=probed}\n"
                                    "link_neighbours_total{event=failed}\n"
                                    "link_neighbours_total{event=evicted}\n"
                                    "link_neighbours_total{event=refused}\n"
                                    "link_address_conflicts_total\n"
                                    "link_events_lost_total\n";

// What docs/reference/metrics.md calls each of them.
static void counters_stand_under_their_names(void **state)
{
    (void)state;
    struct bed b;
    const struct bt_counter_desc *d;
    unsigned n;
    bed_plan(&b);
    bed_open(&b);
    b.l->counters[BT_LINK_EVENTS_LOST] = 77; // the last
    assert_int_equal(bt_link_counters(b.l, &d, &n)[BT_LINK_EVENTS_LOST], 77);
    assert_int_equal(n, BT_LINK_COUNTERS);
    assert_counter_names(d, n, counter_names);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e8_what_is_an_error),
        cmocka_unit_test(e10_errors_are_told_as_linux_tells_them),
        cmocka_unit_test(e10_what_is_quoted_is_the_start_of_a_udp_packet),
        cmocka_unit_test(e3_the_shortest_packet_of_ipv4),
        cmocka_unit_test(e8_a_port_is_unreachable),
        cmocka_unit_test(e19_a_report_joins_each_group),
        cmocka_unit_test(e21_a_frame_cut_short_belongs_to_no_connection),
        cmocka_unit_test(counters_stand_under_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
