// SPDX-License-Identifier: Apache-2.0
#include "bed.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "wire/checksum.h"

const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 2}, their_mac[6] = {2, 0, 0, 0, 0, 9}, other_mac[6] = {2, 0, 0, 0, 0, 0xa};

struct bt_addr addr(const char *text)
{
    struct bt_addr a;
    if (bt_addr_parse(text, 1, &a) != 0) {
        fail_msg("no address: %s", text);
    }
    return a;
}

static struct bt_addr host(const char *text)
{
    struct bt_addr a = addr(text);
    a.port = 0;
    return a;
}

void bed_plan(struct bed *b)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(bt_link_prefix_parse("10.0.0.2/24", &b->addrs[0]), 0);
    assert_int_equal(bt_link_prefix_parse("fd00::2/64", &b->addrs[1]), 0);
    b->locals[AT_V4] = addr("10.0.0.2:8000");
    b->locals[AT_V6] = addr("[fd00::2]:8001");
    b->locals[AT_ANY4] = addr("0.0.0.0:8002");
    b->locals[AT_ANY6] = addr("[::]:8003");
    b->slab = malloc(bt_pool_fixed_bytes(PACKETS));
    b->pool = bt_pool_fixed_init(&b->fixed, b->slab, PACKETS);
    b->now = LINK_SECOND;
    b->c = (struct bt_link_config){.addrs = b->addrs,
                                   .n_addrs = 2,
                                   .locals = b->locals,
                                   .n_locals = 4,
                                   .gateway4 = addr("10.0.0.1"),
                                   .gateway6 = addr("fe80::1"),
                                   .announcements = UINT32_MAX,
                                   .seed = 5,
                                   .pool = b->pool};
    memcpy(b->c.mac, our_mac, 6);
}

void bed_open(struct bed *b)
{
    struct bt_link_error err;
    size_t bytes = bt_link_bytes(&b->c);
    b->mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
    b->l = bt_link_init(b->mem, bytes, &b->c, b->now, &err);
    if (b->l == NULL) {
        fail_msg("%s[%u] %s", err.field, err.index, err.problem);
    }
}

void bed_close(struct bed *b)
{
    bed_sends_nothing(b);
    bt_link_close(b->l);
    assert_int_equal(b->fixed.left, PACKETS); // E-20
    free(b->mem);
    free(b->slab);
}

int bed_setup(void **state)
{
    bed_plan(*state);
    return 0;
}

int bed_teardown(void **state)
{
    bed_close(*state);
    return 0;
}

struct bt_pkt *bed_sent(struct bed *b)
{
    struct bt_pkt *pkt = bt_txq_pop(&b->out);
    assert_non_null(pkt);
    return pkt;
}

void bed_sends_nothing(struct bed *b)
{
    assert_int_equal(b->out.n, 0);
}

void bed_put(struct bed *b, struct bt_pkt *pkt)
{
    bt_pool_put(b->pool, pkt);
}

void bed_drain(struct bed *b)
{
    while (b->out.n > 0) {
        bed_put(b, bed_sent(b));
    }
}

void bed_tick(struct bed *b, uint64_t later_ns)
{
    b->now += later_ns;
    bt_link_tick(b->l, b->now, &b->out);
    assert_true(bt_link_next(b->l) > b->now);
}

enum bt_link_verdict bed_rx(struct bed *b, struct bt_pkt *frame)
{
    return bt_link_rx(b->l, b->now, frame, &b->out);
}

uint64_t bed_count(const struct bed *b, enum bt_link_counter c)
{
    return b->l->counters[c];
}

void bed_drops(struct bed *b, struct bt_pkt *frame, enum bt_link_counter why)
{
    uint64_t before = bed_count(b, why), left = b->fixed.left;
    assert_int_equal(bed_rx(b, frame), BT_LINK_TAKEN);
    if (bed_count(b, why) != before + 1) {
        for (unsigned i = BT_LINK_DROP_TRUNCATED; i <= BT_LINK_DROP_RATE; i++) {
            if (bed_count(b, i) != 0) {
                print_message("counter %u is %u\n", i, (unsigned)bed_count(b, i));
            }
        }
        fail_msg("not dropped as %u", why);
    }
    assert_int_equal(b->fixed.left, left + 1);
    bed_sends_nothing(b);
}

static struct bt_pkt *frame_of(struct bed *b, uint16_t type, uint32_t body)
{
    struct bt_pkt *pkt = bt_pool_get(b->pool);
    assert_non_null(pkt);
    uint8_t *p = bt_pkt_append(pkt, BT_ETHER_HEAD + body);
    bt_ether_write(p, our_mac, their_mac, type);
    return pkt;
}

