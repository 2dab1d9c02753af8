// SPDX-License-Identifier: Apache-2.0
// The way in: a frame is judged layer by layer, and what is not a UDP payload for a local port is answered, learned
// from or dropped with its reason.
#include "link/internal.h"

#include "base/bytes.h"
#include "base/toeplitz.h"

static const enum bt_link_counter reason_of[] = {
    [BT_FRAME_TRUNCATED] = BT_LINK_DROP_TRUNCATED, [BT_FRAME_HEADER] = BT_LINK_DROP_IP_HEADER,
    [BT_FRAME_OPTIONS] = BT_LINK_DROP_IP_OPTIONS,  [BT_FRAME_IP_SUM] = BT_LINK_DROP_IP_SUM,
    [BT_FRAME_FRAGMENT] = BT_LINK_DROP_FRAGMENT,   [BT_FRAME_UDP_LENGTH] = BT_LINK_DROP_UDP_LENGTH,
    [BT_FRAME_UDP_SUM] = BT_LINK_DROP_UDP_SUM,     [BT_FRAME_MAPPED] = BT_LINK_DROP_MARTIAN,
};

static enum bt_link_verdict dropped(struct bt_link *l, struct bt_pkt *pkt, enum bt_link_counter why)
{
    link_drop(l, pkt, why);
    return BT_LINK_TAKEN;
}

static bool is_group(const struct bt_link *l, const struct bt_addr *dst)
{
    if (!bt_addr_is_v4(dst)) {
        return dst->ip[0] == 0xff;
    }
    const struct own_addr *on = link_on_link(l, dst);
    return dst->ip[12] >= 224 || (on != NULL && bt_addr_ip_eq(dst, &on->broadcast));
}

// A source address that no honest peer on this network has. The port is not looked at.
static bool is_martian(const struct bt_link *l, const struct bt_ip *ip)
{
    static const uint8_t loopback[16] = {[15] = 1};
    struct bt_addr src = ip->src;
    src.port = 1;
    if (bt_addr_bad_source(&src) || link_own(l, &src) != NULL) {
        return true;
    }
    if (!ip->v4) {
        return memcmp(src.ip, loopback, 16) == 0;
    }
    return src.ip[12] == 127 || src.ip[12] == 0 || is_group(l, &src);
}

// Whether a packet for an own unicast address may be looked into; otherwise why not.
static bool is_for_us(const struct bt_link *l, const struct bt_ip *ip, bool group_frame, enum bt_link_counter *why)
{
    if (link_own(l, &ip->dst) == NULL) {
        *why = is_group(l, &ip->dst) ? BT_LINK_DROP_GROUP : BT_LINK_DROP_ADDRESS;
    } else if (group_frame) { // RFC 1122 §3.3.6
        *why = BT_LINK_DROP_GROUP;
    } else if (is_martian(l, ip)) {
        *why = BT_LINK_DROP_MARTIAN;
    } else {
        return true;
    }
    return false;
}

static enum bt_link_verdict take_udp(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, struct bt_ip *ip,
                                     struct bt_txq *out)
{
    bool verify = (pkt->offload & BT_PKT_RX_L4_OK) == 0 && !l->rx_trusted;
    bool unfinished = verify && l->rx_unfinished && bt_udp_unfinished(ip);
    enum bt_frame_error e = bt_udp_judge(ip, verify && !unfinished);
    if (e == BT_FRAME_OK && (pkt->offload & BT_PKT_RX_L4_BAD) != 0) {
        e = BT_FRAME_UDP_SUM;
    }
    if (e != BT_FRAME_OK) {
        return dropped(l, pkt, reason_of[e]);
    }
    if (ip->src.port == 0) {
        return dropped(l, pkt, BT_LINK_DROP_MARTIAN);
    }
    uint32_t local = link_find_local(l, &ip->dst);
    if (local == LINK_NONE) {
        link_refuse_port(l, now, pkt, ip, out);
        return BT_LINK_TAKEN;
    }
    bt_pkt_pull(pkt, (uint32_t)(ip->body - pkt->data));
    link_resize(pkt, ip->body_len);
    pkt->src = ip->src;
    pkt->dst = ip->dst;
    pkt->local = (uint16_t)local;
    pkt->ttl = ip->ttl;
    pkt->offload = 0;
    pkt->tx_as_src = 0;
    pkt->next = NULL;
    l->counters[BT_LINK_RX_UDP]++;
    l->counters[BT_LINK_RX_UNFINISHED] += unfinished;
    return BT_LINK_UDP;
}

