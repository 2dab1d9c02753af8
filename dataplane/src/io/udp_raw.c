// SPDX-License-Identifier: Apache-2.0
// The IP and UDP headers of a packet sent under somebody else's source address (R-4
// Transparent, R-123): the kernel's UDP sockets refuse to do that, so a raw socket does.
#include "base/bytes.h"
#include "io/udp_internal.h"

#include <string.h>

enum { IPV4_HEAD = 20, IPV6_HEAD = 40, UDP_HEAD = 8, PROTO_UDP = 17, TTL_AFTER_ONE_HOP = 63, DONT_FRAGMENT = 0x4000 };

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

// The hop count of a packet that is passed on. A driver that was not told what it arrived with
// counts one hop of the usual 64.
static uint8_t hops_left(const struct bt_pkt *pkt)
{
    return (uint8_t)(pkt->ttl != 0 ? pkt->ttl - 1 : TTL_AFTER_ONE_HOP);
}

// The UDP header at udp; `pseudo` is the sum of both addresses.
static void put_udp(const struct bt_pkt *pkt, uint32_t pseudo, uint16_t udp_len, uint8_t *udp)
{
    bt_put16(udp, pkt->src.port);
    bt_put16(udp + 2, pkt->dst.port);
    bt_put16(udp + 4, udp_len);
    bt_put16(udp + 6, 0);
    uint32_t sum = sum16(pseudo + PROTO_UDP + udp_len, udp, UDP_HEAD);
    uint16_t check = fold(sum16(sum, pkt->data, pkt->len));
    bt_put16(udp + 6, check != 0 ? check : 0xffff); // 0 would mean "no checksum"
}

static void put_ipv4(const struct bt_pkt *pkt, uint16_t ip_id, uint16_t udp_len, uint8_t *head)
{
    memset(head, 0, IPV4_HEAD);
    head[0] = 0x45;
    bt_put16(head + 2, (uint16_t)(udp_len + IPV4_HEAD));
    bt_put16(head + 4, ip_id);
    bt_put16(head + 6, DONT_FRAGMENT);
    head[8] = hops_left(pkt);
    head[9] = PROTO_UDP;
    memcpy(head + 12, pkt->src.ip + 12, 4);
    memcpy(head + 16, pkt->dst.ip + 12, 4);
    bt_put16(head + 10, fold(sum16(0, head, IPV4_HEAD)));
    put_udp(pkt, sum16(0, head + 12, 8), udp_len, head + IPV4_HEAD);
}

static void put_ipv6(const struct bt_pkt *pkt, uint16_t udp_len, uint8_t *head)
{
    memset(head, 0, IPV6_HEAD);
    head[0] = 0x60;
    bt_put16(head + 4, udp_len);
    head[6] = PROTO_UDP;
    head[7] = hops_left(pkt);
    memcpy(head + 8, pkt->src.ip, 16);
    memcpy(head + 24, pkt->dst.ip, 16);
    put_udp(pkt, sum16(0, head + 8, 32), udp_len, head + IPV6_HEAD);
}

uint32_t bt_udp_raw_header(const struct bt_pkt *pkt, uint16_t ip_id, uint8_t head[BT_UDP_RAW_HEAD])
{
    bool v4 = bt_addr_is_v4(&pkt->src);
    if (v4 != bt_addr_is_v4(&pkt->dst) || pkt->len > 65535 - BT_UDP_RAW_HEAD) {
        return 0;
    }
    uint16_t udp_len = (uint16_t)(pkt->len + UDP_HEAD);
    if (v4) {
        put_ipv4(pkt, ip_id, udp_len, head);
        return IPV4_HEAD + UDP_HEAD;
    }
    put_ipv6(pkt, udp_len, head);
    return IPV6_HEAD + UDP_HEAD;
}
