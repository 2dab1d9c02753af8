// SPDX-License-Identifier: Apache-2.0
// Packets that are changed on the way or come again by another way.
#include <string.h>

#include "net.h"

enum { BURST_MAX = 16, HEADER = 8 };

static void flip(struct sim_net *n, struct bt_pkt *p, enum sim_fault_kind how)
{
    if (how == SIM_FAULT_CORRUPT) {
        uint32_t bit = sim_below(&n->fault, p->len * 8);
        p->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        return;
    }
    uint32_t at = sim_below(&n->fault, p->len), count = 1 + sim_below(&n->fault, BURST_MAX);
    for (uint32_t i = at; i < p->len && i < at + count; i++) {
        p->data[i] ^= (uint8_t)(1 + sim_below(&n->fault, 255));
    }
}

/* What is left of a packet cut short within its header, which every role rejects (M-1), goes on as a packet of its own;
 * a message cut short anywhere else has no length that could tell, only the UDP checksum knows. */
static void send_stub(struct sim_net *n, const struct bt_pkt *p, uint32_t to)
{
    struct bt_pkt *stub = sim_net_copy(n, p);
    if (stub == NULL) {
        return;
    }
    stub->len = sim_below(&n->fault, HEADER);
    stub->mark |= SIM_MARK_CORRUPTED;
    stub->t_rx_ns = 0;
    sim_agenda_push(n->agenda, n->agenda->now + n->s->delay.client_router_ns,
                    (struct sim_event){.ptr = stub, .node = to, .kind = n->arrive_kind, .arg = UINT16_MAX});
}

bool sim_damage(struct sim_net *n, struct bt_pkt *p, enum sim_fault_kind how, uint32_t to)
{
    enum sim_packet kind = sim_packet_of(p);
    n->seen.damaged[how]++;
    /* UDP's checksum takes care of bit errors; only a tagged FEEDBACK must also survive an attacker who fixes the
     * checksum, so only that one is let through. */
    if (kind == SIM_PKT_FEEDBACK && n->s->tagged) {
        if (how == SIM_FAULT_TRUNCATE) {
            p->len = sim_below(&n->fault, p->len);
        } else {
            flip(n, p, how);
        }
        p->mark |= SIM_MARK_CORRUPTED;
        return false;
    }
    n->seen.corrupted[kind]++;
    n->seen.caught++;
    if (how == SIM_FAULT_TRUNCATE) {
        send_stub(n, p, to);
    }
    return true;
}

struct bt_pkt *sim_resent(struct sim_net *n, const struct bt_pkt *p, uint32_t *to)
{
    uint32_t from = sim_net_node(n, &p->src), now = sim_net_node(n, &p->dst);
    if (n->s->routers < 2 || from == UINT32_MAX || sim_net_role(n, from) != SIM_CLIENT ||
        sim_net_role(n, now) != SIM_ROUTER) {
        return NULL;
    }
    uint32_t router = (now - n->first[SIM_ROUTER] + 1 + sim_below(&n->fault, n->s->routers - 1)) % n->s->routers;
    struct bt_pkt *again = sim_net_copy(n, p);
    if (again == NULL) {
        return NULL;
    }
    *to = n->first[SIM_ROUTER] + router;
    again->dst = sim_net_addr(n, *to, 0);
    again->mark |= SIM_MARK_RESENT;
    return again;
}