// Whole, padding cut off: what to do with it stands in headers that the balancer reads and changes (E-22). It changes
// the checksum by what it changed, so that one a kernel left to a device is completed here.
static enum bt_link_verdict take_tcp(struct bt_link *l, struct bt_pkt *pkt, const struct bt_ip *ip)
{
    bool right = l->rx_trusted || (pkt->offload & BT_PKT_RX_L4_OK) != 0;
    if (l->rx_unfinished && bt_tcp_finish(pkt->data + (ip->body - pkt->data), ip)) {
        l->counters[BT_LINK_RX_UNFINISHED]++;
        right = true;
    }
    bt_pkt_pull(pkt, BT_ETHER_HEAD);
    link_resize(pkt, (uint32_t)(ip->body - ip->head) + ip->body_len);
    pkt->src = ip->src;
    pkt->dst = ip->dst;
    pkt->local = (uint16_t)l->n_locals;
    pkt->ttl = ip->ttl;
    pkt->offload = right ? BT_PKT_RX_L4_OK : 0;
    pkt->tx_as_src = 0;
    pkt->next = NULL;
    l->counters[BT_LINK_RX_TCP]++;
    return BT_LINK_UDP;
}

static enum bt_link_verdict take_ip4(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, bool group_frame,
                                     struct bt_txq *out)
{
    struct bt_ip ip;
    enum bt_link_counter why;
    bool verify = (pkt->offload & BT_PKT_RX_IP_OK) == 0 && !l->rx_trusted;
    enum bt_frame_error e = bt_ip4_judge(pkt->data + BT_ETHER_HEAD, pkt->len - BT_ETHER_HEAD, verify, &ip);
    if (e == BT_FRAME_OK && (pkt->offload & BT_PKT_RX_IP_BAD) != 0) {
        e = BT_FRAME_IP_SUM;
    }
    if (e != BT_FRAME_OK) {
        return dropped(l, pkt, reason_of[e]);
    }
    if (!is_for_us(l, &ip, group_frame, &why)) {
        return dropped(l, pkt, why);
    }
    if (ip.proto == BT_PROTO_UDP) {
        return take_udp(l, now, pkt, &ip, out);
    }
    if (ip.proto == BT_PROTO_TCP && l->takes_tcp) {
        return take_tcp(l, pkt, &ip);
    }
    if (ip.proto != BT_PROTO_ICMP4) {
        return dropped(l, pkt, BT_LINK_DROP_PROTOCOL);
    }
    link_icmp_rx(l, now, pkt, &ip, out);
    return BT_LINK_TAKEN;
}

// Discovery has rules of its own for addresses; it and listener queries are all that groups are heard for.
static bool is_discovery(const struct bt_ip *ip)
{
    if (ip->proto != BT_PROTO_ICMP6 || ip->body_len == 0) {
        return false;
    }
    uint8_t type = ip->body[0];
    return type == BT_ICMP6_NEIGHBOUR_SOLICITATION || type == BT_ICMP6_NEIGHBOUR_ADVERTISEMENT ||
           type == BT_ICMP6_LISTENER_QUERY;
}

static enum bt_link_verdict take_ip6(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, bool group_frame,
                                     struct bt_txq *out)
{
    struct bt_ip ip;
    enum bt_link_counter why;
    enum bt_frame_error e = bt_ip6_judge(pkt->data + BT_ETHER_HEAD, pkt->len - BT_ETHER_HEAD, &ip);
    if (e != BT_FRAME_OK) {
        return dropped(l, pkt, reason_of[e]);
    }
    if (!l->has_v6) {
        return dropped(l, pkt, BT_LINK_DROP_ADDRESS);
    }
    if (is_discovery(&ip)) {
        link_ndp_rx(l, now, pkt, &ip, out);
        return BT_LINK_TAKEN;
    }
    if (!is_for_us(l, &ip, group_frame, &why)) {
        return dropped(l, pkt, why);
    }
    if (ip.body != ip.head + BT_IP6_HEAD) {
        return dropped(l, pkt, BT_LINK_DROP_IP_OPTIONS);
    }
    if (ip.proto == BT_PROTO_UDP) {
        return take_udp(l, now, pkt, &ip, out);
    }
    if (ip.proto == BT_PROTO_TCP && l->takes_tcp) {
        return take_tcp(l, pkt, &ip);
    }
    if (ip.proto != BT_PROTO_ICMP6) {
        return dropped(l, pkt, BT_LINK_DROP_PROTOCOL);
    }
    link_icmp_rx(l, now, pkt, &ip, out);
    return BT_LINK_TAKEN;
}

