// SPDX-License-Identifier: Apache-2.0
// Ethernet, IPv4, IPv6 and UDP headers: judged on the way in, written on the way out. ARP stands in frame_arp.h,
// ICMP and neighbour discovery in frame_icmp.h.
#ifndef BT_WIRE_FRAME_H
#define BT_WIRE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

enum {
    BT_ETHER_HEAD = 14,
    BT_IP4_HEAD = 20,
    BT_IP6_HEAD = 40,
    BT_UDP_HEAD = 8,
    BT_ETHER_IP4 = 0x0800,
    BT_ETHER_ARP = 0x0806,
    BT_ETHER_IP6 = 0x86dd,
    BT_ETHER_VLAN = 0x8100,
    BT_ETHER_QINQ = 0x88a8,
    BT_PROTO_HOP_BY_HOP = 0,
    BT_PROTO_ICMP4 = 1,
    BT_PROTO_TCP = 6,
    BT_PROTO_UDP = 17,
    BT_PROTO_FRAGMENT = 44,
    BT_PROTO_ICMP6 = 58,
    BT_TTL = 64,
    BT_IP4_DONT_FRAGMENT = 0x4000,
    BT_ND_TTL = 255, // hop limit of neighbour discovery: no router can have passed it on
};

enum bt_frame_error {
    BT_FRAME_OK,
    BT_FRAME_TRUNCATED,  // shorter than its headers or its own lengths say
    BT_FRAME_HEADER,     // IP version or header length
    BT_FRAME_OPTIONS,    // IPv4 options, IPv6 extension headers
    BT_FRAME_IP_SUM,     // IPv4 header checksum
    BT_FRAME_FRAGMENT,   // part of a datagram
    BT_FRAME_MAPPED,     // IPv6 packet with an address that stands for an IPv4 one
    BT_FRAME_UDP_LENGTH, // UDP length against IP length
    BT_FRAME_UDP_SUM,    // UDP checksum; missing on IPv6
};

// One IP packet, seen through its header. Pointers go into the bytes that were judged.
struct bt_ip {
    struct bt_addr src, dst; // ports 0 until bt_udp_judge
    const uint8_t *head;     // IP header
    const uint8_t *body;     // behind it
    uint32_t body_len;       // by the IP header: Ethernet padding is not in it
    uint8_t proto, ttl;
    bool v4;
};

static inline bool bt_mac_is_group(const uint8_t mac[6])
{
    return (mac[0] & 1) != 0;
}

// Of p[0..len): an IPv4 packet, perhaps with padding behind. The header checksum is verified if `verify`.
enum bt_frame_error bt_ip4_judge(const uint8_t *p, uint32_t len, bool verify, struct bt_ip *ip);

// The same for IPv6. Extension headers are refused, but for a hop-by-hop header in front of ICMPv6, which the
// multicast listener protocol is obliged to use.
enum bt_frame_error bt_ip6_judge(const uint8_t *p, uint32_t len, struct bt_ip *ip);

// Of a packet whose proto is UDP: ports go to ip->src and ip->dst, ip->body becomes the payload.
enum bt_frame_error bt_udp_judge(struct bt_ip *ip, bool verify);

// Whether its checksum is the pseudo-header's alone, as a kernel sends it that leaves the rest to a device (E-23).
// Before bt_udp_judge, which still judges the lengths.
bool bt_udp_unfinished(const struct bt_ip *ip);

// Completes the checksum of the TCP segment `tcp`, which is ip->body, if it is such a one; true if it was.
bool bt_tcp_finish(uint8_t *tcp, const struct bt_ip *ip);

// Unfolded sum of the pseudo-header of `len` bytes of protocol `proto` (RFC 768, RFC 8200 §8.1).
uint64_t bt_pseudo_sum(const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto, uint32_t len);

// Each writes its header at p. `len` counts what follows the IP header.
void bt_ether_write(uint8_t *p, const uint8_t dst[6], const uint8_t src[6], uint16_t type);
// Don't-fragment is set and the id 0 (RFC 6864 §4.1).
void bt_ip4_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto, uint8_t ttl,
                  uint32_t len);
// The same with a header checksum of 0, which a device completes.
void bt_ip4_write_unsummed(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto, uint8_t ttl,
                           uint32_t len);
void bt_ip6_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto, uint8_t ttl,
                  uint32_t len);
enum bt_udp_sum {
    BT_UDP_SUM_FULL,
    BT_UDP_SUM_PARTIAL, // the field holds the folded pseudo-header sum: a device completes it
    BT_UDP_SUM_NONE,    // 0: not computed, legal over IPv4 (RFC 768)
};
// The payload of `len` bytes stands behind the header already.
void bt_udp_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint32_t len, enum bt_udp_sum sum);

// Where a multicast group of IPv6 is sent to on Ethernet (RFC 2464), and the solicited-node group of an address.
void bt_ip6_group_mac(const struct bt_addr *group, uint8_t mac[6]);
struct bt_addr bt_ip6_solicited_node(const struct bt_addr *addr);

#endif
