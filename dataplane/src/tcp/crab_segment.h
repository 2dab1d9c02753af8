// SPDX-License-Identifier: Apache-2.0
// One TCP segment inside an IPv4 packet as a CRAB balancer looks at it: where its headers are, what its options say
// about connection redirection, and how both are changed without a checksum going wrong. Rules: docs/protocol.md, C-…
#ifndef BT_TCP_CRAB_SEGMENT_H
#define BT_TCP_CRAB_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BT_TCP_HEAD = 20,
    BT_TCP_MOST_OPTIONS = 40, // bytes, by the width of the data offset
    BT_TCP_FIN = 0x01,
    BT_TCP_SYN = 0x02,
    BT_TCP_RST = 0x04,
    BT_TCP_ACK = 0x10,
    BT_CRAB_KIND = 42,  // of the published prototype; not registered with IANA (C-7)
    BT_CRAB_PADDED = 8, // bytes the option takes with its two NOPs
};

// How the option is written (C-1, C-7).
struct bt_crab_encoding {
    uint8_t kind;        // BT_CRAB_KIND, or 253 or 254 with an experiment's number
    uint16_t experiment; // ExID of RFC 6994, kinds 253 and 254 only
};

enum bt_crab_segment_error {
    BT_CRAB_SEGMENT_OK,
    BT_CRAB_SEGMENT_TRUNCATED, // shorter than its headers or its own lengths say
    BT_CRAB_SEGMENT_HEADER,    // IP version, IP header length, TCP data offset
    BT_CRAB_SEGMENT_IP_SUM,    // IP header checksum
    BT_CRAB_SEGMENT_FRAGMENT,  // part of a datagram
};

// Offsets count from the IP header. What the options say is only filled in for a SYN and a SYN-ACK (C-5).
struct bt_crab_segment {
    uint8_t ip_head;   // bytes, options included
    uint8_t tcp_head;  // bytes, options included
    uint16_t total;    // IP total length
    uint32_t src, dst; // host order
    uint16_t sport, dport;
    uint32_t seq;
    uint8_t flags;
    uint8_t ttl;
    uint8_t option;     // offset of a valid option's address from the TCP header, 0: there is none
    uint8_t duplicates; // further valid options (C-3)
    bool malformed;     // the options end in garbage (C-4)
    uint32_t address;   // of the option: 0 in a placeholder (C-10)
};

// Judges p[0..len): an IPv4 packet of protocol TCP, perhaps with padding behind. Verifies the IP checksum if `verify`;
// the TCP checksum is end to end and left alone.
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

// Writes a padded option of BT_CRAB_PADDED bytes.
void bt_crab_write_option(uint8_t *o, const struct bt_crab_encoding *enc, uint32_t vip);

// Writes `vip` into the option that parse found, both checksums adjusted (C-21).
void bt_crab_write_address(uint8_t *p, const struct bt_crab_segment *s, uint32_t vip);

// Bytes bt_crab_insert will add at the end, or 0 when the header has no room for the option (C-8).
uint32_t bt_crab_insert_bytes(const struct bt_crab_segment *s);

// Puts an option with address `vip` right behind the fixed TCP header and moves up what follows (C-2, C-22). p must
// have bt_crab_insert_bytes() free bytes behind s->total; *s describes the longer segment afterwards.
void bt_crab_insert(uint8_t *p, struct bt_crab_segment *s, const struct bt_crab_encoding *enc, uint32_t vip);

// Sends it on to `dip` as a router does: destination and TTL, both checksums adjusted (C-21, C-23). TTL must be
// above 1.
void bt_crab_redirect(uint8_t *p, struct bt_crab_segment *s, uint32_t dip);

// The same without a new destination: what follows keeps its addresses (layer 2 direct server return, C-42).
void bt_crab_pass_on(uint8_t *p, struct bt_crab_segment *s);

#endif
