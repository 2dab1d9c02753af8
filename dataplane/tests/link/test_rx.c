// SPDX-License-Identifier: Apache-2.0
// The way in: what is taken, what is answered, and for everything else the one reason it is dropped for.
#include "bed.h"

#include <errno.h>

#include "base/bytes.h"
#include "wire/checksum.h"

#define IP(pkt)   ((pkt)->data + BT_ETHER_HEAD)
#define UDP4(pkt) (IP(pkt) + BT_IP4_HEAD)
#define UDP6(pkt) (IP(pkt) + BT_IP6_HEAD)

static struct bed b;

static int setup(void **state)
{
    (void)state;
    bed_plan(&b);
    bed_open(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bed_close(&b);
    return 0;
}

static struct bt_pkt *udp4(void)
{
    return bed_udp(&b, "10.0.0.9:5000", "10.0.0.2:8000", 20);
}

static struct bt_pkt *udp6(void)
{
    return bed_udp(&b, "[fd00::9]:5000", "[fd00::2]:8001", 20);
}

static void taken(struct bt_pkt *frame, const char *from, const char *to, uint16_t local, uint32_t len)
{
    struct bt_addr src = addr(from), dst = addr(to);
    assert_int_equal(bed_rx(&b, frame), BT_LINK_UDP);
    assert_true(bt_addr_eq(&frame->src, &src));
    assert_true(bt_addr_eq(&frame->dst, &dst));
    assert_int_equal(frame->local, local);
    assert_int_equal(frame->len, len);
    assert_int_equal(frame->ttl, 60);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(frame->data[i], (uint8_t)(i * 3 + 1));
    }
    bed_put(&b, frame);
}

static void e3_e4_e7_datagrams_are_handed_up(void **state)
{
    (void)state;
    taken(udp4(), "10.0.0.9:5000", "10.0.0.2:8000", AT_V4, 20);
    taken(udp6(), "[fd00::9]:5000", "[fd00::2]:8001", AT_V6, 20);
    taken(bed_udp(&b, "10.0.0.9:5000", "10.0.0.2:8002", 0), "10.0.0.9:5000", "10.0.0.2:8002", AT_ANY4, 0);
    taken(bed_udp(&b, "[fe80::9]:5000", "[fe80::ff:fe00:2]:8003", 3), "[fe80::9]:5000", "[fe80::ff:fe00:2]:8003",
          AT_ANY6, 3);
    struct bt_pkt *padded = bed_udp(&b, "10.0.0.9:5000", "10.0.0.2:8000", 1);
    memset(bt_pkt_append(padded, 17), 0xee, 17); // Ethernet fills up to 60 bytes
    taken(padded, "10.0.0.9:5000", "10.0.0.2:8000", AT_V4, 1);
    struct bt_pkt *unsummed = udp4();
    bt_put16(UDP4(unsummed) + 6, 0);
    taken(unsummed, "10.0.0.9:5000", "10.0.0.2:8000", AT_V4, 20);
    struct bt_pkt *short_udp = udp4(); // UDP shorter than IP: the rest is nobody's
    bt_put16(UDP4(short_udp) + 4, 8 + 5);
    bt_put16(UDP4(short_udp) + 6, 0);
    taken(short_udp, "10.0.0.9:5000", "10.0.0.2:8000", AT_V4, 5);
}

static void e7_ports_are_of_one_family_and_address(void **state)
{
    (void)state;
    struct bt_pkt *pkt = bed_udp(&b, "[fd00::9]:5000", "[fd00::2]:8000", 4);
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_TAKEN);
    assert_int_equal(bed_count(&b, BT_LINK_DROP_UDP_PORT), 1);
    bed_drain(&b);
    taken(bed_udp(&b, "[fd00::9]:5000", "[fe80::ff:fe00:2]:8003", 4), "[fd00::9]:5000", "[fe80::ff:fe00:2]:8003",
          AT_ANY6, 4);
    pkt = bed_udp(&b, "[fe80::9]:5000", "[fe80::ff:fe00:2]:8001", 4); // bound to the other address
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_TAKEN);
    bed_drain(&b);
}

