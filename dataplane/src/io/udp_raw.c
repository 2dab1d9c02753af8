// SPDX-License-Identifier: Apache-2.0
// The IPv4 and UDP headers of a packet sent under somebody else's source address (R-4
// Transparent, R-123): the kernel's UDP sockets refuse to do that, so a raw socket does.
#include "base/bytes.h"
#include "io/udp_internal.h"

#include <string.h>

enum { IP_HEAD = 20, UDP_HEAD = 8, PROTO_UDP = 17, TTL_AFTER_ONE_HOP = 63, DONT_FRAGMENT = 0x4000 };

// Sum of big-endian 16-bit words; an odd last byte counts as the high half.
static uint32_t sum16(uint32_t sum, const uint8_t *p, size_t n)
{
    for (; n > 1; p += 2, n -= 2) {
        sum += bt_get16(p);
    }
    return n != 0 ? sum + ((uint32_t)p[0] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
    while (sum > 0xffff) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

bool bt_udp_raw_header(const struct bt_pkt *pkt, uint16_t ip_id, uint8_t head[BT_UDP_RAW_HEAD])
{
    if (!bt_addr_is_v4(&pkt->src) || !bt_addr_is_v4(&pkt->dst) || pkt->len > 65535 - BT_UDP_RAW_HEAD) {
        return false;
    }
    uint8_t *udp = head + IP_HEAD;
    uint16_t udp_len = (uint16_t)(pkt->len + UDP_HEAD);
    memset(head, 0, BT_UDP_RAW_HEAD);
    head[0] = 0x45;
    bt_put16(head + 2, (uint16_t)(udp_len + IP_HEAD));
    bt_put16(head + 4, ip_id);
    bt_put16(head + 6, DONT_FRAGMENT);
    head[8] = TTL_AFTER_ONE_HOP;
    head[9] = PROTO_UDP;
    memcpy(head + 12, pkt->src.ip + 12, 4);
    memcpy(head + 16, pkt->dst.ip + 12, 4);
    bt_put16(head + 10, fold(sum16(0, head, IP_HEAD)));

    bt_put16(udp, pkt->src.port);
    bt_put16(udp + 2, pkt->dst.port);
    bt_put16(udp + 4, udp_len);
    uint32_t sum = sum16(0, head + 12, 8) + PROTO_UDP + udp_len; // pseudo header
    sum = sum16(sum, udp, UDP_HEAD);
    uint16_t check = fold(sum16(sum, pkt->data, pkt->len));
    bt_put16(udp + 6, check != 0 ? check : 0xffff); // 0 would mean "no checksum"
    return true;
}