__attribute__((noinline)) static enum bt_link_verdict take_any(struct bt_link *l, uint64_t now, struct bt_pkt *pkt,
                                                               struct bt_txq *out)
{
    if (pkt->len < BT_ETHER_HEAD) {
        return dropped(l, pkt, BT_LINK_DROP_TRUNCATED);
    }
    const uint8_t *to = pkt->data, *from = pkt->data + 6;
    bool group = bt_mac_is_group(to);
    if ((!group && memcmp(to, l->mac, 6) != 0) || bt_mac_is_group(from) || memcmp(from, l->mac, 6) == 0) {
        return dropped(l, pkt, BT_LINK_DROP_MAC);
    }
    switch (bt_get16(pkt->data + 12)) {
    case BT_ETHER_IP4:
        return take_ip4(l, now, pkt, group, out);
    case BT_ETHER_IP6:
        return take_ip6(l, now, pkt, group, out);
    case BT_ETHER_ARP:
        link_arp_rx(l, now, pkt, group, out);
        return BT_LINK_TAKEN;
    case BT_ETHER_VLAN:
    case BT_ETHER_QINQ:
        return dropped(l, pkt, BT_LINK_DROP_VLAN);
    default:
        return dropped(l, pkt, BT_LINK_DROP_ETHERTYPE);
    }
}

unsigned bt_link_rx_burst(struct bt_link *l, struct bt_pkt **frames, unsigned n, struct bt_txq *out)
{
    unsigned kept = 0;
    l->counters[BT_LINK_RX_FRAMES] += n;
    for (unsigned i = 0; i < n; i++) {
        struct bt_pkt *pkt = frames[i];
        if (link_plain_rx(l, pkt) || take_any(l, pkt->t_rx_ns, pkt, out) == BT_LINK_UDP) {
            frames[kept++] = pkt;
        }
    }
    return kept;
}

enum bt_link_verdict bt_link_rx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, struct bt_txq *out)
{
    pkt->t_rx_ns = now;
    return bt_link_rx_burst(l, &pkt, 1, out) == 1 ? BT_LINK_UDP : BT_LINK_TAKEN;
}

bool bt_link_tcp_flow(const uint8_t *frame, uint32_t len, uint32_t *hash)
{
    struct bt_ip ip;
    if (len < BT_ETHER_HEAD) {
        return false;
    }
    uint16_t type = bt_get16(frame + 12);
    bool v4 = type == BT_ETHER_IP4;
    frame += BT_ETHER_HEAD;
    len -= BT_ETHER_HEAD;
    if ((!v4 && type != BT_ETHER_IP6) ||
        (v4 ? bt_ip4_judge(frame, len, false, &ip) : bt_ip6_judge(frame, len, &ip)) != BT_FRAME_OK ||
        ip.proto != BT_PROTO_TCP || ip.body_len < 4) {
        return false;
    }
    bt_addr_set_port(&ip.src, bt_get16(ip.body));
    bt_addr_set_port(&ip.dst, bt_get16(ip.body + 2));
    *hash = bt_toeplitz(&ip.src, &ip.dst);
    return true;
}

enum bt_link_steer bt_link_steer(const uint8_t *frame, uint32_t len, uint16_t *udp_port)
{
    struct bt_ip ip;
    if (len < BT_ETHER_HEAD) {
        return BT_LINK_STEER_FIRST;
    }
    uint16_t type = bt_get16(frame + 12);
    frame += BT_ETHER_HEAD;
    len -= BT_ETHER_HEAD;
    if (type == BT_ETHER_ARP) {
        return BT_LINK_STEER_EVERY;
    }
    if (type != BT_ETHER_IP4 && type != BT_ETHER_IP6) {
        return BT_LINK_STEER_FIRST;
    }
    if ((type == BT_ETHER_IP4 ? bt_ip4_judge(frame, len, false, &ip) : bt_ip6_judge(frame, len, &ip)) != BT_FRAME_OK) {
        return BT_LINK_STEER_FIRST;
    }
    if (ip.proto == (ip.v4 ? BT_PROTO_ICMP4 : BT_PROTO_ICMP6)) {
        return bt_icmp_is_error(&ip) || is_discovery(&ip) ? BT_LINK_STEER_EVERY : BT_LINK_STEER_FIRST;
    }
    if (ip.proto != BT_PROTO_UDP || bt_udp_judge(&ip, false) != BT_FRAME_OK) {
        return BT_LINK_STEER_FIRST;
    }
    *udp_port = ip.dst.port;
    return BT_LINK_STEER_PORT;
}
