// SPDX-License-Identifier: Apache-2.0
// Segments to test with, written byte by byte and summed by a checksum of its own, two bytes at a time. Of either
// family: a suite runs once with IPv4 and once with IPv6, where a number a.b.c.d stands for the address net::a.b.c.d.
#ifndef BT_TESTS_TCP_SYN_H
#define BT_TESTS_TCP_SYN_H

#include <stdbool.h>
#include <stdint.h>

#include "tcp/crab_segment.h"

enum { SYN_MOST = 2048 };

// Which family syn_plain() and syn_ip() make. Set by the groups of a suite.
extern bool syn_six;
int syn_four_group(void **state);
int syn_six_group(void **state);

struct syn {
    bool six;
    uint64_t net; // IPv6: the first eight bytes of both addresses
    uint32_t src, dst, seq;
    uint16_t sport, dport;
    uint8_t flags, ttl;
    const uint8_t *ip_options; // a multiple of 4; IPv6: extension headers
    uint8_t extension;         // IPv6: what the first of them is
    uint32_t ip_options_len;
    const uint8_t *options; // padded with NOPs to a multiple of 4
    uint32_t options_len;
    const uint8_t *data;
    uint32_t data_len;
};

// 10.0.0.1:40000 to 10.9.9.9:80, SYN, TTL 64, without options.
struct syn syn_plain(void);

struct bt_addr syn_ip(uint32_t ip);
// The same in the network of s.
struct bt_addr syn_address(const struct syn *s, uint32_t ip);

// What Linux sends: MSS, SACK, timestamps, window scale, and a placeholder of eight bytes behind them (IPv6: twenty).
void syn_mark(struct syn *s);

// Writes an option of kind 42 that names syn_ip(ip), 0 for a placeholder, without padding; returns its length.
uint32_t syn_option(uint8_t *o, uint32_t ip);

// The number an address stands for; fails if it is of the other family or network.
uint32_t syn_number(const struct bt_addr *a);

// Writes the packet and returns its length.
uint32_t syn_write(const struct syn *s, uint8_t p[SYN_MOST]);

// Whether both checksums of a packet are right.
bool syn_sums_right(const uint8_t *p);

#endif
