// SPDX-License-Identifier: Apache-2.0
// Neighbour discovery (RFC 4861) of a host that is told its addresses and routers: solicitations and advertisements,
// no router advertisements, no redirects.
#include "link/internal.h"

enum { FRAME_BYTES = BT_ETHER_HEAD + BT_IP6_HEAD + BT_ND_BYTES };

static const struct bt_addr all_nodes = {.ip = {0xff, 0x02, [15] = 1}};

// Where a message goes. mac NULL: to the group that dst is.
struct nd_way {
    const struct bt_addr *src, *dst;
    const uint8_t *mac;
};

static void finish(struct bt_link *l, struct bt_pkt *pkt, const struct nd_way *way, struct bt_nd *nd,
                   struct bt_txq *out)
{
    uint8_t group_mac[6];
    const uint8_t *to_mac = way->mac;
    if (to_mac == NULL) {
        bt_ip6_group_mac(way->dst, group_mac);
        to_mac = group_mac;
    }
    memcpy(nd->mac, l->mac, 6);
    bt_ether_write(pkt->data, to_mac, l->mac, BT_ETHER_IP6);
    bt_ip6_write(pkt->data + BT_ETHER_HEAD, way->src, way->dst, BT_PROTO_ICMP6, BT_ND_TTL, BT_ND_BYTES);
    bt_nd_write(pkt->data + BT_ETHER_HEAD + BT_IP6_HEAD, way->src, way->dst, nd);
    pkt->offload = 0;
    l->counters[BT_LINK_TX_NDP]++;
    link_push(l, out, pkt);
}

static void answer(struct bt_link *l, struct bt_pkt *pkt, const struct bt_ip *ip, const struct bt_addr *target,
                   struct bt_txq *out)
{
    static const uint8_t unspecified[16];
    bool probe = memcmp(ip->src.ip, unspecified, 16) == 0; // it checks whether the address is free: tell everybody
    struct bt_nd nd = {.advertisement = true, .solicited = !probe, .override = true, .target = *target};
    uint8_t mac[6];
    memcpy(mac, pkt->data + 6, 6);
    if (link_resize(pkt, FRAME_BYTES)) {
        struct nd_way way = {.src = target, .dst = probe ? &all_nodes : &ip->src, .mac = probe ? NULL : mac};
        finish(l, pkt, &way, &nd, out);
    } else {
        link_drop(l, pkt, BT_LINK_TX_NO_BUFFER);
    }
}

static void take_solicitation(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip,
                              const struct bt_nd *nd, struct bt_txq *out)
{
    struct bt_addr group = bt_ip6_solicited_node(&nd->target);
    const struct own_addr *own = link_own(l, &nd->target);
    if (own == NULL || (!bt_addr_ip_eq(&ip->dst, &own->addr) && !bt_addr_ip_eq(&ip->dst, &group))) {
        link_drop(l, pkt, BT_LINK_DROP_ADDRESS);
        return;
    }
    l->counters[BT_LINK_RX_NDP]++;
    if (link_own(l, &ip->src) != NULL) {
        link_conflict(l, now);
    } else if (nd->has_mac) {
        struct neigh *n = link_neigh_find(l, &ip->src);
        if (n != NULL) {
            link_neigh_hear(l, now, n, nd->mac, out);
        } else {
            link_neigh_stranger(l, now, &ip->src, nd->mac);
        }
    }
    if (l->secondary) {
        bt_pool_put(l->pool, pkt);
    } else {
        answer(l, pkt, ip, &own->addr, out);
    }
}

// RFC 4861 §7.2.5.
static void take_advertisement(struct bt_link *l, uint64_t now, const struct bt_nd *nd, struct bt_txq *out)
{
    if (link_own(l, &nd->target) != NULL) {
        link_conflict(l, now);
        return;
    }
    struct neigh *n = link_neigh_find(l, &nd->target);
    if (n == NULL || n->state == NEIGH_STATIC) {
        return;
    }
    bool unknown = n->state == NEIGH_INCOMPLETE || n->state == NEIGH_FAILED;
    if (unknown && !nd->has_mac) {
        return;
    }
    const uint8_t *mac = nd->has_mac ? nd->mac : n->mac;
    if (!unknown && !nd->override && memcmp(mac, n->mac, 6) != 0) {
        link_neigh_doubt(l, now, n);
    } else if (nd->solicited) {
        link_neigh_confirm(l, now, n, mac, out);
    } else {
        link_neigh_hear(l, now, n, mac, out);
    }
}

// A querier is a router of this link (RFC 3810 §6.2): hop limit 1 and a link-local source.
static void take_query(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip)
{
    if (ip->ttl != 1 || ip->src.ip[0] != 0xfe || (ip->src.ip[1] & 0xc0) != 0x80) {
        link_drop(l, pkt, BT_LINK_DROP_NDP);
        return;
    }
    link_report_soon(l, now);
    l->counters[BT_LINK_RX_NDP]++;
    bt_pool_put(l->pool, pkt);
}

void link_ndp_rx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip, struct bt_txq *out)
{
    struct bt_nd nd;
    if (!bt_icmp_judge(ip)) {
        link_drop(l, pkt, BT_LINK_DROP_NDP);
        return;
    }
    if (ip->body[0] == BT_ICMP6_LISTENER_QUERY) {
        take_query(l, now, pkt, ip);
        return;
    }
    if (!bt_nd_judge(ip, &nd) || (nd.has_mac && memcmp(nd.mac, l->mac, 6) == 0)) { // nobody else lives there
        link_drop(l, pkt, BT_LINK_DROP_NDP);
        return;
    }
    if (ip->body[0] == BT_ICMP6_NEIGHBOUR_SOLICITATION) {
        take_solicitation(l, now, pkt, ip, &nd, out);
        return;
    }
    l->counters[BT_LINK_RX_NDP]++;
    take_advertisement(l, now, &nd, out);
    bt_pool_put(l->pool, pkt);
}

void link_ndp_ask(struct bt_link *l, const struct bt_addr *source, const struct bt_addr *target, const uint8_t *to_mac,
                  struct bt_txq *out)
{
    struct bt_pkt *pkt = link_make(l, FRAME_BYTES);
    if (pkt == NULL) {
        return;
    }
    struct bt_nd nd = {.target = *target};
    struct bt_addr group = bt_ip6_solicited_node(target);
    struct nd_way way = {.src = source, .dst = to_mac != NULL ? target : &group, .mac = to_mac};
    finish(l, pkt, &way, &nd, out);
}

void link_ndp_announce(struct bt_link *l, const struct bt_addr *own, struct bt_txq *out)
{
    struct bt_pkt *pkt = link_make(l, FRAME_BYTES);
    if (pkt == NULL) {
        return;
    }
    struct bt_nd nd = {.advertisement = true, .override = true, .target = *own};
    finish(l, pkt, &(struct nd_way){.src = own, .dst = &all_nodes}, &nd, out);
}
