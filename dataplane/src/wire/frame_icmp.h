// SPDX-License-Identifier: Apache-2.0
// ICMP for IPv4 (RFC 792) and IPv6 (RFC 4443), the neighbour discovery that rides on the latter (RFC 4861) and the
// report of group membership a snooping switch needs (RFC 3810).
#ifndef BT_WIRE_FRAME_ICMP_H
#define BT_WIRE_FRAME_ICMP_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/frame.h"

enum {
    BT_ICMP_HEAD = 8,
    BT_ICMP4_ECHO_REPLY = 0,
    BT_ICMP4_UNREACHABLE = 3,
    BT_ICMP4_ECHO = 8,
    BT_ICMP4_TIME_EXCEEDED = 11,
    BT_ICMP4_PARAMETER = 12,
    BT_ICMP6_UNREACHABLE = 1,
    BT_ICMP6_TOO_BIG = 2,
    BT_ICMP6_TIME_EXCEEDED = 3,
    BT_ICMP6_PARAMETER = 4,
    BT_ICMP6_ECHO = 128,
    BT_ICMP6_ECHO_REPLY = 129,
    BT_ICMP6_LISTENER_QUERY = 130,
    BT_ICMP6_NEIGHBOUR_SOLICITATION = 135,
    BT_ICMP6_NEIGHBOUR_ADVERTISEMENT = 136,
    BT_ICMP6_LISTENER_REPORT = 143,
    BT_ND_BYTES = 32, // solicitation or advertisement with one link-layer option
};

// True when the checksum is right and the fixed 8 bytes are there.
bool bt_icmp_judge(const struct bt_ip *ip);

// A neighbour solicitation or advertisement that passes RFC 4861 §7.1.1 or §7.1.2.
struct bt_nd {
    bool advertisement;
    bool router, solicited, override; // advertisement's flags
    bool has_mac;                     // a source (solicitation) or target (advertisement) link-layer address
    uint8_t mac[6];
    struct bt_addr target;
};
bool bt_nd_judge(const struct bt_ip *ip, struct bt_nd *nd);

// Writes BT_ND_BYTES of ICMPv6, link-layer option and checksum included.
void bt_nd_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, const struct bt_nd *nd);

// An ICMP error and the UDP packet it is about.
struct bt_icmp_error {
    int error; // the errno value Linux has for it
    uint16_t mtu;
    struct bt_addr src, dst; // of the quoted packet
};
// False: no error of a known kind, or what it quotes is not the start of a UDP packet.
bool bt_icmp_error_judge(const struct bt_ip *ip, struct bt_icmp_error *e);

// True for ICMP errors of every kind, known or not (RFC 1122 §3.2.2, RFC 4443 §2.4e: never answer one with another).
bool bt_icmp_is_error(const struct bt_ip *ip);

// Writes a port unreachable whose quotation of `len` bytes stands behind its BT_ICMP_HEAD bytes already.
void bt_icmp_unreachable_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint32_t len);

// An MLDv2 report that joins each of n groups, behind the hop-by-hop header it must have. Bytes, and the writing.
#define BT_MLD_BYTES(n) (8u + 8u + 20u * (n))
void bt_mld_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *groups, unsigned n);
struct bt_addr bt_mld_routers(void); // where reports go: ff02::16

#endif
