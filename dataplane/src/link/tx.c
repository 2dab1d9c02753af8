// SPDX-License-Identifier: Apache-2.0
// The way out: source, route and headers of one UDP payload; then it is the neighbour's.
#include "link/internal.h"

#include <errno.h>

// Somebody a datagram can be sent to. `on`: the own prefix that covers dst, or NULL.
static bool is_peer(const struct bt_link *l, const struct bt_addr *dst, const struct own_addr *on)
{
    return !bt_addr_bad_source(dst) && link_own(l, dst) == NULL &&
           !(on != NULL && bt_addr_ip_eq(dst, &on->broadcast)) && !(bt_addr_is_v4(dst) && dst->ip[12] == 127);
}

// The own address that a packet to `dst` by next hop `hop` leaves from, when the port is bound to none.
static const struct own_addr *choose_source(const struct bt_link *l, const struct bt_pkt *pkt,
                                            const struct bt_addr *hop)
{
    bool v4 = bt_addr_is_v4(&pkt->dst);
    const struct own_addr *own = link_own(l, &pkt->src); // where the request this answers arrived
    if (own != NULL && bt_addr_is_v4(&own->addr) == v4) {
        return own;
    }
    own = link_on_link(l, hop);
    bool near = own != NULL && (!own->link_local || (pkt->dst.ip[0] == 0xfe && (pkt->dst.ip[1] & 0xc0) == 0x80));
    for (unsigned i = 0; !near && i < l->n_own; i++) {
        own = &l->own[i];
        near = bt_addr_is_v4(&own->addr) == v4 && !own->link_local;
    }
    return near ? own : NULL;
}

static bool source_of(const struct bt_link *l, const struct bt_pkt *pkt, const struct bt_addr *hop, struct bt_addr *src)
{
    if (pkt->tx_as_src) {
        *src = pkt->src;
        return !bt_addr_bad_source(src) && bt_addr_is_v4(src) == bt_addr_is_v4(&pkt->dst);
    }
    const struct local_port *p = &l->locals[pkt->local];
    *src = p->addr;
    if (!p->any) {
        return bt_addr_is_v4(src) == bt_addr_is_v4(&pkt->dst);
    }
    const struct own_addr *own = choose_source(l, pkt, hop);
    if (own != NULL) {
        *src = own->addr;
        src->port = p->addr.port;
    }
    return own != NULL && bt_addr_is_v4(&p->addr) == bt_addr_is_v4(&pkt->dst);
}

// Where the frame goes: to dst itself or to a gateway. False: off-link and no gateway.
static bool next_hop(const struct bt_link *l, const struct bt_addr *dst, bool on_link, struct bt_addr *hop)
{
    bool v4 = bt_addr_is_v4(dst);
    *hop = on_link ? *dst : v4 ? l->gateway4 : l->gateway6;
    hop->port = 0;
    return on_link || (v4 ? l->has_gateway4 : l->has_gateway6);
}

// Puts Ethernet, IP and UDP headers in front; the destination MAC stays open. False: no room.
static bool put_headers(const struct bt_link *l, struct bt_pkt *pkt, const struct bt_addr *src, uint8_t ttl)
{
    static const uint8_t later[6];
    bool v4 = bt_addr_is_v4(&pkt->dst);
    uint32_t head = v4 ? BT_IP4_HEAD : BT_IP6_HEAD, len = pkt->len;
    uint8_t *p = bt_pkt_push(pkt, BT_ETHER_HEAD + head + BT_UDP_HEAD);
    if (p == NULL) {
        return false;
    }
    bt_ether_write(p, later, l->mac, v4 ? BT_ETHER_IP4 : BT_ETHER_IP6);
    p += BT_ETHER_HEAD;
    if (v4) {
        pkt->offload = l->tx_offload4;
        if (l->tx_ip_sum) {
            bt_ip4_write_unsummed(p, src, &pkt->dst, BT_PROTO_UDP, ttl, len + BT_UDP_HEAD);
        } else {
            bt_ip4_write(p, src, &pkt->dst, BT_PROTO_UDP, ttl, len + BT_UDP_HEAD);
        }
    } else {
        pkt->offload = l->tx_udp_sum ? BT_PKT_TX_UDP_SUM : 0;
        bt_ip6_write(p, src, &pkt->dst, BT_PROTO_UDP, ttl, len + BT_UDP_HEAD);
    }
    enum bt_udp_sum none = l->tx_no_udp_sum && v4 ? BT_UDP_SUM_NONE : BT_UDP_SUM_FULL;
    bt_udp_write(p + head, src, &pkt->dst, len, l->tx_udp_sum ? BT_UDP_SUM_PARTIAL : none);
    return true;
}

static void refuse(struct bt_link *l, struct bt_pkt *pkt, enum bt_link_counter why, int error, uint16_t mtu)
{
    link_event(l, &pkt->dst, pkt->local, error, mtu);
    link_drop(l, pkt, why);
}

