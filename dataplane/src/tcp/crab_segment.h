// SPDX-License-Identifier: Apache-2.0
// One TCP segment inside an IP packet as a CRAB balancer looks at it: where its headers are, what its options say about
// connection redirection, and how both are changed without a checksum going wrong. The option of an IPv6 packet has a
// longer address and is the same otherwise (C-9). Rules: docs/reference/protocol.md, C-…
#ifndef BT_TCP_CRAB_SEGMENT_H
#define BT_TCP_CRAB_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

enum {
    BT_TCP_HEAD = 20,
    BT_TCP_MOST_OPTIONS = 40, // bytes, by the width of the data offset
    BT_TCP_FIN = 0x01,
    BT_TCP_SYN = 0x02,
    BT_TCP_RST = 0x04,
    BT_TCP_ACK = 0x10,
    BT_CRAB_KIND = 42,    // of the published prototype; not registered with IANA (C-7)
    BT_CRAB_PADDED = 8,   // bytes the option takes with its two NOPs
    BT_CRAB_PADDED6 = 20, // the same in IPv6 packets (C-9)
};

// How the option is written (C-1, C-7).
struct bt_crab_encoding {
    uint8_t kind;        // BT_CRAB_KIND, or 253 or 254 with an experiment's number
    uint16_t experiment; // ExID of RFC 6994, kinds 253 and 254 only
};

enum bt_crab_segment_error {
    BT_CRAB_SEGMENT_OK,
    BT_CRAB_SEGMENT_TRUNCATED, // shorter than its headers or its own lengths say
    BT_CRAB_SEGMENT_HEADER,    // IP version, IP header length, TCP data offset; IPv6: no TCP, or an IPv4-mapped address
    BT_CRAB_SEGMENT_IP_SUM,    // IPv4 header checksum
    BT_CRAB_SEGMENT_FRAGMENT,  // part of a datagram
    BT_CRAB_SEGMENT_EXTENSION, // an IPv6 extension header in front of TCP: nobody looks behind it (C-9)
};

// Offsets count from the IP header. What the options say is only filled in for a SYN and a SYN-ACK (C-5).
struct bt_crab_segment {
    bool v4;
    uint8_t ip_head;         // bytes, options included
    uint8_t tcp_head;        // bytes, options included
    uint32_t total;          // bytes of the packet by its IP header
    struct bt_addr src, dst; // with ports
    uint32_t seq;
    uint8_t flags;
    uint8_t ttl;
    uint8_t option;     // offset of a valid option's address from the TCP header, 0: there is none
    uint8_t duplicates; // further valid options (C-3)
    bool malformed;     // the options end in garbage (C-4)
    bool named;         // the option holds an address; without one it is a placeholder (C-10)
    struct bt_addr address;
};

// Judges p[0..len): an IPv4 packet of protocol TCP, or an IPv6 packet, perhaps with padding behind. Verifies the IPv4
// header's checksum if `verify`; the TCP checksum is end to end and left alone.
enum bt_crab_segment_error bt_crab_segment_parse(const uint8_t *p, uint32_t len, bool verify,
                                                 const struct bt_crab_encoding *enc, struct bt_crab_segment *s);

// True for a SYN that opens a connection; ECN's two bits may be set (C-20).
static inline bool bt_crab_is_syn(const struct bt_crab_segment *s)
{
    return (s->flags & (BT_TCP_SYN | BT_TCP_ACK | BT_TCP_RST | BT_TCP_FIN)) == BT_TCP_SYN;
}

static inline bool bt_crab_is_syn_ack(const struct bt_crab_segment *s)
{
    return (s->flags & (BT_TCP_SYN | BT_TCP_ACK | BT_TCP_RST | BT_TCP_FIN)) == (BT_TCP_SYN | BT_TCP_ACK);
}

// Writes a padded option of BT_CRAB_PADDED bytes, or BT_CRAB_PADDED6 for an IPv6 address.
void bt_crab_write_option(uint8_t *o, const struct bt_crab_encoding *enc, const struct bt_addr *vip);

// Writes `vip` into the option that parse found, the checksum adjusted (C-21).
void bt_crab_write_address(uint8_t *p, const struct bt_crab_segment *s, const struct bt_addr *vip);

// Bytes bt_crab_insert will add at the end, or 0 when the header has no room for the option (C-8).
uint32_t bt_crab_insert_bytes(const struct bt_crab_segment *s);

// Puts an option with address `vip` right behind the fixed TCP header and moves up what follows (C-2, C-22). p must
// have bt_crab_insert_bytes() free bytes behind s->total; *s describes the longer segment afterwards.
void bt_crab_insert(uint8_t *p, struct bt_crab_segment *s, const struct bt_crab_encoding *enc,
                    const struct bt_addr *vip);

// Sends it on to `dip` as a router does: destination and TTL, the checksums adjusted (C-21, C-23). TTL must be
// above 1. VIP and server are of the packet's family.
void bt_crab_redirect(uint8_t *p, struct bt_crab_segment *s, const struct bt_addr *dip);

// The same without a new destination: what follows keeps its addresses (layer 2 direct server return, C-42).
void bt_crab_pass_on(uint8_t *p, struct bt_crab_segment *s);

#endif