static void e1_e2_frames(void **state)
{
    (void)state;
    struct bt_pkt *pkt = udp4();
    pkt->data[5]++;
    bed_drops(&b, pkt, BT_LINK_DROP_MAC);
    pkt = udp4();
    memcpy(pkt->data + 6, our_mac, 6);
    bed_drops(&b, pkt, BT_LINK_DROP_MAC);
    pkt = udp4();
    pkt->data[6] |= 1;
    bed_drops(&b, pkt, BT_LINK_DROP_MAC);
    pkt = udp4();
    bt_put16(pkt->data + 12, 0x8100);
    bed_drops(&b, pkt, BT_LINK_DROP_VLAN);
    pkt = udp4();
    bt_put16(pkt->data + 12, 0x88cc);
    bed_drops(&b, pkt, BT_LINK_DROP_ETHERTYPE);
    for (uint32_t n = 0; n < 14; n++) {
        pkt = udp4();
        link_resize(pkt, n);
        bed_drops(&b, pkt, BT_LINK_DROP_TRUNCATED);
    }
}

static void changed4(uint32_t at, uint8_t value, bool seal, enum bt_link_counter why)
{
    struct bt_pkt *pkt = udp4();
    IP(pkt)[at] = value;
    if (seal) {
        bed_seal(pkt);
    }
    bed_drops(&b, pkt, why);
}

static void e3_ip4_headers(void **state)
{
    (void)state;
    changed4(0, 0x55, true, BT_LINK_DROP_IP_HEADER);
    changed4(0, 0x44, false, BT_LINK_DROP_IP_HEADER);
    changed4(3, 49, true, BT_LINK_DROP_TRUNCATED); // longer than the frame
    changed4(3, 19, true, BT_LINK_DROP_TRUNCATED); // shorter than its header
    changed4(10, 0, false, BT_LINK_DROP_IP_SUM);
    changed4(0, 0x46, true, BT_LINK_DROP_IP_OPTIONS);
    changed4(6, 0x20, true, BT_LINK_DROP_FRAGMENT); // more to come
    changed4(7, 0x01, true, BT_LINK_DROP_FRAGMENT); // not the first
    changed4(9, 6, true, BT_LINK_DROP_PROTOCOL);
    for (uint32_t n = 14; n < 62; n++) {
        struct bt_pkt *pkt = udp4();
        link_resize(pkt, n);
        bed_drops(&b, pkt, BT_LINK_DROP_TRUNCATED);
    }
}

static void changed6(uint32_t at, uint8_t value, enum bt_link_counter why)
{
    struct bt_pkt *pkt = udp6();
    IP(pkt)[at] = value;
    bed_drops(&b, pkt, why);
}

static void e4_ip6_headers(void **state)
{
    (void)state;
    changed6(0, 0x40, BT_LINK_DROP_IP_HEADER);
    changed6(5, 29, BT_LINK_DROP_TRUNCATED);
    changed6(6, 44, BT_LINK_DROP_FRAGMENT);
    changed6(6, 43, BT_LINK_DROP_IP_OPTIONS);
    changed6(6, 60, BT_LINK_DROP_IP_OPTIONS);
    changed6(6, 6, BT_LINK_DROP_PROTOCOL);
    bed_drops(&b, bed_udp(&b, "[fd00::9]:5000", "[fd00::3]:8001", 4), BT_LINK_DROP_ADDRESS);
    for (uint32_t n = 14; n < 82; n++) {
        struct bt_pkt *pkt = udp6();
        link_resize(pkt, n);
        bed_drops(&b, pkt, BT_LINK_DROP_TRUNCATED);
    }
    struct bt_pkt *hopped = udp6(); // hop-by-hop in front of UDP, then one that runs out of the packet
    IP(hopped)[6] = 0;
    bt_put32(UDP6(hopped), 0x11000000);
    bed_drops(&b, hopped, BT_LINK_DROP_IP_OPTIONS);
    hopped = udp6();
    IP(hopped)[6] = 0;
    bt_put32(UDP6(hopped), 0x3a030000);
    bed_drops(&b, hopped, BT_LINK_DROP_TRUNCATED);
    // Mapped addresses in an IPv6 packet, for the IPv4 port and from an IPv4 host: neither may pass.
    struct bt_pkt *pkt = udp6();
    struct bt_addr mapped = addr("10.0.0.2:8000");
    memcpy(IP(pkt) + 24, mapped.ip, 16);
    bed_drops(&b, pkt, BT_LINK_DROP_MARTIAN);
    pkt = udp6();
    mapped = addr("10.0.0.9:5000");
    memcpy(IP(pkt) + 8, mapped.ip, 16);
    bed_drops(&b, pkt, BT_LINK_DROP_MARTIAN);
}