struct bt_pkt *bed_udp(struct bed *b, const char *from, const char *to, uint32_t len)
{
    struct bt_addr src = addr(from), dst = addr(to);
    bool v4 = bt_addr_is_v4(&src);
    uint32_t head = v4 ? BT_IP4_HEAD : BT_IP6_HEAD;
    struct bt_pkt *pkt = frame_of(b, v4 ? BT_ETHER_IP4 : BT_ETHER_IP6, head + BT_UDP_HEAD + len);
    uint8_t *ip = pkt->data + BT_ETHER_HEAD;
    for (uint32_t i = 0; i < len; i++) {
        ip[head + BT_UDP_HEAD + i] = (uint8_t)(i * 3 + 1);
    }
    if (v4) {
        bt_ip4_write(ip, &src, &dst, BT_PROTO_UDP, 60, BT_UDP_HEAD + len);
    } else {
        bt_ip6_write(ip, &src, &dst, BT_PROTO_UDP, 60, BT_UDP_HEAD + len);
    }
    bt_udp_write(ip + head, &src, &dst, len, BT_UDP_SUM_FULL);
    return pkt;
}

struct bt_pkt *bed_arp(struct bed *b, bool reply, const char *sender, const uint8_t mac[6], const char *target)
{
    struct bt_pkt *pkt = frame_of(b, BT_ETHER_ARP, BT_ARP_BYTES);
    struct bt_arp arp = {.reply = reply, .sender = host(sender), .target = host(target)};
    memcpy(arp.sender_mac, mac, 6);
    bt_arp_write(pkt->data + BT_ETHER_HEAD, &arp, our_mac);
    return pkt;
}

struct bt_pkt *bed_nd_of(struct bed *b, const struct bed_nd *o)
{
    struct bt_pkt *pkt = frame_of(b, BT_ETHER_IP6, BT_IP6_HEAD + BT_ND_BYTES);
    struct bt_addr src = host(o->from), dst = host(o->to);
    struct bt_nd nd = {.advertisement = o->advertisement,
                       .solicited = (o->flags & 1) != 0,
                       .override = (o->flags & 2) != 0,
                       .target = host(o->target)};
    memcpy(nd.mac, o->mac, 6);
    if (dst.ip[0] == 0xff) {
        bt_ip6_group_mac(&dst, pkt->data);
    }
    uint8_t *ip = pkt->data + BT_ETHER_HEAD;
    bt_ip6_write(ip, &src, &dst, BT_PROTO_ICMP6, BT_ND_TTL, BT_ND_BYTES);
    bt_nd_write(ip + BT_IP6_HEAD, &src, &dst, &nd);
    if ((o->flags & 4) != 0) {
        link_resize(pkt, pkt->len - 8);
        bt_put16(ip + 4, BT_ND_BYTES - 8);
        bed_seal(pkt);
    }
    return pkt;
}

struct bt_pkt *bed_icmp_of(struct bed *b, const struct bed_icmp *o)
{
    struct bt_addr src = host(o->from), dst = host(o->to);
    bool v4 = bt_addr_is_v4(&src);
    uint32_t head = v4 ? BT_IP4_HEAD : BT_IP6_HEAD;
    struct bt_pkt *pkt = frame_of(b, v4 ? BT_ETHER_IP4 : BT_ETHER_IP6, head + BT_ICMP_HEAD + o->len);
    uint8_t *ip = pkt->data + BT_ETHER_HEAD;
    if (v4) {
        bt_ip4_write(ip, &src, &dst, BT_PROTO_ICMP4, 60, BT_ICMP_HEAD + o->len);
    } else {
        bt_ip6_write(ip, &src, &dst, BT_PROTO_ICMP6, 60, BT_ICMP_HEAD + o->len);
    }
    ip[head] = o->type;
    ip[head + 1] = o->code;
    bt_put32(ip + head + 4, o->rest);
    memcpy(ip + head + BT_ICMP_HEAD, o->body, o->len);
    bed_seal(pkt);
    return pkt;
}

