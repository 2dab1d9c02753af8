// SPDX-License-Identifier: Apache-2.0
// Text to address and back, without the C library's resolver: base is pure.
#include "base/addr.h"

#include <stdio.h>

struct bt_addr bt_addr_v4u(uint32_t ip, uint16_t port)
{
    uint8_t b[4] = {(uint8_t)(ip >> 24), (uint8_t)(ip >> 16), (uint8_t)(ip >> 8), (uint8_t)ip};
    return bt_addr_v4(b, port);
}

// Decimal of at most five digits up to max; returns the end or NULL.
static const char *take_number(const char *p, uint32_t max, uint32_t *out)
{
    uint32_t v = 0;
    const char *start = p;
    for (; *p >= '0' && *p <= '9' && p - start < 6; p++) {
        v = v * 10 + (uint32_t)(*p - '0');
    }
    if (p == start || v > max || (p - start > 1 && *start == '0')) {
        return NULL;
    }
    *out = v;
    return p;
}

static const char *take_v4(const char *p, uint8_t ip[4])
{
    for (int i = 0; i < 4; i++) {
        uint32_t v;
        if (i && *p++ != '.') {
            return NULL;
        }
        p = take_number(p, 255, &v);
        if (!p) {
            return NULL;
        }
        ip[i] = (uint8_t)v;
    }
    return p;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

static const char *take_group(const char *p, uint32_t *out)
{
    uint32_t v = 0;
    int n = 0;
    for (; n < 4 && hex_digit(*p) >= 0; n++) {
        v = v * 16 + (uint32_t)hex_digit(*p++);
    }
    *out = v;
    return n ? p : NULL;
}

// An address as far as it was read: bytes in order, and how many of them stand before "::" (-1: it has none).
struct v6_parts {
    uint8_t part[16];
    int n, gap;
};

// What follows a group: "::" or ":" before another one. NULL where the address ends.
static const char *take_separator(const char *p, struct v6_parts *a)
{
    if (p[0] == ':' && p[1] == ':' && a->gap < 0) {
        a->gap = a->n;
        return p + 2;
    }
    return p[0] == ':' && hex_digit(p[1]) >= 0 && a->n < 16 ? p + 1 : NULL;
}

// Hex groups, the last of them perhaps an IPv4 address.
static const char *take_groups(const char *p, struct v6_parts *a)
{
    while (a->n < 16 && hex_digit(*p) >= 0) {
        const char *v4 = a->n <= 12 ? take_v4(p, a->part + a->n) : NULL;
        if (v4) {
            a->n += 4;
            return v4;
        }
        uint32_t v;
        p = take_group(p, &v);
        if (!p) {
            return NULL;
        }
        a->part[a->n++] = (uint8_t)(v >> 8);
        a->part[a->n++] = (uint8_t)v;
        const char *next = take_separator(p, a);
        if (!next) {
            break;
        }
        p = next;
    }
    return p;
}

// Eight hex groups with at most one "::"; an IPv4 tail is accepted.
static const char *take_v6(const char *p, uint8_t ip[16])
{
    struct v6_parts a = {.gap = -1};
    if (p[0] == ':' && p[1] == ':') {
        a.gap = 0;
        p += 2;
    }
    p = take_groups(p, &a);
    if (!p || (a.gap < 0) != (a.n == 16)) {
        return NULL;
    }
    memset(ip, 0, 16);
    int head = a.gap < 0 ? 16 : a.gap;
    memcpy(ip, a.part, (size_t)head);
    memcpy(ip + 16 - (a.n - head), a.part + head, (size_t)(a.n - head));
    return p;
}

int bt_addr_parse(const char *text, uint16_t default_port, struct bt_addr *out)
{
    struct bt_addr a = {0};
    uint8_t v4[4];
    uint32_t port = default_port;
    const char *p = take_v4(text, v4);
    if (p) {
        a = bt_addr_v4(v4, 0);
    } else if (*text == '[') {
        p = take_v6(text + 1, a.ip);
        if (!p || *p++ != ']') {
            return -1;
        }
    } else {
        p = take_v6(text, a.ip);
        if (!p || *p) {
            return -1;
        }
    }
    if (*p == ':') {
        p = take_number(p + 1, 65535, &port);
    }
    if (!p || *p || port == 0) {
        return -1;
    }
    a.port = (uint16_t)port;
    *out = a;
    return 0;
}

// Longest run of at least two zero groups, as RFC 5952 wants it shortened.
static void longest_gap(const uint8_t ip[16], int *at, int *len)
{
    *at = -1;
    *len = 1;
    for (int i = 0; i < 8; i++) {
        int n = 0;
        while (i + n < 8 && ip[2 * (i + n)] == 0 && ip[2 * (i + n) + 1] == 0) {
            n++;
        }
        if (n > *len) {
            *at = i;
            *len = n;
        }
    }
}

char *bt_addr_format_ip(const struct bt_addr *a, char buf[BT_ADDR_TEXT])
{
    const uint8_t *b = a->ip;
    if (bt_addr_is_v4(a)) {
        snprintf(buf, BT_ADDR_TEXT, "%u.%u.%u.%u", b[12], b[13], b[14], b[15]);
        return buf;
    }
    int gap, len, n = 0;
    longest_gap(b, &gap, &len);
    for (int i = 0; i < 8; i++) {
        if (i == gap) {
            n += snprintf(buf + n, (size_t)(BT_ADDR_TEXT - n), "::");
            i += len - 1;
            continue;
        }
        const char *sep = i > 0 && !(gap >= 0 && i == gap + len) ? ":" : "";
        n += snprintf(buf + n, (size_t)(BT_ADDR_TEXT - n), "%s%x", sep, (unsigned)(b[2 * i] << 8 | b[2 * i + 1]));
    }
    return buf;
}

char *bt_addr_format(const struct bt_addr *a, char buf[BT_ADDR_TEXT])
{
    char ip[BT_ADDR_TEXT];
    bt_addr_format_ip(a, ip);
    if (bt_addr_is_v4(a)) {
        snprintf(buf, BT_ADDR_TEXT, "%.15s:%u", ip, a->port);
    } else {
        snprintf(buf, BT_ADDR_TEXT, "[%.45s]:%u", ip, a->port);
    }
    return buf;
}