static void e5_only_unicast(void **state)
{
    (void)state;
    const char *groups[] = {"10.0.0.255:8000", "255.255.255.255:8000", "224.0.0.1:8000", "10.0.0.3:8000"};
    for (int i = 0; i < 4; i++) {
        bed_drops(&b, bed_udp(&b, "10.0.0.9:5000", groups[i], 4), i < 3 ? BT_LINK_DROP_GROUP : BT_LINK_DROP_ADDRESS);
    }
    bed_drops(&b, bed_udp(&b, "[fd00::9]:5000", "[ff02::1]:8001", 4), BT_LINK_DROP_GROUP);
    struct bt_pkt *pkt = udp4();
    memset(pkt->data, 0xff, 6); // our address in everybody's frame
    bed_drops(&b, pkt, BT_LINK_DROP_GROUP);
    pkt = bed_icmp(&b, "10.0.0.9", "10.0.0.255", BT_ICMP4_ECHO, 0, 1, our_mac, 6);
    memset(pkt->data, 0xff, 6);
    bed_drops(&b, pkt, BT_LINK_DROP_GROUP);
    bed_drops(&b, bed_icmp(&b, "fd00::9", "ff02::1", BT_ICMP6_ECHO, 0, 1, our_mac, 6), BT_LINK_DROP_GROUP);
}

static void e6_sources(void **state)
{
    (void)state;
    const char *bad[] = {"10.0.0.2:5000",  "127.0.0.1:5000", "0.0.0.0:5000",      "0.1.2.3:5000",
                         "224.0.0.1:5000", "240.0.0.1:5000", "255.255.255.255:5", "10.0.0.255:5000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bed_drops(&b, bed_udp(&b, bad[i], "10.0.0.2:8000", 4), BT_LINK_DROP_MARTIAN);
    }
    const char *bad6[] = {"[::]:5000", "[::1]:5000", "[ff02::1]:5000", "[fd00::2]:5000", "[fe80::ff:fe00:2]:5000"};
    for (size_t i = 0; i < sizeof bad6 / sizeof *bad6; i++) {
        bed_drops(&b, bed_udp(&b, bad6[i], "[fd00::2]:8001", 4), BT_LINK_DROP_MARTIAN);
    }
    struct bt_pkt *pkt = udp4();
    bt_put16(UDP4(pkt), 0);
    bt_put16(UDP4(pkt) + 6, 0);
    bed_drops(&b, pkt, BT_LINK_DROP_MARTIAN);
}

static void e7_udp(void **state)
{
    (void)state;
    struct bt_pkt *pkt = udp4();
    bt_put16(UDP4(pkt) + 4, 29); // one more than the packet has
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_LENGTH);
    pkt = udp4();
    bt_put16(UDP4(pkt) + 4, 7);
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_LENGTH);
    pkt = bed_udp(&b, "10.0.0.9:5000", "10.0.0.2:8000", 0);
    bt_put16(IP(pkt) + 2, 27);
    bed_seal(pkt);
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_LENGTH);
    pkt = udp4();
    UDP4(pkt)[9] ^= 1;
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_SUM);
    pkt = udp6();
    UDP6(pkt)[9] ^= 1;
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_SUM);
    pkt = udp6();
    bt_put16(UDP6(pkt) + 6, 0); // legal on IPv4 only
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_SUM);
}

// The checksum as a kernel leaves it that counts on a device to complete it.
static struct bt_pkt *unfinished(struct bt_pkt *pkt, const char *from, const char *to, uint8_t *udp)
{
    struct bt_addr src = addr(from), dst = addr(to);
    bt_csum_store_partial(udp + 6, bt_pseudo_sum(&src, &dst, BT_PROTO_UDP, bt_get16(udp + 4)));
    return pkt;
}

static struct bt_pkt *unfinished4(void)
{
    struct bt_pkt *pkt = udp4();
    return unfinished(pkt, "10.0.0.9:5000", "10.0.0.2:8000", UDP4(pkt));
}

static struct bt_pkt *unfinished6(void)
{
    struct bt_pkt *pkt = udp6();
    return unfinished(pkt, "[fd00::9]:5000", "[fd00::2]:8001", UDP6(pkt));
}

