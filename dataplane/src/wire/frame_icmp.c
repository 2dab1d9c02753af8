// SPDX-License-Identifier: Apache-2.0
// Judging and writing ICMP, neighbour discovery and listener reports.
#include "wire/frame_icmp.h"

#include <errno.h>

#include "wire/checksum.h"

enum { ND_SOURCE_MAC = 1, ND_TARGET_MAC = 2, ND_OPTIONS_AT = 24 };

static const uint8_t unspecified[16];

bool bt_icmp_judge(const struct bt_ip *ip)
{
    if (ip->body_len < BT_ICMP_HEAD) {
        return false;
    }
    uint64_t sum = ip->v4 ? 0 : bt_pseudo_sum(&ip->src, &ip->dst, BT_PROTO_ICMP6, ip->body_len);
    return bt_csum_ok(bt_csum_bytes(sum, ip->body, ip->body_len));
}

bool bt_icmp_is_error(const struct bt_ip *ip)
{
    if (ip->body_len == 0) {
        return false;
    }
    uint8_t type = ip->body[0];
    if (!ip->v4) {
        return type < 128;
    }
    return type == BT_ICMP4_UNREACHABLE || type == 4 || type == 5 || type == BT_ICMP4_TIME_EXCEEDED ||
           type == BT_ICMP4_PARAMETER;
}

// Finds the link-layer option of the kind wanted. False: an option of length 0 or one that runs out of the packet.
static bool nd_options(const struct bt_ip *ip, uint8_t wanted, struct bt_nd *nd)
{
    uint32_t at = ND_OPTIONS_AT;
    while (at < ip->body_len) {
        const uint8_t *o = ip->body + at;
        uint32_t left = ip->body_len - at;
        if (left < 8 || o[1] == 0 || o[1] * 8u > left) {
            return false;
        }
        if (o[0] == wanted && o[1] == 1) {
            nd->has_mac = true;
            memcpy(nd->mac, o + 2, 6);
        }
        at += o[1] * 8u;
    }
    static const uint8_t zero[6];
    return !nd->has_mac || (!bt_mac_is_group(nd->mac) && memcmp(nd->mac, zero, 6) != 0);
}

bool bt_nd_judge(const struct bt_ip *ip, struct bt_nd *nd)
{
    const uint8_t *p = ip->body;
    static const uint8_t loopback[16] = {[15] = 1};
    if (ip->ttl != BT_ND_TTL || ip->body_len < ND_OPTIONS_AT || p[1] != 0 || p[8] == 0xff || ip->src.ip[0] == 0xff ||
        memcmp(ip->src.ip, loopback, 16) == 0) {
        return false;
    }
    bool to_group = ip->dst.ip[0] == 0xff, from_nobody = memcmp(ip->src.ip, unspecified, 16) == 0;
    *nd = (struct bt_nd){.advertisement = p[0] == BT_ICMP6_NEIGHBOUR_ADVERTISEMENT,
                         .router = (p[4] & 0x80) != 0,
                         .solicited = (p[4] & 0x40) != 0,
                         .override = (p[4] & 0x20) != 0};
    memcpy(nd->target.ip, p + 8, 16);
    if (bt_addr_is_v4(&nd->target)) {
        return false;
    }
    if (nd->advertisement) {
        return nd_options(ip, ND_TARGET_MAC, nd) && !(to_group && nd->solicited) && !from_nobody;
    }
    struct bt_addr group = bt_ip6_solicited_node(&nd->target);
    return nd_options(ip, ND_SOURCE_MAC, nd) && (!from_nobody || (bt_addr_ip_eq(&ip->dst, &group) && !nd->has_mac));
}

static void store(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint32_t len)
{
    bt_put16(p + 2, 0);
    bt_csum_store(p + 2, bt_csum_bytes(bt_pseudo_sum(src, dst, BT_PROTO_ICMP6, len), p, len));
}

void bt_nd_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, const struct bt_nd *nd)
{
    memset(p, 0, 8);
    p[0] = nd->advertisement ? BT_ICMP6_NEIGHBOUR_ADVERTISEMENT : BT_ICMP6_NEIGHBOUR_SOLICITATION;
    p[4] = (uint8_t)((nd->router ? 0x80 : 0) | (nd->solicited ? 0x40 : 0) | (nd->override ? 0x20 : 0));
    memcpy(p + 8, nd->target.ip, 16);
    p[24] = nd->advertisement ? ND_TARGET_MAC : ND_SOURCE_MAC;
    p[25] = 1;
    memcpy(p + 26, nd->mac, 6);
    store(p, src, dst, BT_ND_BYTES);
}

// errno of an IPv4 destination unreachable, by code, as Linux converts it.
static const int unreachable4[] = {ENETUNREACH,  EHOSTUNREACH, ENOPROTOOPT,  ECONNREFUSED, EMSGSIZE,     EOPNOTSUPP,
                                   ENETUNREACH,  EHOSTDOWN,    ENONET,       ENETUNREACH,  EHOSTUNREACH, ENETUNREACH,
                                   EHOSTUNREACH, EHOSTUNREACH, EHOSTUNREACH, EHOSTUNREACH};
