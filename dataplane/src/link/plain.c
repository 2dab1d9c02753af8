// SPDX-License-Identifier: Apache-2.0
// The short way for what nearly every frame is: IPv4 and UDP, in order, between an honest peer and our one IPv4
// address, by a route and to a neighbour already found. A frame is held against a few constants, eight bytes at a
// time, and written from registers. Whatever that does not settle takes the long way (rx.c, tx.c), which alone knows
// reasons; both ways give the same packets (tests/link/test_plain.c).
#include "link/internal.h"

#include "base/bytes.h"
#include "wire/checksum.h"

enum { PLAIN_HEADS = BT_ETHER_HEAD + BT_IP4_HEAD + BT_UDP_HEAD, IP_AND_UDP = BT_IP4_HEAD + BT_UDP_HEAD };

// Neighbours that frames are sent to at once.
#define DIRECT (1u << NEIGH_REACHABLE | 1u << NEIGH_PROBE | 1u << NEIGH_STATIC)

static uint32_t ip_number(const struct bt_addr *a)
{
    return bt_get32(a->ip + 12);
}

// Of the first 24 bytes of a plain frame: which bits say so, and what they are. The receiver is us and the sender no
// group (E-1); IPv4 without options (E-2, E-3); no fragment, UDP.
static void init_pattern(struct link_plain *plain, const uint8_t mac[6])
{
    static const uint8_t mask[24] = {
        [0] = 255, 255, 255, 255, 255, 255, 1, [12] = 255, 255, 255, [20] = 0x3f, 255, [23] = 255};
    uint8_t want[24] = {[12] = BT_ETHER_IP4 >> 8, BT_ETHER_IP4 & 255, 0x45, [23] = BT_PROTO_UDP};
    memcpy(want, mac, 6);
    memcpy(plain->mask, mask, sizeof mask);
    memcpy(&plain->mac_mask, mask, 6);
    memcpy(plain->want, want, sizeof want);
}

void link_plain_init(struct bt_link *l)
{
    struct link_plain *plain = &l->plain;
    unsigned n4 = 0;
    for (unsigned i = 0; i < l->n_own; i++) {
        if (bt_addr_is_v4(&l->own[i].addr)) {
            n4++;
            plain->own = l->own[i].addr;
            plain->broadcast = ip_number(&l->own[i].broadcast); // 0 if it has none
        }
    }
    plain->on = n4 == 1;
    init_pattern(plain, l->mac);
    memcpy(plain->head, l->mac, 6);
    bt_put16(plain->head + 6, BT_ETHER_IP4);
    bt_put16(plain->head + 8, 0x4500);
    plain->epoch = 1; // no route is of it
    for (unsigned i = 0; i < l->n_locals; i++) {
        struct local_port *p = &l->locals[i];
        struct bt_addr here = plain->own;
        here.port = p->addr.port;
        p->takes_plain = link_find_local(l, &here) == i;
        p->sends_plain = !p->any && bt_addr_is_v4(&p->addr);
    }
}

// --- in

// The long way refuses these: 0/8, 127/8, 224/3, our own address and our network's broadcast address.
static inline bool honest(const struct link_plain *plain, uint32_t src)
{
    uint32_t net = src >> 24;
    return net - 1 < 223 && net != 127 && src != ip_number(&plain->own) && src != plain->broadcast;
}