static void e23_what_a_kernel_left_to_a_device(void **state)
{
    (void)state;
    bed_drops(&b, unfinished4(), BT_LINK_DROP_UDP_SUM);
    bed_drops(&b, unfinished6(), BT_LINK_DROP_UDP_SUM);
    b.l->rx_unfinished = true;
    taken(unfinished4(), "10.0.0.9:5000", "10.0.0.2:8000", AT_V4, 20);
    taken(unfinished6(), "[fd00::9]:5000", "[fd00::2]:8001", AT_V6, 20);
    assert_int_equal(bed_count(&b, BT_LINK_RX_UNFINISHED), 2);
    taken(udp4(), "10.0.0.9:5000", "10.0.0.2:8000", AT_V4, 20);
    taken(udp6(), "[fd00::9]:5000", "[fd00::2]:8001", AT_V6, 20);
    assert_int_equal(bed_count(&b, BT_LINK_RX_UNFINISHED), 2);
    struct bt_pkt *pkt = unfinished4();
    UDP4(pkt)[7] ^= 1; // neither the one nor the other
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_SUM);
    pkt = unfinished6();
    UDP6(pkt)[6] ^= 0x80;
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_SUM);
    pkt = unfinished4();
    bt_put16(UDP4(pkt) + 4, 29); // one more than the packet has, and the sum says so
    unfinished(pkt, "10.0.0.9:5000", "10.0.0.2:8000", UDP4(pkt));
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_LENGTH);
    pkt = unfinished4();
    pkt->offload = BT_PKT_RX_L4_BAD;
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_SUM);
}

static void e7_what_the_device_says(void **state)
{
    (void)state;
    struct bt_pkt *pkt = udp4();
    UDP4(pkt)[9] ^= 1;
    pkt->offload = BT_PKT_RX_L4_OK; // it looked: we do not
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_UDP);
    bed_put(&b, pkt);
    pkt = udp4();
    IP(pkt)[10] ^= 1;
    pkt->offload = BT_PKT_RX_IP_OK;
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_UDP);
    bed_put(&b, pkt);
    pkt = udp4();
    pkt->offload = BT_PKT_RX_L4_BAD | BT_PKT_RX_IP_OK;
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_SUM);
    pkt = udp4();
    pkt->offload = BT_PKT_RX_IP_BAD;
    bed_drops(&b, pkt, BT_LINK_DROP_IP_SUM);
    b.l->rx_trusted = true;
    pkt = udp4();
    UDP4(pkt)[9] ^= 1;
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_UDP);
    bed_put(&b, pkt);
    pkt = udp4();
    pkt->offload = BT_PKT_RX_L4_BAD;
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_SUM);
}

static void refused(const char *from, const char *to, uint32_t len, uint32_t quoted)
{
    struct bt_pkt *pkt = bed_udp(&b, from, to, len);
    uint8_t copy[1600];
    memcpy(copy, IP(pkt), pkt->len - BT_ETHER_HEAD);
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_TAKEN);
    struct bt_pkt *out = bed_sent(&b);
    struct bt_ip ip = ip_of(out);
    struct bt_addr us = addr(to), them = addr(from);
    assert_memory_equal(out->data, their_mac, 6);
    assert_true(bt_addr_ip_eq(&ip.src, &us) && bt_addr_ip_eq(&ip.dst, &them));
    assert_true(bt_icmp_judge(&ip));
    assert_int_equal(ip.body[0], ip.v4 ? 3 : 1);
    assert_int_equal(ip.body[1], ip.v4 ? 3 : 4);
    assert_int_equal(ip.body_len, 8 + quoted);
    assert_memory_equal(ip.body + 8, copy, quoted);
    bed_put(&b, out);
}

