// SPDX-License-Identifier: Apache-2.0
// ICMP: echo is answered in the packet it came in, errors about packets of ours become events, and a UDP packet
// nobody listens for becomes a port unreachable.
#include "link/internal.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/checksum.h"

// Most of an offending packet that is quoted: RFC 1812 §4.3.2.3 and RFC 4443 §2.4c.
enum { QUOTE4 = 576 - BT_IP4_HEAD - BT_ICMP_HEAD, QUOTE6 = 1280 - BT_IP6_HEAD - BT_ICMP_HEAD };

static void echo(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip, struct bt_txq *out)
{
    if (l->secondary) { // not steered here
        link_drop(l, pkt, BT_LINK_DROP_ICMP);
        return;
    }
    if (!link_allowed(&l->echoes, now)) {
        link_drop(l, pkt, BT_LINK_DROP_RATE);
        return;
    }
    uint8_t mac[6], *head = pkt->data + BT_ETHER_HEAD, *body = pkt->data + (ip->body - pkt->data);
    memcpy(mac, pkt->data + 6, 6);
    link_resize(pkt, (uint32_t)(ip->body - pkt->data) + ip->body_len); // padding off
    bt_ether_write(pkt->data, mac, l->mac, ip->v4 ? BT_ETHER_IP4 : BT_ETHER_IP6);
    if (ip->v4) {
        bt_ip4_write(head, &ip->dst, &ip->src, BT_PROTO_ICMP4, BT_TTL, ip->body_len);
    } else {
        bt_ip6_write(head, &ip->dst, &ip->src, BT_PROTO_ICMP6, BT_TTL, ip->body_len);
    }
    body[0] = ip->v4 ? BT_ICMP4_ECHO_REPLY : BT_ICMP6_ECHO_REPLY;
    memset(body + 2, 0, 2); // summed anew: a difference cannot tell an answer of zeroes from its complement
    uint64_t sum = ip->v4 ? 0 : bt_pseudo_sum(&ip->src, &ip->dst, BT_PROTO_ICMP6, ip->body_len);
    bt_csum_store(body + 2, bt_csum_bytes(sum, body, ip->body_len)); // turned round, the addresses sum up to the same
    pkt->offload = 0;
    l->counters[BT_LINK_RX_ECHO]++;
    link_push(l, out, pkt);
}

// Believed only if it quotes a packet from one of our ports; and what it says changes nothing here, it is told.
static void take_error(struct bt_link *l, struct bt_pkt *pkt, const struct bt_ip *ip)
{
    struct bt_icmp_error e;
    if (!bt_icmp_error_judge(ip, &e) || (e.error == EMSGSIZE && e.mtu >= l->mtu)) {
        link_drop(l, pkt, BT_LINK_DROP_ICMP);
        return;
    }
    uint32_t local = link_own(l, &e.src) != NULL ? link_find_local(l, &e.src) : LINK_NONE;
    if (local == LINK_NONE) {
        link_drop(l, pkt, BT_LINK_DROP_ICMP_FOREIGN);
        return;
    }
    l->counters[BT_LINK_RX_ICMP_ERROR]++;
    link_event(l, &e.dst, (uint16_t)local, e.error, e.error == EMSGSIZE ? e.mtu : 0);
    bt_pool_put(l->pool, pkt);
}

void link_icmp_rx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip, struct bt_txq *out)
{
    if (!bt_icmp_judge(ip)) {
        link_drop(l, pkt, BT_LINK_DROP_ICMP);
    } else if (ip->body[0] == (ip->v4 ? BT_ICMP4_ECHO : BT_ICMP6_ECHO) && ip->body[1] == 0) {
        echo(l, now, pkt, ip, out);
    } else if (bt_icmp_is_error(ip)) {
        take_error(l, pkt, ip);
    } else {
        link_drop(l, pkt, BT_LINK_DROP_ICMP);
    }
}

void link_refuse_port(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, const struct bt_ip *ip, struct bt_txq *out)
{
    uint32_t head = ip->v4 ? BT_IP4_HEAD : BT_IP6_HEAD, most = ip->v4 ? QUOTE4 : QUOTE6;
    uint32_t at = (uint32_t)(ip->head - pkt->data);
    uint32_t quoted = ip->v4 ? bt_get16(ip->head + 2) : BT_IP6_HEAD + (uint32_t)bt_get16(ip->head + 4);
    quoted = quoted < most ? quoted : most;
    uint8_t mac[6];
    memcpy(mac, pkt->data + 6, 6);
    bool limited = !l->secondary && !link_allowed(&l->errors, now);
    l->counters[BT_LINK_ICMP_LIMITED] += limited;
    if (l->secondary || limited || pkt->room_before + at < BT_ETHER_HEAD + head + BT_ICMP_HEAD) {
        link_drop(l, pkt, BT_LINK_DROP_UDP_PORT);
        return;
    }
    bt_pkt_pull(pkt, at);
    link_resize(pkt, quoted);
    uint8_t *p = bt_pkt_push(pkt, BT_ETHER_HEAD + head + BT_ICMP_HEAD);
    struct bt_addr src = ip->dst, dst = ip->src;
    src.port = dst.port = 0;
    bt_ether_write(p, mac, l->mac, ip->v4 ? BT_ETHER_IP4 : BT_ETHER_IP6);
    if (ip->v4) {
        bt_ip4_write(p + BT_ETHER_HEAD, &src, &dst, BT_PROTO_ICMP4, BT_TTL, BT_ICMP_HEAD + quoted);
    } else {
        bt_ip6_write(p + BT_ETHER_HEAD, &src, &dst, BT_PROTO_ICMP6, BT_TTL, BT_ICMP_HEAD + quoted);
    }
    bt_icmp_unreachable_write(p + BT_ETHER_HEAD + head, &src, &dst, quoted);
    pkt->offload = 0;
    l->counters[BT_LINK_DROP_UDP_PORT]++;
    l->counters[BT_LINK_TX_ICMP_ERROR]++;
    link_push(l, out, pkt);
}
