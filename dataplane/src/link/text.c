// SPDX-License-Identifier: Apache-2.0
// MACs and prefixes as people write them.
#include "link/link.h"

static int digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int bt_link_mac_parse(const char *text, uint8_t mac[6])
{
    uint8_t m[6];
    for (int i = 0; i < 6; i++, text += 3) {
        int high = digit(text[0]), low = high >= 0 ? digit(text[1]) : -1;
        if (low < 0 || text[2] != (i < 5 ? ':' : '\0')) {
            return -1;
        }
        m[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(mac, m, 6);
    return 0;
}

char *bt_link_mac_format(const uint8_t mac[6], char text[BT_LINK_MAC_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 6; i++) {
        text[3 * i] = digits[mac[i] >> 4];
        text[3 * i + 1] = digits[mac[i] & 15];
        text[3 * i + 2] = i < 5 ? ':' : '\0';
    }
    return text;
}

// Decimal bits of a prefix, without sign or leading zero; 0 when the text is none.
static unsigned prefix_bits(const char *text)
{
    unsigned bits = 0, digits = 0;
    for (const char *p = text; *p != '\0'; p++, digits++) {
        if (*p < '0' || *p > '9' || digits == 3 || (digits > 0 && bits == 0)) {
            return 0;
        }
        bits = bits * 10 + (unsigned)(*p - '0');
    }
    return bits;
}

// The n bytes of an address without port. A v4 text must be a v4 address: "1.2.3.4:5" is none.
static bool prefix_address(const char *text, size_t n, struct bt_addr *out)
{
    char ip[BT_ADDR_TEXT];
    if (n >= sizeof ip || text[0] == '[') {
        return false;
    }
    memcpy(ip, text, n);
    ip[n] = '\0';
    if (bt_addr_parse(ip, 1, out) != 0) {
        return false;
    }
    return strchr(ip, ':') == NULL ? bt_addr_is_v4(out) : out->port == 1;
}

int bt_link_prefix_parse(const char *text, struct bt_link_prefix *out)
{
    const char *slash = strchr(text, '/');
    struct bt_addr addr;
    if (slash == NULL || !prefix_address(text, (size_t)(slash - text), &addr)) {
        return -1;
    }
    unsigned bits = prefix_bits(slash + 1);
    if (bits == 0 || bits > (bt_addr_is_v4(&addr) ? 32 : 128)) {
        return -1;
    }
    addr.port = 0;
    *out = (struct bt_link_prefix){.addr = addr, .bits = (uint8_t)bits};
    return 0;
}
