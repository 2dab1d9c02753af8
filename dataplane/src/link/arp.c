// SPDX-License-Identifier: Apache-2.0
// ARP: answering for own addresses, learning from answers, and from requests only what we are about to need.
#include "link/internal.h"

static const uint8_t everybody[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t nobody[6];

enum { FRAME_BYTES = BT_ETHER_HEAD + BT_ARP_BYTES };

static void answer(struct bt_link *l, struct bt_pkt *pkt, const struct bt_arp *asked, struct bt_txq *out)
{
    struct bt_arp arp = {.reply = true, .sender = asked->target, .target = asked->sender};
    memcpy(arp.sender_mac, l->mac, 6);
    (void)link_resize(pkt, FRAME_BYTES); // padding off: what was judged is as long
    bt_ether_write(pkt->data, asked->sender_mac, l->mac, BT_ETHER_ARP);
    bt_arp_write(pkt->data + BT_ETHER_HEAD, &arp, asked->sender_mac);
    pkt->offload = 0;
    l->counters[BT_LINK_TX_ARP]++;
    link_push(l, out, pkt);
}

static void learn(struct bt_link *l, uint64_t now, const struct bt_arp *arp, bool to_us, bool broadcast,
                  struct bt_txq *out)
{
    struct neigh *n = link_neigh_find(l, &arp->sender);
    if (n == NULL) {
        if (to_us && !arp->reply) {
            link_neigh_stranger(l, now, &arp->sender, arp->sender_mac);
        }
        return;
    }
    // Only an answer to us says that the way there and back works; and an answer with another MAC that we did not
    // wait for is hearsay.
    bool waited = n->state == NEIGH_INCOMPLETE || n->state == NEIGH_PROBE;
    if (arp->reply && to_us && !broadcast && (waited || memcmp(n->mac, arp->sender_mac, 6) == 0)) {
        link_neigh_confirm(l, now, n, arp->sender_mac, out);
    } else {
        link_neigh_hear(l, now, n, arp->sender_mac, out);
    }
}

void link_arp_rx(struct bt_link *l, uint64_t now, struct bt_pkt *pkt, bool broadcast, struct bt_txq *out)
{
    static const struct bt_addr none = {.ip = {[10] = 0xff, [11] = 0xff}};
    struct bt_arp arp;
    if (!bt_arp_judge(pkt->data + BT_ETHER_HEAD, pkt->len - BT_ETHER_HEAD, &arp) ||
        memcmp(arp.sender_mac, l->mac, 6) == 0) { // nobody else lives at our MAC
        link_drop(l, pkt, BT_LINK_DROP_ARP);
        return;
    }
    l->counters[BT_LINK_RX_ARP]++;
    bool to_us = link_own(l, &arp.target) != NULL, probe = bt_addr_ip_eq(&arp.sender, &none);
    if (link_own(l, &arp.sender) != NULL) {
        link_conflict(l, now);
    } else if (!probe) {
        learn(l, now, &arp, to_us, broadcast, out);
    }
    if (to_us && !arp.reply && !l->secondary) {
        answer(l, pkt, &arp, out);
    } else {
        bt_pool_put(l->pool, pkt);
    }
}

void link_arp_ask(struct bt_link *l, const struct bt_addr *sender, const struct bt_addr *target, const uint8_t *to_mac,
                  struct bt_txq *out)
{
    struct bt_pkt *pkt = link_make(l, FRAME_BYTES);
    if (pkt == NULL) {
        return;
    }
    struct bt_arp arp = {.sender = *sender, .target = *target};
    memcpy(arp.sender_mac, l->mac, 6);
    bt_ether_write(pkt->data, to_mac != NULL ? to_mac : everybody, l->mac, BT_ETHER_ARP);
    bt_arp_write(pkt->data + BT_ETHER_HEAD, &arp, nobody);
    l->counters[BT_LINK_TX_ARP]++;
    link_push(l, out, pkt);
}
