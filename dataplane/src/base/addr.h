// SPDX-License-Identifier: Apache-2.0
// One address type for every internal interface, in one byte order:
// 16 bytes of IP in network order (IPv4 as ::ffff:a.b.c.d), port in host order.
#ifndef BT_BASE_ADDR_H
#define BT_BASE_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

struct bt_addr {
    uint8_t ip[16];
    uint16_t port; // host order
    uint16_t pad;  // always 0, so that memcmp and hashing see no garbage
};

// Longest text bt_addr_format writes, terminator included.
#define BT_ADDR_TEXT 56

// Eight bytes of the address, from byte `at`; for comparing and hashing only.
static inline uint64_t bt_addr_half(const struct bt_addr *a, uint32_t at)
{
    uint64_t v;
    memcpy(&v, a->ip + at, sizeof v);
    return v;
}

// The second half of an IPv4 address given in network order; the first is 0.
static inline uint64_t bt_addr_v4_half(const uint8_t ip[4])
{
    const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    uint32_t v;
    memcpy(&v, ip, sizeof v);
    return little ? (uint64_t)v << 32 | 0xffff0000u : UINT64_C(0xffff) << 32 | v;
}

static inline bool bt_addr_ip_eq(const struct bt_addr *a, const struct bt_addr *b)
{
    return ((bt_addr_half(a, 0) ^ bt_addr_half(b, 0)) | (bt_addr_half(a, 8) ^ bt_addr_half(b, 8))) == 0;
}

static inline bool bt_addr_eq(const struct bt_addr *a, const struct bt_addr *b)
{
    return a->port == b->port && bt_addr_ip_eq(a, b); // strangers differ in the port already, mostly
}

static inline bool bt_addr_is_v4(const struct bt_addr *a)
{
    static const uint8_t mapped[4] = {0, 0, 0xff, 0xff};
    return bt_addr_half(a, 0) == 0 && memcmp(a->ip + 8, mapped, sizeof mapped) == 0;
}

// Port and pad in one store, because addresses are copied in as large pieces as there are: a load that finds its bytes
// in two stores still on their way to the cache waits for both.
static inline void bt_addr_set_port(struct bt_addr *a, uint16_t port)
{
    uint32_t both = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? port : (uint32_t)port << 16;
    memcpy((uint8_t *)a + offsetof(struct bt_addr, port), &both, sizeof both);
}

// From four bytes in network order and a host-order port. The address is put together in a register for the reason
// above.
static inline struct bt_addr bt_addr_v4(const uint8_t ip[4], uint16_t port)
{
    typedef uint32_t words __attribute__((vector_size(16)));
    uint32_t v;
    memcpy(&v, ip, sizeof v);
    words w = {0, 0, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0xffff0000u : 0x0000ffffu, v};
    struct bt_addr a;
    memcpy(a.ip, &w, sizeof w);
    bt_addr_set_port(&a, port);
    return a;
}

// From a.b.c.d written as 0xaabbccdd and a host-order port.
struct bt_addr bt_addr_v4u(uint32_t ip, uint16_t port);

// True for an address no honest unicast peer can send from (M-23): port 0,
// unspecified, multicast or limited broadcast.
static inline bool bt_addr_bad_source(const struct bt_addr *a)
{
    if (!bt_addr_is_v4(a)) {
        return a->port == 0 || (bt_addr_half(a, 0) | bt_addr_half(a, 8)) == 0 || a->ip[0] == 0xff;
    }
    uint32_t ip = bt_get32(a->ip + 12);
    return a->port == 0 || ip == 0 || ip >= 0xe0000000u; // 224/4 multicast, 240/4 reserved, broadcast
}

static inline bool bt_addr_is_multicast(const struct bt_addr *a)
{
    return bt_addr_is_v4(a) ? (a->ip[12] & 0xf0u) == 0xe0u : a->ip[0] == 0xff;
}

// "10.0.0.1:8000" or "[fd00::1]:8000"; with default_port > 0 the port may be
// left out. Returns 0, or -1 when the text is no such address (*out untouched).
int bt_addr_parse(const char *text, uint16_t default_port, struct bt_addr *out);

// Writes "10.0.0.1:8000" or "[fd00::1]:8000" and returns buf.
char *bt_addr_format(const struct bt_addr *a, char buf[BT_ADDR_TEXT]);

// The same without port and brackets.
char *bt_addr_format_ip(const struct bt_addr *a, char buf[BT_ADDR_TEXT]);

#endif