__attribute__((noinline)) static void send_any(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, struct bt_txq *out)
{
    struct bt_addr hop, src;
    const struct own_addr *on = link_on_link(l, &pkt->dst);
    uint8_t ttl = pkt->tx_as_src ? link_ttl_after_hop(pkt->ttl) : BT_TTL;
    uint32_t heads = (bt_addr_is_v4(&pkt->dst) ? BT_IP4_HEAD : BT_IP6_HEAD) + BT_UDP_HEAD;
    if ((!pkt->tx_as_src && pkt->local >= l->n_locals) || !is_peer(l, &pkt->dst, on)) {
        link_drop(l, pkt, BT_LINK_TXDROP_BAD_ADDRESS);
    } else if (!next_hop(l, &pkt->dst, on != NULL, &hop)) {
        refuse(l, pkt, BT_LINK_TXDROP_NO_ROUTE, ENETUNREACH, 0);
    } else if (!source_of(l, pkt, &hop, &src)) {
        link_drop(l, pkt, BT_LINK_TXDROP_BAD_ADDRESS);
    } else if (pkt->len + heads > l->mtu) {
        refuse(l, pkt, BT_LINK_TXDROP_TOO_LONG, EMSGSIZE, l->mtu);
    } else if (ttl == 0) {
        link_drop(l, pkt, BT_LINK_TXDROP_TTL);
    } else if (!put_headers(l, pkt, &src, ttl)) {
        link_drop(l, pkt, BT_LINK_TXDROP_NO_ROOM);
    } else {
        struct neigh *n = link_neigh_want(l, now, &hop);
        if (n != NULL) {
            link_plain_remember(l, &pkt->dst, n);
            link_neigh_send(l, now, n, pkt, out);
        } else {
            link_drop(l, pkt, BT_LINK_TXDROP_TABLE_FULL);
        }
    }
}

// Whether pkt is a packet of its next hop's family, and whether its own destination is that hop.
static bool is_whole(const struct bt_pkt *pkt, bool *named)
{
    bool v4 = bt_addr_is_v4(&pkt->dst);
    uint32_t head = v4 ? BT_IP4_HEAD : BT_IP6_HEAD;
    if (pkt->len < head || pkt->data[0] >> 4 != (v4 ? 4 : 6)) {
        return false;
    }
    *named = v4 ? memcmp(pkt->data + 16, pkt->dst.ip + 12, 4) == 0 : memcmp(pkt->data + 24, pkt->dst.ip, 16) == 0;
    return true;
}

// A finished packet to next hop pkt->dst. One whose own destination is another address than the hop's must find the hop
// on this network: a gateway would send it straight back (E-22).
__attribute__((noinline)) static void send_whole(struct bt_link *l, uint64_t now, struct bt_pkt *pkt,
                                                 struct bt_txq *out)
{
    static const uint8_t later[6];
    struct bt_addr hop;
    const struct own_addr *on = link_on_link(l, &pkt->dst);
    bool named;
    pkt->dst.port = 1; // is_peer() looks at it
    if (!is_whole(pkt, &named) || !is_peer(l, &pkt->dst, on)) {
        link_drop(l, pkt, BT_LINK_TXDROP_BAD_ADDRESS);
    } else if ((!named && on == NULL) || !next_hop(l, &pkt->dst, on != NULL, &hop)) {
        refuse(l, pkt, BT_LINK_TXDROP_NO_ROUTE, ENETUNREACH, 0);
    } else if (pkt->len > l->mtu) {
        refuse(l, pkt, BT_LINK_TXDROP_TOO_LONG, EMSGSIZE, l->mtu);
    } else if (bt_pkt_push(pkt, BT_ETHER_HEAD) == NULL) {
        link_drop(l, pkt, BT_LINK_TXDROP_NO_ROOM);
    } else {
        bt_ether_write(pkt->data, later, l->mac, bt_addr_is_v4(&pkt->dst) ? BT_ETHER_IP4 : BT_ETHER_IP6);
        pkt->offload = 0;
        struct neigh *n = link_neigh_want(l, now, &hop);
        if (n != NULL) {
            link_neigh_send(l, now, n, pkt, out);
        } else {
            link_drop(l, pkt, BT_LINK_TXDROP_TABLE_FULL);
        }
    }
}

void bt_link_tx_burst(struct bt_link *l, uint64_t now, struct bt_txq *q, struct bt_txq *out)
{
    struct bt_pkt *next;
    for (struct bt_pkt *pkt = q->head; pkt != NULL; pkt = next) {
        next = pkt->next;
        pkt->next = NULL;
        if (l->takes_tcp && pkt->local == l->n_locals) {
            send_whole(l, now, pkt, out);
        } else if (!link_plain_tx(l, now, pkt, out)) {
            send_any(l, now, pkt, out);
        }
    }
    bt_txq_init(q);
}

void bt_link_tx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, struct bt_txq *out)
{
    struct bt_txq one;
    bt_txq_init(&one);
    bt_txq_push(&one, pkt);
    bt_link_tx_burst(l, now, &one, out);
}
