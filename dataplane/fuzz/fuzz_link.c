// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the Ethernet port: the input is a story of frames (raw, well-formed, or nearly), of payloads to send
// and of time, told by stations that lie. After every sentence nothing may be lost, unbounded or malformed. Some
// stories are of a balancer's port, which takes TCP whole and sends it on (E-22). tests/link/test_garbage.c tells
// random stories.
#include "base/bytes.h"
#include "input.h"
#include "link/internal.h"
#include "wire/checksum.h"

#define PACKETS     72u
#define NEIGHBOURS  16u
#define QUEUE       3u
#define MILLISECOND UINT64_C(1000000)

enum { LOCALS = 3 }; // and the local port of whole packets

struct story {
    struct input in;
    struct bt_link *l;
    struct bt_pool_fixed fixed;
    struct bt_pool *pool;
    uint64_t now, frames, payloads;
    uint8_t asked[128]; // the last request for a MAC that was sent
    uint32_t asked_len;
};

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 2};

// A small world, so that stories meet the same stations again: ours, neighbours, strangers, groups, nonsense.
static struct bt_addr some_v4(uint8_t b)
{
    static const uint32_t odd[] = {0,          0xffffffff, 0x0a0000ff, 0xe0000001, 0x7f000001, 0x0a000001,
                                   0x0a000002, 0x0a000002, 0x0a000002, 0xc0a80001, 0x00000005, 0x0a000003};
    return bt_addr_v4u(b < 96 ? odd[b % 12] : 0x0a000000u + 4 + b % 64u, 0);
}

static struct bt_addr some_v6(uint8_t b)
{
    static const struct bt_addr odd[] = {
        {.ip = {0}},
        {.ip = {[15] = 1}},
        {.ip = {0xff, 2, [15] = 1}},
        {.ip = {0xff, 2, [11] = 1, 0xff, 0, 0, 2}},
        {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 2}},
        {.ip = {0xfe, 0x80, [8] = 0, 0, 0, 0xff, 0xfe, 0, 0, 2}},
        {.ip = {0xfe, 0x80, [15] = 1}},
        {.ip = {0xfd, [15] = 2}},
        {.ip = {0xfd, [15] = 2}},
        {.ip = {0xfd, [15] = 2}},
        {.ip = {0xfc, [15] = 9}},
        {.ip = {0xff, 5, [15] = 3}},
    };
    return b < 96 ? odd[b % 12] : (struct bt_addr){.ip = {0xfd, [15] = (uint8_t)(4 + b % 64)}};
}

static void some_mac(uint8_t b, uint8_t mac[6])
{
    memset(mac, 0, 6);
    mac[0] = 2;
    mac[5] = b % 16u;
    if (b > 240) {
        memset(mac, b > 248 ? 0xff : 0, 6);
    }
}

static struct bt_pkt *frame_for_us(struct story *s, uint16_t type, uint32_t body, uint8_t to)
{
    struct bt_pkt *pkt = bt_pool_get(s->pool);
    CHECK(pkt != NULL);
    uint8_t *p = bt_pkt_append(pkt, BT_ETHER_HEAD + body);
    CHECK(p != NULL);
    memset(p, 0, BT_ETHER_HEAD + body);
    some_mac(in8(&s->in), p + 6);
    memcpy(p, our_mac, 6);
    if (to > 200) {
        memset(p, to > 220 ? 0xff : 0x33, 6);
    }
    bt_put16(p + 12, type);
    return pkt;
}

static struct bt_pkt *raw(struct story *s)
{
    static const uint16_t types[] = {BT_ETHER_ARP, BT_ETHER_IP4, BT_ETHER_IP6, BT_ETHER_VLAN};
    uint32_t len = in8(&s->in);
    uint8_t how = in8(&s->in);
    struct bt_pkt *pkt = frame_for_us(s, types[how & 3u], 0, how);
    len = len < s->in.left ? len : (uint32_t)s->in.left;
    memcpy(bt_pkt_append(pkt, len), s->in.p, len);
    s->in.p += len;
    s->in.left -= len;
    if (how > 250) {
        link_resize(pkt, how - 251u); // shorter than an Ethernet header
    }
    return pkt;
}

