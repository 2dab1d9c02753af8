// SPDX-License-Identifier: Apache-2.0
// Judging and writing ARP.
#include "wire/frame_arp.h"

#include "base/bytes.h"
#include "wire/frame.h"

enum { ARP_ETHERNET = 1, ARP_REQUEST = 1, ARP_REPLY = 2 };

bool bt_arp_judge(const uint8_t *p, uint32_t len, struct bt_arp *arp)
{
    static const uint8_t zero[6];
    if (len < BT_ARP_BYTES || bt_get16(p) != ARP_ETHERNET || bt_get16(p + 2) != BT_ETHER_IP4 || p[4] != 6 ||
        p[5] != 4) {
        return false;
    }
    uint16_t op = bt_get16(p + 6);
    if ((op != ARP_REQUEST && op != ARP_REPLY) || bt_mac_is_group(p + 8) || memcmp(p + 8, zero, 6) == 0) {
        return false;
    }
    if (p[14] == 127 || p[14] >= 224 || (op == ARP_REPLY && bt_get32(p + 14) == 0)) { // no host sends from these
        return false;
    }
    arp->reply = op == ARP_REPLY;
    memcpy(arp->sender_mac, p + 8, 6);
    arp->sender = bt_addr_v4(p + 14, 0);
    arp->target = bt_addr_v4(p + 24, 0);
    return true;
}

void bt_arp_write(uint8_t *p, const struct bt_arp *arp, const uint8_t target_mac[6])
{
    bt_put16(p, ARP_ETHERNET);
    bt_put16(p + 2, BT_ETHER_IP4);
    p[4] = 6;
    p[5] = 4;
    bt_put16(p + 6, arp->reply ? ARP_REPLY : ARP_REQUEST);
    memcpy(p + 8, arp->sender_mac, 6);
    memcpy(p + 14, arp->sender.ip + 12, 4);
    memcpy(p + 18, target_mac, 6);
    memcpy(p + 24, arp->target.ip + 12, 4);
}
