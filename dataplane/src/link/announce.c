// SPDX-License-Identifier: Apache-2.0
// Telling the network about us without being asked: after the start and after a move, when somebody else claims an
// address of ours, and which groups to send us (or a snooping switch keeps discovery from us).
#include "link/internal.h"

enum { GROUPS = BT_LINK_MAX_ADDRS + 1 };

#define DEFEND_NS (10 * LINK_SECOND)

static void report_groups(struct bt_link *l, struct bt_txq *out)
{
    struct bt_addr groups[GROUPS], routers = bt_mld_routers();
    const struct bt_addr *src = NULL;
    unsigned n = 0;
    for (unsigned i = 0; i < l->n_own; i++) {
        if (bt_addr_is_v4(&l->own[i].addr)) {
            continue;
        }
        groups[n++] = bt_ip6_solicited_node(&l->own[i].addr);
        if (src == NULL || l->own[i].link_local) {
            src = &l->own[i].addr;
        }
    }
    uint32_t bytes = BT_MLD_BYTES(n);
    struct bt_pkt *pkt = n > 0 ? link_make(l, BT_ETHER_HEAD + BT_IP6_HEAD + bytes) : NULL;
    if (pkt == NULL) {
        return;
    }
    uint8_t mac[6];
    bt_ip6_group_mac(&routers, mac);
    bt_ether_write(pkt->data, mac, l->mac, BT_ETHER_IP6);
    bt_ip6_write(pkt->data + BT_ETHER_HEAD, src, &routers, BT_PROTO_HOP_BY_HOP, 1, bytes);
    bt_mld_write(pkt->data + BT_ETHER_HEAD + BT_IP6_HEAD, src, groups, n);
    l->counters[BT_LINK_TX_NDP]++;
    link_push(l, out, pkt);
}

void link_announce_timer(struct bt_link *l, uint64_t now, struct bt_txq *out)
{
    report_groups(l, out);
    for (unsigned i = 0; i < l->n_own; i++) {
        const struct bt_addr *own = &l->own[i].addr;
        if (bt_addr_is_v4(own)) {
            link_arp_ask(l, own, own, NULL, out); // RFC 5227 §3: a request, sender and target the same
        } else {
            link_ndp_announce(l, own, out);
        }
    }
    if (++l->announced < l->announcements) {
        bt_wheel_add(&l->wheel, &l->announce_timer, now + LINK_SECOND);
    }
}

void link_report_timer(struct bt_link *l, struct bt_txq *out)
{
    report_groups(l, out);
}

void link_report_soon(struct bt_link *l, uint64_t now)
{
    if (l->secondary || bt_timer_armed(&l->report_timer)) {
        return;
    }
    // Within the shortest time queriers grant, at random so that not all answer at once (RFC 3810 §6.2).
    bt_wheel_add(&l->wheel, &l->report_timer, now + (uint64_t)(bt_rng_unit(&l->rng) * (double)LINK_SECOND));
}

void bt_link_announce(struct bt_link *l, uint64_t now)
{
    if (l->announcements == 0) {
        return;
    }
    l->announced = 0;
    bt_wheel_add(&l->wheel, &l->announce_timer, now);
}

void link_conflict(struct bt_link *l, uint64_t now)
{
    l->counters[BT_LINK_CONFLICTS]++;
    if (l->announcements == 0 || (l->defended_ns != 0 && now - l->defended_ns < DEFEND_NS)) {
        return;
    }
    l->defended_ns = now;
    l->announced = l->announcements - 1; // once
    bt_wheel_add(&l->wheel, &l->announce_timer, now);
}