static struct bt_pkt *arp(struct story *s)
{
    struct bt_pkt *pkt = frame_for_us(s, BT_ETHER_ARP, BT_ARP_BYTES + 18u, in8(&s->in));
    struct bt_arp a = {.reply = in8(&s->in) & 1, .sender = some_v4(in8(&s->in)), .target = some_v4(in8(&s->in))};
    some_mac(in8(&s->in), a.sender_mac);
    bt_arp_write(pkt->data + BT_ETHER_HEAD, &a, our_mac);
    return pkt;
}

static void store_icmp(uint8_t *ip, uint32_t head, uint32_t body)
{
    struct bt_addr src = {.port = 0}, dst = {.port = 0};
    memcpy(src.ip, ip + 8, 16);
    memcpy(dst.ip, ip + 24, 16);
    uint64_t sum = head == BT_IP6_HEAD ? bt_pseudo_sum(&src, &dst, BT_PROTO_ICMP6, body) : 0;
    bt_put16(ip + head + 2, 0);
    bt_csum_store(ip + head + 2, bt_csum_bytes(sum, ip + head, body));
}

static struct bt_pkt *discovery(struct story *s)
{
    struct bt_pkt *pkt = frame_for_us(s, BT_ETHER_IP6, BT_IP6_HEAD + BT_ND_BYTES, in8(&s->in));
    struct bt_addr src = some_v6(in8(&s->in)), dst = some_v6(in8(&s->in));
    uint8_t flags = in8(&s->in), *ip = pkt->data + BT_ETHER_HEAD;
    struct bt_nd nd = {
        .advertisement = flags & 1, .solicited = flags & 2, .override = flags & 4, .target = some_v6(in8(&s->in))};
    some_mac(in8(&s->in), nd.mac);
    bt_ip6_write(ip, &src, &dst, BT_PROTO_ICMP6, flags > 250 ? 64 : BT_ND_TTL, BT_ND_BYTES);
    bt_nd_write(ip + BT_IP6_HEAD, &src, &dst, &nd);
    if ((flags & 0x30) == 0x30) { // an odd type, or options that do not add up
        ip[BT_IP6_HEAD + 24 + (flags & 1)] = flags & 0x40 ? 0 : 3;
        store_icmp(ip, BT_IP6_HEAD, BT_ND_BYTES);
    }
    return pkt;
}

static struct bt_pkt *datagram(struct story *s)
{
    bool v4 = in8(&s->in) & 1;
    uint32_t head = v4 ? BT_IP4_HEAD : BT_IP6_HEAD, len = in_length(&s->in) % 1400u;
    struct bt_pkt *pkt = frame_for_us(s, v4 ? BT_ETHER_IP4 : BT_ETHER_IP6, head + BT_UDP_HEAD + len, in8(&s->in));
    struct bt_addr src = v4 ? some_v4(in8(&s->in)) : some_v6(in8(&s->in));
    struct bt_addr dst = v4 ? some_v4(in8(&s->in)) : some_v6(in8(&s->in));
    src.port = in8(&s->in);
    dst.port = (uint16_t)(7998 + in8(&s->in) % 8u);
    uint8_t *ip = pkt->data + BT_ETHER_HEAD, odd = in8(&s->in);
    uint8_t proto = odd % 16u == 11 ? BT_PROTO_TCP : BT_PROTO_UDP;
    if (v4) {
        bt_ip4_write(ip, &src, &dst, proto, 64, BT_UDP_HEAD + len);
    } else {
        bt_ip6_write(ip, &src, &dst, proto, 64, BT_UDP_HEAD + len);
    }
    bt_udp_write(ip + head, &src, &dst, len, odd != 7 ? BT_UDP_SUM_FULL : BT_UDP_SUM_PARTIAL);
    if (odd > 128) { // one wrong byte in the headers
        ip[odd % (head + BT_UDP_HEAD)] ^= (uint8_t)(1u << (odd & 7u));
    }
    if (v4 && odd > 192) {
        bt_put16(ip + 10, 0);
        bt_csum_store(ip + 10, bt_csum_bytes(0, ip, BT_IP4_HEAD));
    }
    if (proto == BT_PROTO_TCP) {
        memset(bt_pkt_append(pkt, odd / 16u), 0xee, odd / 16u); // Ethernet padding
    }
    pkt->offload = odd == 9 ? in8(&s->in) & 15u : 0;
    return pkt;
}

