// SPDX-License-Identifier: Apache-2.0
// One address type for every internal interface, in one byte order:
// 16 bytes of IP in network order (IPv4 as ::ffff:a.b.c.d), port in host order.
#ifndef BT_BASE_ADDR_H
#define BT_BASE_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bt_addr {
    uint8_t ip[16];
    uint16_t port; // host order
    uint16_t pad;  // always 0, so that memcmp and hashing see no garbage
};

// Longest text bt_addr_format writes, terminator included.
#define BT_ADDR_TEXT 56

static inline bool bt_addr_eq(const struct bt_addr *a, const struct bt_addr *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static inline bool bt_addr_ip_eq(const struct bt_addr *a, const struct bt_addr *b)
{
    return memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

static inline bool bt_addr_is_v4(const struct bt_addr *a)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(a->ip, mapped, sizeof mapped) == 0;
}

// From four bytes in network order and a host-order port.
struct bt_addr bt_addr_v4(const uint8_t ip[4], uint16_t port);

// From a.b.c.d written as 0xaabbccdd and a host-order port.
struct bt_addr bt_addr_v4u(uint32_t ip, uint16_t port);

// True for an address no honest unicast peer can send from (M-23): port 0,
// unspecified, multicast or limited broadcast.
bool bt_addr_bad_source(const struct bt_addr *a);

// "10.0.0.1:8000" or "[fd00::1]:8000"; with default_port > 0 the port may be
// left out. Returns 0, or -1 when the text is no such address (*out untouched).
int bt_addr_parse(const char *text, uint16_t default_port, struct bt_addr *out);

// Writes "10.0.0.1:8000" or "[fd00::1]:8000" and returns buf.
char *bt_addr_format(const struct bt_addr *a, char buf[BT_ADDR_TEXT]);

// The same without port and brackets.
char *bt_addr_format_ip(const struct bt_addr *a, char buf[BT_ADDR_TEXT]);

#endif
