// SPDX-License-Identifier: Apache-2.0
// IP and UDP headers. What an honest host on a datacentre network never sends (options, fragments, extension
// headers) is refused rather than half supported.
#include "wire/frame.h"

#include "wire/checksum.h"

enum { IP4_MORE_OR_OFFSET = 0x3fff };

static struct bt_addr addr6(const uint8_t *p)
{
    struct bt_addr a = {.port = 0};
    memcpy(a.ip, p, 16);
    return a;
}

enum bt_frame_error bt_ip4_judge(const uint8_t *p, uint32_t len, bool verify, struct bt_ip *ip)
{
    if (len < BT_IP4_HEAD) {
        return BT_FRAME_TRUNCATED;
    }
    uint32_t head = (p[0] & 15u) * 4u, total = bt_get16(p + 2);
    if (p[0] >> 4 != 4 || head < BT_IP4_HEAD) {
        return BT_FRAME_HEADER;
    }
    if (total < head || total > len) {
        return BT_FRAME_TRUNCATED;
    }
    if (head != BT_IP4_HEAD) {
        return verify && !bt_csum_ok(bt_csum_bytes(0, p, head)) ? BT_FRAME_IP_SUM : BT_FRAME_OPTIONS;
    }
    if (verify && !bt_csum_ok(bt_csum_bytes(0, p, BT_IP4_HEAD))) { // of a constant length: no loop
        return BT_FRAME_IP_SUM;
    }
    if ((bt_get16(p + 6) & IP4_MORE_OR_OFFSET) != 0) {
        return BT_FRAME_FRAGMENT;
    }
    ip->v4 = true;
    ip->head = p;
    ip->body = p + head;
    ip->body_len = total - head;
    ip->ttl = p[8];
    ip->proto = p[9];
    ip->src = bt_addr_v4(p + 12, 0);
    ip->dst = bt_addr_v4(p + 16, 0);
    return BT_FRAME_OK;
}

// A hop-by-hop header that only carries ICMPv6: steps over it.
static enum bt_frame_error step_over(struct bt_ip *ip)
{
    const uint8_t *p = ip->body;
    if (ip->body_len < 8) {
        return BT_FRAME_TRUNCATED;
    }
    uint32_t n = 8u + p[1] * 8u;
    if (n > ip->body_len) {
        return BT_FRAME_TRUNCATED;
    }
    if (p[0] != BT_PROTO_ICMP6) {
        return BT_FRAME_OPTIONS;
    }
    ip->proto = p[0];
    ip->body += n;
    ip->body_len -= n;
    return BT_FRAME_OK;
}

enum bt_frame_error bt_ip6_judge(const uint8_t *p, uint32_t len, struct bt_ip *ip)
{
    if (len < BT_IP6_HEAD) {
        return BT_FRAME_TRUNCATED;
    }
    uint32_t body = bt_get16(p + 4);
    if (p[0] >> 4 != 6) {
        return BT_FRAME_HEADER;
    }
    if (body > len - BT_IP6_HEAD) {
        return BT_FRAME_TRUNCATED;
    }
    ip->v4 = false;
    ip->head = p;
    ip->body = p + BT_IP6_HEAD;
    ip->body_len = body;
    ip->proto = p[6];
    ip->ttl = p[7];
    ip->src = addr6(p + 8);
    ip->dst = addr6(p + 24);
    if (bt_addr_is_v4(&ip->src) || bt_addr_is_v4(&ip->dst)) { // would pass for the IPv4 host of that number
        return BT_FRAME_MAPPED;
    }
    switch (ip->proto) {
    case BT_PROTO_HOP_BY_HOP:
        return step_over(ip);
    case BT_PROTO_FRAGMENT:
        return BT_FRAME_FRAGMENT;
    case 43:  // routing
    case 51:  // authentication
    case 60:  // destination options
    case 135: // mobility
    case 139: // host identity
    case 140: // shim
        return BT_FRAME_OPTIONS;
    default:
        return BT_FRAME_OK;
    }
}

uint64_t bt_pseudo_sum(const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto, uint32_t len)
{
    // Of IPv4 addresses the last four bytes; their mapped prefix would add ffff twice, which is nothing.
    uint64_t sum = bt_csum_bytes(0, src->ip + 8, 8);
    sum = bt_csum_bytes(sum, dst->ip + 8, 8);
    if (!bt_addr_is_v4(src)) {
        sum = bt_csum_bytes(sum, src->ip, 8);
        sum = bt_csum_bytes(sum, dst->ip, 8);
    }
    return bt_csum_add(bt_csum_add(sum, htobe32(len)), htobe32(proto)); // as RFC 8200 lays them out
}

bool bt_udp_unfinished(const struct bt_ip *ip)
{
    return ip->body_len >= BT_UDP_HEAD &&
           bt_csum_is_partial(ip->body + 6, bt_pseudo_sum(&ip->src, &ip->dst, BT_PROTO_UDP, bt_get16(ip->body + 4)));
}