// Echo, or an error that quotes something like a packet of ours.
static struct bt_pkt *icmp(struct story *s)
{
    bool v4 = in8(&s->in) & 1;
    uint32_t head = v4 ? BT_IP4_HEAD : BT_IP6_HEAD, quoted = in8(&s->in) % 64u, body = BT_ICMP_HEAD + quoted;
    struct bt_pkt *pkt = frame_for_us(s, v4 ? BT_ETHER_IP4 : BT_ETHER_IP6, head + body, in8(&s->in));
    struct bt_addr src = v4 ? some_v4(in8(&s->in)) : some_v6(in8(&s->in));
    struct bt_addr dst = v4 ? some_v4(in8(&s->in)) : some_v6(in8(&s->in));
    struct bt_addr local = {.port = 8002};
    uint8_t *ip = pkt->data + BT_ETHER_HEAD, inner[64] = {0};
    if (v4) {
        bt_ip4_write(ip, &src, &dst, BT_PROTO_ICMP4, 64, body);
        bt_ip4_write(inner, &dst, &src, BT_PROTO_UDP, 64, BT_UDP_HEAD);
        bt_put16(inner + BT_IP4_HEAD, local.port);
    } else {
        bt_ip6_write(ip, &src, &dst, BT_PROTO_ICMP6, 64, body);
        bt_ip6_write(inner, &dst, &src, BT_PROTO_UDP, 64, BT_UDP_HEAD);
        bt_put16(inner + BT_IP6_HEAD, 8001);
    }
    uint8_t type = in8(&s->in);
    ip[head] = type < 128 ? type % 16u : (uint8_t)(type % 24u + 126u);
    ip[head + 1] = in8(&s->in) % 18u;
    bt_put16(ip + head + 6, in16(&s->in));
    memcpy(ip + head + BT_ICMP_HEAD, inner, quoted);
    store_icmp(ip, head, body);
    return pkt;
}

// What an honest owner of the address would say to the last request.
static struct bt_pkt *honest_answer(struct story *s)
{
    struct bt_pkt *pkt;
    const uint8_t *asked = s->asked + BT_ETHER_HEAD;
    if (s->asked_len == BT_ETHER_HEAD + BT_ARP_BYTES) {
        pkt = frame_for_us(s, BT_ETHER_ARP, BT_ARP_BYTES, 0);
        struct bt_arp a = {.reply = true, .sender = bt_addr_v4(asked + 24, 0), .target = bt_addr_v4(asked + 14, 0)};
        some_mac(in8(&s->in), a.sender_mac);
        bt_arp_write(pkt->data + BT_ETHER_HEAD, &a, our_mac);
        return pkt;
    }
    pkt = frame_for_us(s, BT_ETHER_IP6, BT_IP6_HEAD + BT_ND_BYTES, 0);
    struct bt_nd nd = {.advertisement = true, .solicited = true, .override = true};
    struct bt_addr us = {.port = 0};
    memcpy(nd.target.ip, asked + BT_IP6_HEAD + 8, 16);
    memcpy(us.ip, asked + 8, 16);
    some_mac(in8(&s->in), nd.mac);
    bt_ip6_write(pkt->data + BT_ETHER_HEAD, &nd.target, &us, BT_PROTO_ICMP6, BT_ND_TTL, BT_ND_BYTES);
    bt_nd_write(pkt->data + BT_ETHER_HEAD + BT_IP6_HEAD, &nd.target, &us, &nd);
    return pkt;
}

