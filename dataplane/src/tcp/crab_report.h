// SPDX-License-Identifier: Apache-2.0
// What a server tells the balancer of itself (C-62), one UDP datagram: "CR", version 1, zero; port u16, zero u16; open
// connections u32; big endian. It counts for the server it comes from, by its source address, and for no other.
#ifndef BT_TCP_CRAB_REPORT_H
#define BT_TCP_CRAB_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define BT_CRAB_REPORT_BYTES 12u

struct bt_crab_load {
    uint16_t port;
    uint32_t open;
};

static inline bool bt_crab_report_read(const uint8_t *p, uint32_t len, struct bt_crab_load *load)
{
    if (len != BT_CRAB_REPORT_BYTES || p[0] != 'C' || p[1] != 'R' || p[2] != 1 || p[3] != 0 || bt_get16(p + 6) != 0) {
        return false;
    }
    load->port = bt_get16(p + 4);
    load->open = bt_get32(p + 8);
    return true;
}

static inline void bt_crab_report_write(uint8_t p[BT_CRAB_REPORT_BYTES], const struct bt_crab_load *load)
{
    p[0] = 'C';
    p[1] = 'R';
    p[2] = 1;
    p[3] = 0;
    bt_put16(p + 4, load->port);
    bt_put16(p + 6, 0);
    bt_put32(p + 8, load->open);
}

#endif