static void e8_nobody_listens(void **state)
{
    (void)state;
    refused("10.0.0.9:5000", "10.0.0.2:9", 0, 28);
    refused("10.0.0.9:5000", "10.0.0.2:9", 1400, 576 - 28);
    refused("[fd00::9]:5000", "[fd00::2]:9", 30, 78);
    refused("[fd00::9]:5000", "[fd00::2]:9", 1400, 1280 - 48);
    assert_int_equal(bed_count(&b, BT_LINK_DROP_UDP_PORT), 4);
    for (int i = 0; i < 40; i++) { // the bucket holds 32
        bed_rx(&b, bed_udp(&b, "10.0.0.9:5000", "10.0.0.2:9", 0));
    }
    assert_int_equal(b.out.n, 28);
    assert_int_equal(bed_count(&b, BT_LINK_ICMP_LIMITED), 12);
    bed_drain(&b);
    b.now += 25 * MILLISECOND; // 100 a second
    for (int i = 0; i < 10; i++) {
        bed_rx(&b, bed_udp(&b, "10.0.0.9:5000", "10.0.0.2:9", 0));
    }
    assert_int_equal(b.out.n, 2);
    bed_drain(&b);
    struct bt_pkt *pkt = bed_udp(&b, "10.0.0.9:5000", "10.0.0.2:9", 0);
    bt_pkt_pull(pkt, 0);
    pkt->room_before = 13; // no space for the quotation's headers: dropped, not written over
    b.now += LINK_SECOND;
    bed_drops(&b, pkt, BT_LINK_DROP_UDP_PORT);
}

static void e9_echo(void **state)
{
    (void)state;
    const char *pairs[][2] = {{"10.0.0.9", "10.0.0.2"}, {"fd00::9", "fd00::2"}, {"fe80::9", "fe80::ff:fe00:2"}};
    for (int i = 0; i < 3; i++) {
        uint8_t body[101];
        memset(body, 0x5a, sizeof body);
        struct bt_pkt *pkt = bed_icmp(&b, pairs[i][0], pairs[i][1], i == 0 ? 8 : 128, 0, 0x12340007, body, sizeof body);
        struct bt_addr them = addr(pairs[i][0]);
        memset(bt_pkt_append(pkt, 5), 0, 5); // padding is not echoed
        assert_int_equal(bed_rx(&b, pkt), BT_LINK_TAKEN);
        assert_ptr_equal(bed_sent(&b), pkt); // in the buffer it came in
        struct bt_ip ip = ip_of(pkt);
        assert_true(bt_icmp_judge(&ip));
        assert_int_equal(ip.body[0], i == 0 ? 0 : 129);
        assert_int_equal(bt_get32(ip.body + 4), 0x12340007);
        assert_memory_equal(ip.body + 8, body, sizeof body);
        assert_true(bt_addr_ip_eq(&ip.dst, &them));
        assert_int_equal(ip.ttl, 64);
        assert_memory_equal(pkt->data, their_mac, 6);
        assert_ptr_equal(ip.body + ip.body_len, pkt->data + pkt->len);
        bed_put(&b, pkt);
    }
    struct bt_pkt *pkt = bed_icmp(&b, "10.0.0.9", "10.0.0.2", 8, 0, 0, our_mac, 0);
    assert_int_equal(bed_rx(&b, pkt), BT_LINK_TAKEN);
    assert_ptr_equal(bed_sent(&b), pkt);
    assert_int_equal(bt_get32(pkt->data + pkt->len - 8), 0x0000ffff); // an answer of zeroes: their checksum is not zero
    bed_put(&b, pkt);
    pkt = bed_icmp(&b, "10.0.0.9", "10.0.0.2", 8, 0, 1, our_mac, 6);
    pkt->data[pkt->len - 1] ^= 1;
    bed_drops(&b, pkt, BT_LINK_DROP_ICMP);
    bed_drops(&b, bed_icmp(&b, "10.0.0.9", "10.0.0.2", 13, 0, 1, our_mac, 6), BT_LINK_DROP_ICMP); // timestamp
    bed_drops(&b, bed_icmp(&b, "fd00::9", "fd00::2", 134, 0, 1, our_mac, 6), BT_LINK_DROP_ICMP); // router advertisement
    bed_drops(&b, bed_icmp(&b, "fd00::9", "fd00::2", 137, 0, 1, our_mac, 6), BT_LINK_DROP_ICMP); // redirect
    for (int i = 0; i < 300; i++) {
        bed_rx(&b, bed_icmp(&b, "10.0.0.9", "10.0.0.2", 8, 0, 1, our_mac, 6)), bed_drain(&b);
    }
    assert_int_equal(bed_count(&b, BT_LINK_DROP_RATE), 300 + 4 - 256);
}