// --- what must hold

static void check_icmp(struct story *s, const struct bt_ip *ip, const uint8_t *frame, uint32_t len)
{
    struct bt_nd nd;
    uint8_t type = ip->body[0];
    CHECK(bt_icmp_judge(ip));
    if (type == BT_ICMP6_NEIGHBOUR_SOLICITATION || type == BT_ICMP6_NEIGHBOUR_ADVERTISEMENT) {
        CHECK(!ip->v4 ? bt_nd_judge(ip, &nd) : 0);
        if (!nd.advertisement) {
            memcpy(s->asked, frame, len);
            s->asked_len = len;
        }
    } else if (bt_icmp_is_error(ip)) { // E-8
        CHECK(!bt_mac_is_group(frame));
        CHECK(ip->v4 ? ip->dst.ip[12] < 224 : ip->dst.ip[0] != 0xff);
    }
}

static void check_frame(struct story *s, const uint8_t *p, uint32_t len)
{
    struct bt_arp a;
    struct bt_ip ip;
    CHECK(len >= BT_ETHER_HEAD && memcmp(p + 6, our_mac, 6) == 0 && memcmp(p, our_mac, 6) != 0);
    uint16_t type = bt_get16(p + 12);
    if (type == BT_ETHER_ARP) {
        CHECK(bt_arp_judge(p + BT_ETHER_HEAD, len - BT_ETHER_HEAD, &a));
        if (!a.reply && !bt_addr_ip_eq(&a.sender, &a.target)) {
            memcpy(s->asked, p, len);
            s->asked_len = len;
        }
        return;
    }
    CHECK(type == BT_ETHER_IP4 || type == BT_ETHER_IP6);
    CHECK((type == BT_ETHER_IP4 ? bt_ip4_judge(p + BT_ETHER_HEAD, len - BT_ETHER_HEAD, true, &ip)
                                : bt_ip6_judge(p + BT_ETHER_HEAD, len - BT_ETHER_HEAD, &ip)) == BT_FRAME_OK);
    CHECK(ip.body + ip.body_len == p + len); // E-17: no stray bytes behind
    if (ip.proto == BT_PROTO_TCP) {
        CHECK(s->l->takes_tcp && !bt_mac_is_group(p) && len <= 1500u + BT_ETHER_HEAD); // E-18, E-22
    } else if (ip.proto == BT_PROTO_UDP) {
        CHECK(bt_udp_judge(&ip, true) == BT_FRAME_OK && !bt_mac_is_group(p) && len <= 1500u + BT_ETHER_HEAD);
    } else {
        check_icmp(s, &ip, p, len);
    }
}

static void check_neighbours(const struct story *s, uint32_t *waiting)
{
    const struct bt_link *l = s->l;
    uint32_t used = 0, incomplete = 0, strangers = 0;
    for (uint32_t i = 0; i < l->neigh_max; i++) {
        const struct neigh *n = &l->neigh[i];
        used += n->state != NEIGH_FREE;
        incomplete += n->state == NEIGH_INCOMPLETE;
        strangers += n->stranger;
        *waiting += n->waiting.n;
        CHECK(n->waiting.n == 0 || n->state == NEIGH_INCOMPLETE);
        CHECK(n->waiting.n <= QUEUE); // E-14
        CHECK(n->tries <= l->tries);
        CHECK(n->state == NEIGH_FREE || link_neigh_find(l, &n->ip) == n);
        CHECK(bt_timer_armed(&n->timer) == (n->state != NEIGH_FREE && n->state != NEIGH_STATIC));
        CHECK(n->state == NEIGH_FREE || link_own(l, &n->ip) == NULL);
        CHECK(n->state <= NEIGH_INCOMPLETE || n->state == NEIGH_FAILED || !bt_mac_is_group(n->mac));
    }
    CHECK(used == l->neigh_table.count && incomplete == l->neigh_incomplete && strangers == l->neigh_strangers);
    CHECK(strangers <= NEIGHBOURS / 4); // E-15
}

