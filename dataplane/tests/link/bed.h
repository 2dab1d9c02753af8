// SPDX-License-Identifier: Apache-2.0
// A link on a table: frames are made by hand, time is a number, what it sends is picked up one by one.
#ifndef BT_TESTS_LINK_BED_H
#define BT_TESTS_LINK_BED_H

#include <stdio.h>

#include "link/internal.h"
#include "unit.h"

#define MILLISECOND UINT64_C(1000000)
#define PACKETS     256u

enum { AT_V4, AT_V6, AT_ANY4, AT_ANY6 }; // local ports: 10.0.0.2:8000, [fd00::2]:8001, 0.0.0.0:8002, [::]:8003

struct bed {
    struct bt_link *l;
    struct bt_link_config c; // change it between bed_plan and bed_open
    struct bt_link_prefix addrs[3];
    struct bt_addr locals[4];
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    void *mem, *slab;
    uint64_t now;
    struct bt_txq out;
};

extern const uint8_t our_mac[6], their_mac[6], other_mac[6];

// 10.0.0.2/24 and fd00::2/64 (and fe80::…), gateways 10.0.0.1 and fe80::1, no announcements.
void bed_plan(struct bed *b);
void bed_open(struct bed *b);
// Every buffer must be back (E-20).
void bed_close(struct bed *b);
// The first and the last of a test whose state is its bed.
int bed_setup(void **state);
int bed_teardown(void **state);

struct bt_addr addr(const char *text); // with or without port
// What is taken from the link by the test; the caller puts it back.
struct bt_pkt *bed_sent(struct bed *b);
void bed_sends_nothing(struct bed *b);
void bed_put(struct bed *b, struct bt_pkt *pkt);
void bed_drain(struct bed *b);
void bed_tick(struct bed *b, uint64_t later_ns);

enum bt_link_verdict bed_rx(struct bed *b, struct bt_pkt *frame);
// Gives the frame in and expects it to be dropped for that reason, silently.
void bed_drops(struct bed *b, struct bt_pkt *frame, enum bt_link_counter why);
uint64_t bed_count(const struct bed *b, enum bt_link_counter c);

// A UDP frame from their_mac, right in everything.
struct bt_pkt *bed_udp(struct bed *b, const char *from, const char *to, uint32_t len);
struct bt_pkt *bed_arp(struct bed *b, bool reply, const char *sender, const uint8_t mac[6], const char *target);
struct bed_nd {
    bool advertisement;
    const char *from, *to, *target;
    const uint8_t *mac;
    unsigned flags; // 1 solicited, 2 override, 4 without a MAC
};
#define bed_nd(b, ...) bed_nd_of(b, &(struct bed_nd){__VA_ARGS__})
struct bt_pkt *bed_nd_of(struct bed *b, const struct bed_nd *o);
struct bed_icmp {
    const char *from, *to;
    uint8_t type, code;
    uint32_t rest;
    const uint8_t *body; // behind the first eight bytes
    uint32_t len;
};
#define bed_icmp(b, ...) bed_icmp_of(b, &(struct bed_icmp){__VA_ARGS__})
struct bt_pkt *bed_icmp_of(struct bed *b, const struct bed_icmp *o);
// Repairs the IPv4 header or ICMPv6 checksum after a change.
void bed_seal(struct bt_pkt *frame);

// The next frame out asks for the MAC of `target`; by unicast to `to`, or NULL: everybody.
void bed_asks(struct bed *b, const char *target, const uint8_t *to);
// The next frame out is a datagram to that station.
void bed_sends_udp_to(struct bed *b, const uint8_t mac[6]);

// Sends `len` bytes from a local port.
void bed_tx(struct bed *b, uint16_t local, const char *to, uint32_t len);
// Makes `ip` a reachable neighbour at `mac`.
void bed_know(struct bed *b, const char *ip, const uint8_t mac[6]);
struct neigh *bed_neigh(const struct bed *b, const char *ip);
bool bed_event(struct bed *b, const char *peer, int error);

// The sent frame, which must be sound, taken apart.
struct bt_ip ip_of(const struct bt_pkt *frame);

#endif
