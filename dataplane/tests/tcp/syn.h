// SPDX-License-Identifier: Apache-2.0
// Segments to test with, written byte by byte and summed by a checksum of its own, two bytes at a time.
#ifndef BT_TESTS_TCP_SYN_H
#define BT_TESTS_TCP_SYN_H

#include <stdbool.h>
#include <stdint.h>

#include "tcp/crab_segment.h"

enum { SYN_MOST = 2048 };

struct syn {
    uint32_t src, dst, seq;
    uint16_t sport, dport;
    uint8_t flags, ttl;
    const uint8_t *ip_options; // a multiple of 4
    uint32_t ip_options_len;
    const uint8_t *options; // padded with NOPs to a multiple of 4
    uint32_t options_len;
    const uint8_t *data;
    uint32_t data_len;
};

// 10.0.0.1:40000 to 10.9.9.9:80, SYN, TTL 64, without options.
struct syn syn_plain(void);

// What Linux sends: MSS, SACK, timestamps, window scale, and a placeholder of eight bytes behind them.
extern const uint8_t syn_linux_options[28];

// Writes the packet and returns its length.
uint32_t syn_write(const struct syn *s, uint8_t p[SYN_MOST]);

// Whether both checksums of a packet are right.
bool syn_sums_right(const uint8_t *p);

#endif