static void check_all(const struct story *s)
{
    const uint64_t *c = s->l->counters;
    uint64_t rx = 0, tx = c[BT_LINK_TX_UDP] + c[BT_LINK_TX_TCP];
    uint32_t waiting = 0;
    check_neighbours(s, &waiting);
    for (int i = BT_LINK_RX_UDP; i <= BT_LINK_DROP_RATE; i++) {
        rx += c[i];
    }
    for (int i = BT_LINK_TXDROP_TOO_LONG; i <= BT_LINK_TXDROP_TABLE_FULL; i++) {
        tx += c[i];
    }
    CHECK(rx == s->frames && c[BT_LINK_RX_FRAMES] == s->frames); // one verdict a frame
    CHECK(tx + waiting == s->payloads);
    CHECK(s->fixed.left + waiting == PACKETS); // E-20
    CHECK(c[BT_LINK_TX_NO_BUFFER] == 0);
}

// --- the story

// Sends a finished packet to some next hop.
static void send_whole(struct story *s, struct bt_pkt *pkt, struct bt_txq *out)
{
    uint8_t how = in8(&s->in);
    pkt->local = LOCALS;
    pkt->tx_as_src = 0;
    pkt->dst = how & 1 ? some_v4(in8(&s->in)) : some_v6(in8(&s->in));
    s->payloads++;
    bt_link_tx(s->l, s->now, pkt, out);
}

// E-22: as it came, from its IP header to the end its lengths name.
static void check_whole(const struct story *s, const struct bt_pkt *pkt, enum bt_link_steer steer)
{
    struct bt_ip ip;
    bool v4 = bt_addr_is_v4(&pkt->dst);
    CHECK(s->l->takes_tcp && steer == BT_LINK_STEER_FIRST);
    CHECK((v4 ? bt_ip4_judge(pkt->data, pkt->len, true, &ip) : bt_ip6_judge(pkt->data, pkt->len, &ip)) == BT_FRAME_OK);
    CHECK(ip.proto == BT_PROTO_TCP && ip.body + ip.body_len == pkt->data + pkt->len && ip.ttl == pkt->ttl);
    CHECK(bt_addr_ip_eq(&ip.src, &pkt->src) && bt_addr_ip_eq(&ip.dst, &pkt->dst));
}

static void take(struct story *s, struct bt_pkt *pkt, struct bt_txq *out)
{
    const uint8_t *from = pkt->data, *to = pkt->data + pkt->len;
    s->frames++;
    uint16_t port = 0;
    enum bt_link_steer steer = bt_link_steer(pkt->data, pkt->len, &port);
    if (bt_link_rx(s->l, s->now, pkt, out) != BT_LINK_UDP) {
        return;
    }
    CHECK(pkt->data > from && pkt->data + pkt->len <= to);
    struct bt_addr src = pkt->src;
    src.port = pkt->local == LOCALS ? 1 : src.port;                        // not looked at yet
    CHECK(link_own(s->l, &pkt->dst) != NULL && !bt_addr_bad_source(&src)); // E-5, E-6
    if (pkt->local == LOCALS) {
        check_whole(s, pkt, steer);
        send_whole(s, pkt, out);
        return;
    }
    CHECK(pkt->local < LOCALS && bt_link_local(s->l, pkt->local).port == pkt->dst.port);
    CHECK(steer == BT_LINK_STEER_PORT && port == pkt->dst.port); // E-21
    bt_pool_put(s->pool, pkt);
}

static void send_payload(struct story *s, struct bt_txq *out)
{
    struct bt_pkt *pkt = bt_pool_get(s->pool);
    CHECK(pkt != NULL);
    uint8_t how = in8(&s->in);
    uint32_t len = in_length(&s->in);
    memset(bt_pkt_append(pkt, len), how, len);
    pkt->local = how & 3u;
    if (pkt->local == LOCALS && s->l->takes_tcp) {
        pkt->local = 0; // whole packets are those that came: see take()
    }
    pkt->tx_as_src = how > 192;
    pkt->ttl = how > 224 ? how & 7u : 0;
    pkt->dst = how & 4 ? some_v4(in8(&s->in)) : some_v6(in8(&s->in));
    pkt->src = how & 8 ? some_v4(in8(&s->in)) : some_v6(in8(&s->in));
    pkt->dst.port = how == 77 ? 0 : 8000;
    pkt->src.port = 99;
    s->payloads++;
    bt_link_tx(s->l, s->now, pkt, out);
}

