// SPDX-License-Identifier: Apache-2.0
// Packets nobody may accept (r2p2.md §9): whatever state a node is in, they must not change it.
#include <string.h>

#include "world.h"

enum { LONGEST = 64 };

/* A well-formed single-packet REQUEST, to be spoilt. */
static uint32_t honest(struct bt_rng *g, uint8_t *p)
{
    static const uint8_t head[8] = {0xCC, 8, 0x00, 0xC0, 0, 0, 0, 1};
    uint32_t len = 8 + sim_below(g, LONGEST - 8);
    memcpy(p, head, sizeof head);
    p[4] = (uint8_t)bt_rng_next(g);
    p[5] = (uint8_t)bt_rng_next(g);
    for (uint32_t i = 8; i < len; i++) {
        p[i] = (uint8_t)bt_rng_next(g);
    }
    return len;
}

enum { SPOIL_COMMON = 9 };

/* Cases every role rejects. */
static uint32_t spoil(struct bt_rng *g, uint32_t which, uint8_t *p, uint32_t len)
{
    switch (which) {
    case 0:
        return sim_below(g, 8); /* M-1 */
    case 1:
        p[0] = (uint8_t)(0xCC + 1 + sim_below(g, 255));
        break; /* M-2 */
    case 2:
        p[1] = (uint8_t)sim_below(g, 8);
        break; /* M-3 */
    case 3:
        p[1] = (uint8_t)(len + 1 + sim_below(g, 100));
        break; /* M-3 */
    case 4:
        p[2] = (uint8_t)((9 + sim_below(g, 7)) << 4);
        break; /* M-5 */
    case 5:
        p[7] = 0;
        break; /* M-7: F with count 0 */
    case 6:
        p[7] = (uint8_t)(2 + sim_below(g, 200));
        break; /* M-8: F|L with another count */
    case 7:
        p[3] = 0x80;
        break; /* M-8: F alone with count 1 */
    default:   /* M-9: index 0 */
        p[3] = 0;
        p[7] = 0;
        break;
    }
    return len;
}

/* A FEEDBACK of 40 bytes that claims everything was served; without a valid tag. */
static uint32_t forged_feedback(struct bt_rng *g, uint8_t *p)
{
    memset(p, 0, 40);
    p[0] = 0xCC;
    p[1] = 8;
    p[2] = 0x20;
    p[3] = 0xC0;
    p[7] = 1;
    p[16] = 1;
    p[17] = 0x10;
    p[19] = 64;
    p[22] = (uint8_t)((SIM_FIRST_INCARNATION + 1) >> 8);
    p[23] = (uint8_t)(SIM_FIRST_INCARNATION + 1);
    p[30] = p[38] = 0xFF;
    p[31] = p[39] = (uint8_t)bt_rng_next(g);
    p[39] = p[31];
    return 40;
}

static void for_router(struct sim_world *w, struct bt_rng *g, struct bt_pkt *c, uint8_t *p, uint32_t *len, uint32_t r)
{
    struct bt_addr stranger = bt_addr_v4u(0x0a090909, 8000);
    bool known = sim_below(g, 2) == 0 && w->s->tagged;
    *len = forged_feedback(g, p);
    c->dst = sim_addr(w, SIM_ROUTER, r, 1);
    c->src = known ? sim_addr(w, SIM_SERVER, sim_below(g, w->s->workers), 0) : stranger;
    if (sim_below(g, 4) == 0) {
        *len = 17 + sim_below(g, 22); /* M-21: a length no FEEDBACK has */
    }
    if (sim_below(g, 8) == 0) {
        p[2] = 0x10; /* M-5: a REPLY at a router */
        c->dst.port = (uint16_t)(sim_below(g, 2) == 0 ? 8000 : 9000);
    }
}

void sim_garbage(struct sim_world *w)
{
    struct bt_rng *g = &w->stream[SIM_STREAM_GARBAGE];
    uint32_t node = sim_below(g, sim_net_nodes(&w->net));
    enum sim_role role = sim_net_role(&w->net, node);
    uint8_t bytes[LONGEST + 8] = {0};
    struct bt_pkt *c = bt_pool_get(&w->net.wire.pool);
    if (c == NULL) {
        return;
    }
    uint32_t len = honest(g, bytes), which = sim_below(g, SPOIL_COMMON + 4);
    c->src = bt_addr_v4u(0x0a090909, 4242);
    c->dst = sim_net_addr(&w->net, node, 0);
    if (which < SPOIL_COMMON) {
        len = spoil(g, which, bytes, len);
    } else if (role == SIM_ROUTER) {
        for_router(w, g, c, bytes, &len, node - w->net.first[SIM_ROUTER]);
    } else {
        len = forged_feedback(g, bytes); /* M-5: FEEDBACK at a client or a worker */
    }
    uint8_t *to = bt_pkt_append(c, len);
    if (to != NULL) {
        memcpy(to, bytes, len);
    }
    sim_net_inject(&w->net, node, c);
}