static struct bt_pkt *error4(uint8_t type, uint8_t code, uint32_t rest, const char *from, const char *to)
{
    uint8_t quoted[28];
    struct bt_addr src = addr(from), dst = addr(to);
    bt_ip4_write(quoted, &src, &dst, BT_PROTO_UDP, 1, 100);
    bt_put16(quoted + 20, src.port);
    bt_put16(quoted + 22, dst.port);
    bt_put32(quoted + 24, 0);
    return bed_icmp(&b, "10.9.9.9", "10.0.0.2", type, code, rest, quoted, sizeof quoted);
}

static struct bt_pkt *error6(uint8_t type, uint8_t code, uint32_t rest, const char *from, const char *to)
{
    uint8_t quoted[48];
    struct bt_addr src = addr(from), dst = addr(to);
    bt_ip6_write(quoted, &src, &dst, BT_PROTO_UDP, 1, 100);
    bt_put16(quoted + 40, src.port);
    bt_put16(quoted + 42, dst.port);
    bt_put32(quoted + 44, 0);
    return bed_icmp(&b, "fd09::9", "fd00::2", type, code, rest, quoted, sizeof quoted);
}

static void e10_errors_become_events(void **state)
{
    (void)state;
    const struct {
        uint8_t type, code;
        int error;
    } v4[] = {{3, 0, ENETUNREACH},   {3, 1, EHOSTUNREACH},  {3, 3, ECONNREFUSED},
              {3, 13, EHOSTUNREACH}, {11, 0, EHOSTUNREACH}, {12, 0, EPROTO}},
      v6[] = {{1, 0, ENETUNREACH},  {1, 1, EACCES},       {1, 3, EHOSTUNREACH},
              {1, 4, ECONNREFUSED}, {3, 0, EHOSTUNREACH}, {4, 0, EPROTO}};
    for (size_t i = 0; i < 6; i++) {
        bed_rx(&b, error4(v4[i].type, v4[i].code, 0, "10.0.0.2:8000", "10.9.0.1:77"));
        assert_true(bed_event(&b, "10.9.0.1:77", v4[i].error));
        bed_rx(&b, error6(v6[i].type, v6[i].code, 0, "[fd00::2]:8003", "[fd09::1]:77"));
        assert_true(bed_event(&b, "[fd09::1]:77", v6[i].error));
    }
    assert_int_equal(bed_count(&b, BT_LINK_RX_ICMP_ERROR), 12);
}

static void e10_path_mtu_is_told(void **state)
{
    (void)state;
    struct bt_link_event e;
    bed_rx(&b, error4(3, 4, 1400, "10.0.0.2:8000", "10.9.0.1:77"));
    assert_int_equal(bt_link_events(b.l, &e, 1), 1);
    assert_true(e.error == EMSGSIZE && e.mtu == 1400 && e.local == AT_V4);
    bed_rx(&b, error6(2, 0, 1280, "[fd00::2]:8001", "[fd09::1]:77"));
    assert_int_equal(bt_link_events(b.l, &e, 1), 1);
    assert_true(e.error == EMSGSIZE && e.mtu == 1280 && e.local == AT_V6);
    bed_drops(&b, error4(3, 4, 1500, "10.0.0.2:8000", "10.9.0.1:77"), BT_LINK_DROP_ICMP); // no less than ours
    bed_know(&b, "10.0.0.1", their_mac); // and it is not acted upon: the packet still leaves
    bed_tx(&b, AT_V4, "10.9.0.1:77", 1460);
    bed_put(&b, bed_sent(&b));
}

static void e10_errors_must_quote_us(void **state)
{
    (void)state;
    bed_drops(&b, error4(3, 3, 0, "10.0.0.2:8009", "10.9.0.1:77"), BT_LINK_DROP_ICMP_FOREIGN); // no such port
    bed_drops(&b, error4(3, 3, 0, "10.0.0.7:8000", "10.9.0.1:77"), BT_LINK_DROP_ICMP_FOREIGN);
    bed_drops(&b, error6(1, 4, 0, "[fd00::7]:8001", "[fd09::1]:77"), BT_LINK_DROP_ICMP_FOREIGN);
    bed_drops(&b, error4(3, 99, 0, "10.0.0.2:8000", "10.9.0.1:77"), BT_LINK_DROP_ICMP);
    bed_drops(&b, error4(5, 1, 0, "10.0.0.2:8000", "10.9.0.1:77"), BT_LINK_DROP_ICMP); // redirect
    struct bt_pkt *pkt = error4(3, 3, 0, "10.0.0.2:8000", "10.9.0.1:77");
    IP(pkt)[28 + 9] = 6; // about TCP
    bed_seal(pkt);
    bed_drops(&b, pkt, BT_LINK_DROP_ICMP);
    for (uint32_t n = 0; n < 24; n++) {
        uint8_t cut[28] = {0x45, [9] = BT_PROTO_UDP};
        bed_drops(&b, bed_icmp(&b, "10.9.9.9", "10.0.0.2", 3, 3, 0, cut, n), BT_LINK_DROP_ICMP);
    }
    struct bt_link_event e;
    assert_int_equal(bt_link_events(b.l, &e, 1), 0);
}