static void time_passes(struct story *s, struct bt_txq *out)
{
    uint8_t b = in8(&s->in);
    s->now += (uint64_t)(b & 31u) << (b >> 5) * 4 << 10;
    if (b == 255) {
        bt_link_announce(s->l, s->now);
    }
    bt_link_tick(s->l, s->now, out);
    CHECK(bt_link_next(s->l) > s->now);
}

static void sentence(struct story *s)
{
    struct bt_txq out;
    struct bt_link_event ev[8];
    bt_txq_init(&out);
    uint8_t verb = in8(&s->in) % 16u;
    if (verb == 0) {
        take(s, raw(s), &out);
    } else if (verb < 3) {
        take(s, arp(s), &out);
    } else if (verb < 5) {
        take(s, discovery(s), &out);
    } else if (verb < 7) {
        take(s, datagram(s), &out);
    } else if (verb < 9) {
        take(s, icmp(s), &out);
    } else if (verb < 11 && s->asked_len != 0) {
        take(s, honest_answer(s), &out);
    } else if (verb < 14) {
        send_payload(s, &out);
    } else {
        time_passes(s, &out);
    }
    for (struct bt_pkt *p; (p = bt_txq_pop(&out)) != NULL; bt_pool_put(s->pool, p)) {
        check_frame(s, p->data, p->len);
    }
    if (verb == 15) {
        bt_link_events(s->l, ev, 8);
    }
    check_all(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bt_link_static statics[] = {{.ip = {.ip = {[10] = 0xff, 0xff, 10, 0, 0, 7}}, .mac = {2, 7}}};
    struct bt_link_prefix addrs[2] = {{.addr = bt_addr_v4u(0x0a000002, 0), .bits = 24},
                                      {.addr = {.ip = {0xfd, [15] = 2}}, .bits = 64}};
    struct bt_addr locals[LOCALS] = {bt_addr_v4u(0x0a000002, 8000), {.port = 8001}, bt_addr_v4u(0, 8002)};
    struct bt_link_config c = {.addrs = addrs,
                               .n_addrs = 2,
                               .locals = locals,
                               .n_locals = LOCALS,
                               .statics = statics,
                               .n_statics = 1,
                               .gateway4 = bt_addr_v4u(0x0a000001, 0),
                               .gateway6 = {.ip = {0xfe, 0x80, [15] = 1}},
                               .max_neighbours = NEIGHBOURS,
                               .queue_per_neighbour = QUEUE,
                               .icmp_errors_per_s = 10,
                               .icmp_echo_per_s = 10};
    struct story s = {.in = {data, size}, .now = 1000 * MILLISECOND};
    memcpy(c.mac, our_mac, 6);
    uint8_t kind = in8(&s.in);
    c.rx_unfinished = kind >= 128;
    c.secondary = kind % 128 == 1;
    c.takes_tcp = kind % 128 == 2 || kind % 128 == 3;
    void *slab = malloc(bt_pool_fixed_bytes(PACKETS)), *mem = aligned_alloc(64, (bt_link_bytes(&c) + 63) / 64 * 64);
    CHECK(slab != NULL && mem != NULL);
    c.pool = s.pool = bt_pool_fixed_init(&s.fixed, slab, PACKETS);
    s.l = bt_link_init(mem, bt_link_bytes(&c), &c, s.now, NULL);
    CHECK(s.l != NULL);
    while (s.in.left > 0) {
        sentence(&s);
    }
    bt_link_close(s.l);
    CHECK(s.fixed.left == PACKETS);
    free(mem);
    free(slab);
    return 0;
}
