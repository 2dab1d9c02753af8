// SPDX-License-Identifier: Apache-2.0
// Strangers who begin requests of several packets and never send the rest. They are no nodes: what is sent to them goes
// nowhere.
#include <string.h>

#include "world.h"

enum { SHORTEST = 8, FIRST = 14, PACKETS = 8, ADDRESSES = 1 << 16 };

void sim_half_open(struct sim_world *w)
{
    struct bt_rng *g = &w->stream[SIM_STREAM_GARBAGE];
    const struct sim_scenario *s = w->s;
    uint64_t number = w->net.seen.half_opened++;
    uint32_t who = s->half_open_spoofed ? (uint32_t)number % ADDRESSES : sim_below(g, s->half_open_sources);
    uint8_t bytes[SHORTEST + FIRST] = {0xCC, SHORTEST, 0x00, 0x80 | 0x20};
    struct bt_pkt *p = bt_pool_get(&w->net.wire.pool);
    if (p == NULL) {
        return;
    }
    bt_put16(bytes + 4, (uint16_t)(number / s->half_open_sources));
    bt_put16(bytes + 6, (uint16_t)(2 + sim_below(g, PACKETS)));
    uint32_t router = w->net.first[SIM_ROUTER] + sim_below(g, s->routers);
    p->src = bt_addr_v4u(0x0a640000 + who, 33000);
    p->dst = sim_net_addr(&w->net, router, 0);
    memcpy(bt_pkt_append(p, sizeof bytes), bytes, sizeof bytes);
    sim_net_stranger(&w->net, router, p);
}
