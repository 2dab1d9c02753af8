// SPDX-License-Identifier: Apache-2.0
// See switch_reports.h.
#include "switch_reports.h"

#include <string.h>

#include "base/bytes.h"
#include "router/router_config.h"
#include "stream.h"

/* Of the pair that it names. */
#define CLIENT      UINT32_C(0x0a000101)
#define CLIENT_PORT 40000

uint32_t sim_report_write(const struct sim_report *r, uint8_t flags, uint8_t *p)
{
    struct bt_feedback fb = {.version = 1,
                             .flags = (uint8_t)(flags | (r->leaving ? BT_FEEDBACK_LEAVE : 0)),
                             .client = bt_addr_v4u(CLIENT, CLIENT_PORT),
                             .n = (uint16_t)r->n,
                             .incarnation = r->life,
                             .received = r->received,
                             .served = r->served};
    struct bt_r2p2_hdr hdr = {.type = BT_FEEDBACK, .first = true, .last = true, .count_or_index = 1};
    size_t n = bt_r2p2_encode(p, BT_R2P2_HEADER, &hdr);
    return (uint32_t)(n + bt_feedback_encode(p + n, SIM_REPORT_MOST - n, &fb));
}

uint32_t sim_report_spoil(struct bt_rng *rng, uint8_t *p, uint32_t n)
{
    uint8_t *fb = p + BT_R2P2_HEADER;
    switch (sim_below(rng, 12)) {
    case 0:
        return sim_below(rng, BT_R2P2_HEADER);
    case 1:
        p[0] ^= (uint8_t)(1 + sim_below(rng, 255));
        break;
    case 2:
        p[1] = (uint8_t)sim_below(rng, BT_R2P2_HEADER);
        break;
    case 3:
        p[2] = (uint8_t)(sim_below(rng, 2) == 0 ? 0 : 0x30 + 16 * sim_below(rng, 13));
        break;
    case 4:
        p[3] = (uint8_t)(sim_below(rng, 3) << 6);
        break;
    case 5:
        p[7] = (uint8_t)(sim_below(rng, 2) == 0 ? 0 : 2 + sim_below(rng, 200));
        break;
    case 6: /* the form of old workers, which a switch does not know (W-3) */
        return BT_R2P2_HEADER + BT_FEEDBACK_LEGACY_SIZE;
    case 7:
        return BT_R2P2_HEADER + 9 + sim_below(rng, BT_FEEDBACK_V1_SIZE - 9);
    case 8:
        fb[BT_FEEDBACK_VERSION_AT] = (uint8_t)(2 * sim_below(rng, 2));
        break;
    case 9:
        memset(p + n, 0, 4);
        return n + 4;
    case 10:
        bt_put64(fb + BT_FEEDBACK_SERVED_AT, bt_get64(fb + BT_FEEDBACK_RECEIVED_AT) + 1 + sim_below(rng, 9));
        break;
    default:
        bt_put16(fb + BT_FEEDBACK_N_AT, (uint16_t)(BT_ROUTER_DEPTH_MAX + 1 + sim_below(rng, 1000)));
        break;
    }
    return n;
}
