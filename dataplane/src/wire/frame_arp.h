// SPDX-License-Identifier: Apache-2.0
// ARP for IPv4 on Ethernet (RFC 826).
#ifndef BT_WIRE_FRAME_ARP_H
#define BT_WIRE_FRAME_ARP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

enum { BT_ARP_BYTES = 28 };

struct bt_arp {
    bool reply;
    uint8_t sender_mac[6];         // never a group address
    struct bt_addr sender, target; // sender 0.0.0.0: somebody probes whether target is free (RFC 5227)
};

// False: not ARP for IPv4 on Ethernet, or a sender that cannot be one.
bool bt_arp_judge(const uint8_t *p, uint32_t len, struct bt_arp *arp);

// Writes BT_ARP_BYTES. target_mac is zero in a request.
void bt_arp_write(uint8_t *p, const struct bt_arp *arp, const uint8_t target_mac[6]);

#endif