bool bt_tcp_finish(uint8_t *tcp, const struct bt_ip *ip)
{
    enum { SUM = 16, HEAD = 20 };
    if (ip->body_len < HEAD ||
        !bt_csum_is_partial(tcp + SUM, bt_pseudo_sum(&ip->src, &ip->dst, BT_PROTO_TCP, ip->body_len))) {
        return false;
    }
    bt_csum_store(tcp + SUM, bt_csum_bytes(0, tcp, ip->body_len)); // the pseudo-header's sum is in it, in the field
    return true;
}

enum bt_frame_error bt_udp_judge(struct bt_ip *ip, bool verify)
{
    const uint8_t *p = ip->body;
    if (ip->body_len < BT_UDP_HEAD) {
        return BT_FRAME_UDP_LENGTH;
    }
    uint32_t len = bt_get16(p + 4);
    if (len < BT_UDP_HEAD || len > ip->body_len) {
        return BT_FRAME_UDP_LENGTH;
    }
    if (bt_get16(p + 6) == 0) {
        if (!ip->v4) { // RFC 8200 §8.1; the exception of RFC 6935 is for tunnels
            return BT_FRAME_UDP_SUM;
        }
    } else if (verify && !bt_csum_ok(bt_csum_bytes(bt_pseudo_sum(&ip->src, &ip->dst, BT_PROTO_UDP, len), p, len))) {
        return BT_FRAME_UDP_SUM;
    }
    bt_addr_set_port(&ip->src, bt_get16(p));
    bt_addr_set_port(&ip->dst, bt_get16(p + 2));
    ip->body = p + BT_UDP_HEAD;
    ip->body_len = len - BT_UDP_HEAD;
    return BT_FRAME_OK;
}

void bt_ether_write(uint8_t *p, const uint8_t dst[6], const uint8_t src[6], uint16_t type)
{
    memcpy(p, dst, 6);
    memcpy(p + 6, src, 6);
    bt_put16(p + 12, type);
}

static inline void ip4_words(uint32_t word[5], const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto,
                             uint8_t ttl, uint32_t len)
{
    word[0] = htobe32(0x45000000u | (uint16_t)(len + BT_IP4_HEAD));
    word[1] = htobe32(BT_IP4_DONT_FRAGMENT);
    word[2] = htobe32((uint32_t)ttl << 24 | (uint32_t)proto << 16);
    memcpy(&word[3], src->ip + 12, 4);
    memcpy(&word[4], dst->ip + 12, 4);
}

void bt_ip4_write_unsummed(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto, uint8_t ttl,
                           uint32_t len)
{
    uint32_t word[5];
    ip4_words(word, src, dst, proto, ttl, len);
    memcpy(p, word, BT_IP4_HEAD);
}

void bt_ip4_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto, uint8_t ttl,
                  uint32_t len)
{
    uint32_t word[5];
    ip4_words(word, src, dst, proto, ttl, len);
    memcpy(p, word, BT_IP4_HEAD);
    // Of the words, not of the bytes just written: those are still on their way to the cache.
    bt_csum_store(p + 10, (uint64_t)word[0] + word[1] + word[2] + word[3] + word[4]);
}

void bt_ip6_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint8_t proto, uint8_t ttl,
                  uint32_t len)
{
    bt_put32(p, 0x60000000);
    bt_put16(p + 4, (uint16_t)len);
    p[6] = proto;
    p[7] = ttl;
    memcpy(p + 8, src->ip, 16);
    memcpy(p + 24, dst->ip, 16);
}

void bt_udp_write(uint8_t *p, const struct bt_addr *src, const struct bt_addr *dst, uint32_t len, enum bt_udp_sum sum)
{
    len += BT_UDP_HEAD;
    bt_put16(p, src->port);
    bt_put16(p + 2, dst->port);
    bt_put16(p + 4, (uint16_t)len);
    bt_put16(p + 6, 0);
    if (sum == BT_UDP_SUM_NONE) {
        return;
    }
    uint64_t pseudo = bt_pseudo_sum(src, dst, BT_PROTO_UDP, len);
    if (sum == BT_UDP_SUM_FULL) {
        bt_csum_store_udp(p + 6, bt_csum_bytes(pseudo, p, len));
    } else {
        bt_csum_store_partial(p + 6, pseudo);
    }
}

void bt_ip6_group_mac(const struct bt_addr *group, uint8_t mac[6])
{
    mac[0] = mac[1] = 0x33;
    memcpy(mac + 2, group->ip + 12, 4);
}

struct bt_addr bt_ip6_solicited_node(const struct bt_addr *addr)
{
    struct bt_addr group = {.ip = {0xff, 0x02, [11] = 1, [12] = 0xff}};
    memcpy(group.ip + 13, addr->ip + 13, 3);
    return group;
}