static inline bool sums_ok(const struct bt_link *l, const struct bt_pkt *pkt, uint32_t udp_len, bool *unfinished)
{
    const uint8_t *ip = pkt->data + BT_ETHER_HEAD, *udp = ip + BT_IP4_HEAD;
    if ((pkt->offload & (BT_PKT_RX_IP_BAD | BT_PKT_RX_L4_BAD)) != 0) {
        return false;
    }
    if (l->rx_trusted) {
        return true;
    }
    if ((pkt->offload & BT_PKT_RX_IP_OK) == 0 && !bt_csum_ok(bt_csum_bytes(0, ip, BT_IP4_HEAD))) {
        return false;
    }
    if ((pkt->offload & BT_PKT_RX_L4_OK) != 0 || bt_get16(udp + 6) == 0) {
        return true;
    }
    uint64_t sum = bt_csum_add(bt_csum_bytes(0, ip + 12, 8), (uint64_t)htobe32(udp_len) + htobe32(BT_PROTO_UDP));
    if (l->rx_unfinished && bt_csum_is_partial(udp + 6, sum)) {
        *unfinished = true;
        return true;
    }
    return bt_csum_ok(bt_csum_bytes(sum, udp, udp_len));
}

static inline uint64_t word(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline bool looks_plain(const struct link_plain *plain, const uint8_t *p)
{
    uint64_t differs = (word(p) ^ plain->want[0]) & plain->mask[0];
    differs |= (word(p + 8) ^ plain->want[1]) & plain->mask[1];
    differs |= (word(p + 16) ^ plain->want[2]) & plain->mask[2];
    differs |= bt_get32(p + 30) ^ ip_number(&plain->own);                // E-5
    bool echo = ((word(p + 6) ^ plain->want[0]) & plain->mac_mask) == 0; // our own frame came back (E-1)
    return differs == 0 && !echo;
}

bool link_plain_rx(struct bt_link *l, struct bt_pkt *pkt)
{
    const uint8_t *p = pkt->data;
    if (!l->plain.on || pkt->len < PLAIN_HEADS || !looks_plain(&l->plain, p)) {
        return false;
    }
    uint64_t ports = bt_get64(p + 34);
    uint32_t total = bt_get16(p + 16), udp_len = (uint32_t)(ports >> 16) & 0xffff;
    bool unfinished = false;
    if (total + BT_ETHER_HEAD > pkt->len || udp_len < BT_UDP_HEAD || udp_len + BT_IP4_HEAD > total ||
        ports >> 48 == 0 || !honest(&l->plain, bt_get32(p + 26)) || !sums_ok(l, pkt, udp_len, &unfinished)) {
        return false;
    }
    uint16_t to = (uint16_t)(ports >> 32);
    uint32_t local = l->port_buckets[to & l->port_mask];
    if (local == 0 || l->locals[local - 1].addr.port != to || !l->locals[local - 1].takes_plain) {
        return false;
    }
    uint32_t space = pkt->len + pkt->room_after - PLAIN_HEADS;
    pkt->data += PLAIN_HEADS;
    pkt->room_before += PLAIN_HEADS;
    pkt->len = udp_len - BT_UDP_HEAD;
    pkt->room_after = space - pkt->len;
    pkt->src = bt_addr_v4(p + 26, (uint16_t)(ports >> 48));
    pkt->dst = l->plain.own;
    bt_addr_set_port(&pkt->dst, to);
    pkt->local = (uint16_t)(local - 1);
    pkt->ttl = p[22];
    pkt->offload = 0;
    pkt->tx_as_src = 0;
    pkt->next = NULL;
    l->counters[BT_LINK_RX_UDP]++;
    l->counters[BT_LINK_RX_UNFINISHED] += unfinished;
    return true;
}

// --- out

static inline struct link_route *route_of(struct link_plain *plain, uint32_t dst)
{
    return &plain->routes[(dst * UINT32_C(0x9e3779b1)) >> (32 - LINK_ROUTE_BITS)];
}

void link_plain_remember(struct bt_link *l, const struct bt_addr *dst, const struct neigh *n)
{
    if (bt_addr_is_v4(dst)) {
        *route_of(&l->plain, ip_number(dst)) =
            (struct link_route){.dst = ip_number(dst), .neigh = (uint32_t)(n - l->neigh), .epoch = l->plain.epoch};
    }
}

void link_plain_forget(struct bt_link *l)
{
    l->plain.epoch++;
}

// The neighbour that leads to dst, if it was found before and can be sent to at once.
static inline struct neigh *next_of(struct bt_link *l, const struct bt_addr *dst)
{
    const struct link_route *route = route_of(&l->plain, ip_number(dst));
    struct neigh *n = &l->neigh[route->neigh];
    bool known = bt_addr_is_v4(dst) && route->dst == ip_number(dst) && route->epoch == l->plain.epoch;
    return known && (DIRECT >> n->state & 1) != 0 && dst->port != 0 ? n : NULL;
}

// The source a packet leaves with, NULL if that takes thought.
static inline const struct bt_addr *source_of(const struct bt_link *l, const struct bt_pkt *pkt)
{
    if (pkt->tx_as_src) {
        return bt_addr_is_v4(&pkt->src) && !bt_addr_bad_source(&pkt->src) ? &pkt->src : NULL;
    }
    return pkt->local < l->n_locals && l->locals[pkt->local].sends_plain ? &l->locals[pkt->local].addr : NULL;
}

// Eight bytes each, in network order: from the total length to the protocol, and the UDP header without its sum.
static inline void put_headers(const struct bt_link *l, struct bt_pkt *pkt, uint8_t *p, uint32_t src, uint8_t ttl,
                               uint16_t from)
{
    uint32_t dst = ip_number(&pkt->dst), udp_len = pkt->len - BT_ETHER_HEAD - BT_IP4_HEAD;
    uint32_t total = udp_len + BT_IP4_HEAD;
    uint32_t life = (uint32_t)ttl << 8 | BT_PROTO_UDP;
    uint32_t addrs = (src >> 16) + (src & 0xffff) + (dst >> 16) + (dst & 0xffff);
    uint32_t sum = 0x4500 + total + BT_IP4_DONT_FRAGMENT + life + addrs;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    bt_put64(p + 16, (uint64_t)total << 48 | (uint64_t)BT_IP4_DONT_FRAGMENT << 16 | life);
    bt_put64(p + 24, (uint64_t)(l->tx_ip_sum ? 0 : ~sum & 0xffff) << 48 | (uint64_t)src << 16 | dst >> 16);
    bt_put16(p + 32, (uint16_t)dst);
    bt_put64(p + 34, (uint64_t)from << 48 | (uint64_t)pkt->dst.port << 32 | (uint64_t)udp_len << 16);
    if (l->tx_udp_sum) { // the device adds the rest
        uint64_t pseudo = (uint64_t)addrs + udp_len + BT_PROTO_UDP;
        pseudo = (pseudo & 0xffff) + (pseudo >> 16);
        bt_put16(p + 40, (uint16_t)((pseudo & 0xffff) + (pseudo >> 16)));
    } else if (!l->tx_no_udp_sum) {
        uint64_t pseudo = bt_csum_add(bt_csum_bytes(0, p + 26, 8), (uint64_t)htobe32(udp_len) + htobe32(BT_PROTO_UDP));
        bt_csum_store_udp(p + 40, bt_csum_bytes(pseudo, p + 34, udp_len));
    }
}

bool link_plain_tx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, struct bt_txq *out)
{
    const struct bt_addr *src = source_of(l, pkt);
    struct neigh *n = next_of(l, &pkt->dst);
    uint8_t ttl = pkt->tx_as_src ? link_ttl_after_hop(pkt->ttl) : BT_TTL;
    if (!l->plain.on || src == NULL || n == NULL || ttl == 0 || pkt->len + IP_AND_UDP > l->mtu ||
        pkt->room_before < PLAIN_HEADS) {
        return false;
    }
    uint8_t *p = bt_pkt_push(pkt, PLAIN_HEADS);
    memcpy(p, n->mac, 6);
    memcpy(p + 6, l->plain.head, sizeof l->plain.head);
    pkt->offload = l->tx_offload4;
    put_headers(l, pkt, p, ip_number(src), ttl, src->port);
    n->used_ns = now;
    l->counters[BT_LINK_TX_UDP]++;
    link_push(l, out, pkt);
    return true;
}