static const int unreachable6[] = {ENETUNREACH, EACCES, EHOSTUNREACH, EHOSTUNREACH, ECONNREFUSED, EACCES, EACCES};

static int error4(const uint8_t *p)
{
    switch (p[0]) {
    case BT_ICMP4_UNREACHABLE:
        return p[1] < sizeof unreachable4 / sizeof *unreachable4 ? unreachable4[p[1]] : 0;
    case BT_ICMP4_TIME_EXCEEDED:
        return EHOSTUNREACH;
    case BT_ICMP4_PARAMETER:
        return EPROTO;
    default:
        return 0;
    }
}

static int error6(const uint8_t *p)
{
    switch (p[0]) {
    case BT_ICMP6_UNREACHABLE:
        return p[1] < sizeof unreachable6 / sizeof *unreachable6 ? unreachable6[p[1]] : 0;
    case BT_ICMP6_TOO_BIG:
        return EMSGSIZE;
    case BT_ICMP6_TIME_EXCEEDED:
        return EHOSTUNREACH;
    case BT_ICMP6_PARAMETER:
        return EPROTO;
    default:
        return 0;
    }
}

// What is quoted may be cut anywhere behind the ports and changed on its way: only addresses and ports are read.
static bool quoted4(const uint8_t *p, uint32_t len, struct bt_icmp_error *e)
{
    if (len < BT_IP4_HEAD || p[0] >> 4 != 4 || p[9] != BT_PROTO_UDP || (bt_get16(p + 6) & 0x1fff) != 0) {
        return false;
    }
    uint32_t head = (p[0] & 15u) * 4u;
    if (head < BT_IP4_HEAD || len < head + 4) {
        return false;
    }
    e->src = bt_addr_v4(p + 12, bt_get16(p + head));
    e->dst = bt_addr_v4(p + 16, bt_get16(p + head + 2));
    return true;
}

static bool quoted6(const uint8_t *p, uint32_t len, struct bt_icmp_error *e)
{
    if (len < BT_IP6_HEAD + 4 || p[0] >> 4 != 6 || p[6] != BT_PROTO_UDP) {
        return false;
    }
    e->src = (struct bt_addr){.port = bt_get16(p + BT_IP6_HEAD)};
    e->dst = (struct bt_addr){.port = bt_get16(p + BT_IP6_HEAD + 2)};
    memcpy(e->src.ip, p + 8, 16);
    memcpy(e->dst.ip, p + 24, 16);
    return !bt_addr_is_v4(&e->src) && !bt_addr_is_v4(&e->dst);
}

bool bt_icmp_error_judge(const struct bt_ip *ip, struct bt_icmp_error *e)
{
    if (ip->body_len < BT_ICMP_HEAD) {
        return false;
    }
    const uint8_t *p = ip->body, *quoted = p + BT_ICMP_HEAD;
    uint32_t len = ip->body_len - BT_ICMP_HEAD, mtu = 0;
    e->error = ip->v4 ? error4(p) : error6(p);
    if (e->error == EMSGSIZE) {
        mtu = ip->v4 ? bt_get16(p + 6) : bt_get32(p + 4);
    }
    e->mtu = (uint16_t)(mtu < UINT16_MAX ? mtu : UINT16_MAX);
    return e->error != 0 && (ip->v4 ? quoted4(quoted, len, e) : quoted6(quoted, len, e));
}

void bt_icmp_unreachable_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint32_t len)
{
    bool v4 = bt_addr_is_v4(src);
    memset(p, 0, BT_ICMP_HEAD);
    p[0] = v4 ? BT_ICMP4_UNREACHABLE : BT_ICMP6_UNREACHABLE;
    p[1] = v4 ? 3 : 4; // port
    if (v4) {
        bt_csum_store(p + 2, bt_csum_bytes(0, p, BT_ICMP_HEAD + len));
    } else {
        store(p, src, dst, BT_ICMP_HEAD + len);
    }
}

struct bt_addr bt_mld_routers(void)
{
    return (struct bt_addr){.ip = {0xff, 0x02, [15] = 0x16}};
}

void bt_mld_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *groups, unsigned n)
{
    static const uint8_t router_alert[8] = {BT_PROTO_ICMP6, 0, 5, 2, 0, 0, 1, 0}; // and two bytes of padding
    struct bt_addr dst = bt_mld_routers();
    memcpy(p, router_alert, sizeof router_alert);
    uint8_t *m = p + sizeof router_alert;
    memset(m, 0, 8);
    m[0] = BT_ICMP6_LISTENER_REPORT;
    bt_put16(m + 6, (uint16_t)n);
    for (unsigned i = 0; i < n; i++) {
        uint8_t *record = m + 8 + i * 20u;
        memset(record, 0, 4);
        record[0] = 4; // change to "everybody but nobody": join
        memcpy(record + 4, groups[i].ip, 16);
    }
    store(m, src, &dst, 8u + 20u * n);
}