static void e10_events_are_bounded(void **state)
{
    (void)state;
    struct bt_link_event e[300];
    for (int i = 0; i < 300; i++) {
        char peer[32];
        snprintf(peer, sizeof peer, "10.9.0.1:%d", i + 1);
        bed_rx(&b, error4(3, 3, 0, "10.0.0.2:8000", peer));
    }
    assert_int_equal(bt_link_events(b.l, e, 300), 256);
    assert_int_equal(e[0].peer.port, 1); // oldest first
    assert_int_equal(e[255].peer.port, 256);
    assert_int_equal(bed_count(&b, BT_LINK_EVENTS_LOST), 44);
}

static void e21_steering(void **state)
{
    (void)state;
    uint16_t port = 0;
    struct bt_pkt *pkts[] = {udp6(), bed_arp(&b, false, "10.0.0.9", their_mac, "10.0.0.2"),
                             bed_nd(&b, false, "fd00::9", "ff02::1:ff00:2", "fd00::2", their_mac, 0),
                             error4(3, 3, 0, "10.0.0.2:8000", "10.9.0.1:77"),
                             bed_icmp(&b, "10.0.0.9", "10.0.0.2", 8, 0, 1, our_mac, 6)};
    const enum bt_link_steer want[] = {BT_LINK_STEER_PORT, BT_LINK_STEER_EVERY, BT_LINK_STEER_EVERY,
                                       BT_LINK_STEER_EVERY, BT_LINK_STEER_FIRST};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(bt_link_steer(pkts[i]->data, pkts[i]->len, &port), want[i]);
        bed_put(&b, pkts[i]);
    }
    assert_int_equal(port, 8001);
    assert_int_equal(bt_link_steer(our_mac, 6, &port), BT_LINK_STEER_FIRST);
}

static void e21_a_secondary_learns_and_is_silent(void **state)
{
    (void)state;
    b.l->secondary = true;
    bed_tx(&b, AT_V4, "10.0.0.9:5000", 1);
    bed_put(&b, bed_sent(&b)); // it asks for itself
    bed_rx(&b, bed_arp(&b, true, "10.0.0.9", their_mac, "10.0.0.2"));
    bed_put(&b, bed_sent(&b));
    bed_rx(&b, bed_arp(&b, false, "10.0.0.8", other_mac, "10.0.0.2"));
    assert_non_null(bed_neigh(&b, "10.0.0.8"));
    bed_rx(&b, bed_nd(&b, false, "fd00::8", "ff02::1:ff00:2", "fd00::2", other_mac, 0));
    assert_non_null(bed_neigh(&b, "fd00::8"));
    bed_drops(&b, bed_icmp(&b, "10.0.0.9", "10.0.0.2", 8, 0, 1, our_mac, 6), BT_LINK_DROP_ICMP);
    bed_drops(&b, bed_udp(&b, "10.0.0.9:5000", "10.0.0.2:9", 0), BT_LINK_DROP_UDP_PORT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(e3_e4_e7_datagrams_are_handed_up),
        TEST(e7_ports_are_of_one_family_and_address),
        TEST(e1_e2_frames),
        TEST(e3_ip4_headers),
        TEST(e4_ip6_headers),
        TEST(e5_only_unicast),
        TEST(e6_sources),
        TEST(e7_udp),
        TEST(e23_what_a_kernel_left_to_a_device),
        TEST(e7_what_the_device_says),
        TEST(e8_nobody_listens),
        TEST(e9_echo),
        TEST(e10_errors_become_events),
        TEST(e10_path_mtu_is_told),
        TEST(e10_errors_must_quote_us),
        TEST(e10_events_are_bounded),
        TEST(e21_steering),
        TEST(e21_a_secondary_learns_and_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