void bed_seal(struct bt_pkt *frame)
{
    uint8_t *ip = frame->data + BT_ETHER_HEAD;
    if (bt_get16(frame->data + 12) == BT_ETHER_IP4) {
        uint32_t head = (ip[0] & 15u) * 4u;
        bt_put16(ip + 10, 0);
        bt_csum_store(ip + 10, bt_csum_bytes(0, ip, head));
        if (ip[9] == BT_PROTO_ICMP4) {
            bt_put16(ip + head + 2, 0);
            bt_csum_store(ip + head + 2, bt_csum_bytes(0, ip + head, bt_get16(ip + 2) - head));
        }
        return;
    }
    struct bt_addr src = {.port = 0}, dst = {.port = 0};
    uint32_t len = bt_get16(ip + 4), at = ip[6] == BT_PROTO_ICMP6 ? BT_IP6_HEAD : BT_IP6_HEAD + 8;
    len -= at - BT_IP6_HEAD;
    memcpy(src.ip, ip + 8, 16);
    memcpy(dst.ip, ip + 24, 16);
    bt_put16(ip + at + 2, 0);
    bt_csum_store(ip + at + 2, bt_csum_bytes(bt_pseudo_sum(&src, &dst, BT_PROTO_ICMP6, len), ip + at, len));
}

void bed_tx(struct bed *b, uint16_t local, const char *to, uint32_t len)
{
    struct bt_pkt *pkt = bt_pool_get(b->pool);
    assert_non_null(pkt);
    memset(bt_pkt_append(pkt, len), 'x', len);
    pkt->local = local;
    pkt->dst = addr(to);
    bt_link_tx(b->l, b->now, pkt, &b->out);
}

struct neigh *bed_neigh(const struct bed *b, const char *ip)
{
    struct bt_addr a = host(ip);
    return link_neigh_find(b->l, &a);
}

void bed_know(struct bed *b, const char *ip, const uint8_t mac[6])
{
    struct bt_addr a = host(ip);
    struct neigh *n = link_neigh_want(b->l, b->now, &a);
    assert_non_null(n);
    link_neigh_confirm(b->l, b->now, n, mac, &b->out);
}

bool bed_event(struct bed *b, const char *peer, int error)
{
    struct bt_link_event e;
    struct bt_addr a = addr(peer);
    return bt_link_events(b->l, &e, 1) == 1 && bt_addr_eq(&e.peer, &a) && e.error == error &&
           (error == EMSGSIZE || e.mtu == 0);
}

struct bt_ip ip_of(const struct bt_pkt *frame)
{
    struct bt_ip ip;
    bool v4 = bt_get16(frame->data + 12) == BT_ETHER_IP4;
    const uint8_t *p = frame->data + BT_ETHER_HEAD;
    uint32_t len = frame->len - BT_ETHER_HEAD;
    assert_int_equal(v4 ? bt_ip4_judge(p, len, true, &ip) : bt_ip6_judge(p, len, &ip), BT_FRAME_OK);
    return ip;
}

void bed_asks(struct bed *b, const char *target, const uint8_t *to)
{
    static const uint8_t everybody[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct bt_pkt *pkt = bed_sent(b);
    struct bt_addr want = addr(target);
    assert_int_equal(pkt->offload, 0); // whole: nothing is left to the device
    if (bt_addr_is_v4(&want)) {
        struct bt_arp arp;
        struct bt_addr us = addr("10.0.0.2");
        assert_true(bt_arp_judge(pkt->data + BT_ETHER_HEAD, pkt->len - BT_ETHER_HEAD, &arp));
        assert_false(arp.reply);
        assert_true(bt_addr_ip_eq(&arp.target, &want) && bt_addr_ip_eq(&arp.sender, &us));
        assert_memory_equal(pkt->data, to != NULL ? to : everybody, 6);
    } else {
        struct bt_nd nd;
        struct bt_ip ip = ip_of(pkt);
        uint8_t group[6] = {0x33, 0x33, 0xff, want.ip[13], want.ip[14], want.ip[15]};
        assert_true(bt_icmp_judge(&ip) && bt_nd_judge(&ip, &nd));
        assert_true(!nd.advertisement && bt_addr_ip_eq(&nd.target, &want));
        assert_memory_equal(nd.mac, our_mac, 6);
        assert_memory_equal(pkt->data, to != NULL ? to : group, 6);
    }
    bed_put(b, pkt);
}

void bed_sends_udp_to(struct bed *b, const uint8_t mac[6])
{
    struct bt_pkt *pkt = bed_sent(b);
    struct bt_ip ip = ip_of(pkt);
    assert_int_equal(ip.proto, BT_PROTO_UDP);
    assert_memory_equal(pkt->data, mac, 6);
    bed_put(b, pkt);
}
