// SPDX-License-Identifier: Apache-2.0
// What a link does to a packet: delay by role, rack and rule, jitter, rate, and its share of loss.
#ifndef BOBTAIL_SIM_LINK_H
#define BOBTAIL_SIM_LINK_H

#include "net.h"

/* What a link decided for one packet. */
struct sim_passage {
    uint64_t delay_ns; /* from now to arrival */
    uint64_t late_ns;  /* of that, because it is held back out of order; twin: how much later the copy comes */
    bool lost, twice, free_order;
};

/* Which link rule governs each pair of nodes; NULL when there are none. Free with free(). */
uint8_t *sim_link_table(const struct sim_net *n);
/* Delay of an undisturbed packet: role, rack. */
static inline uint64_t sim_link_delay(const struct sim_net *n, uint32_t from, uint32_t to)
{
    enum sim_role a = sim_net_role(n, from), b = sim_net_role(n, to);
    uint64_t ns = n->delay_ns[a][b];
    if (n->s->racks > 1) {
        uint32_t x = (from - n->first[a]) % n->s->racks, y = (to - n->first[b]) % n->s->racks;
        ns += x == y ? n->s->same_rack_ns : n->s->cross_rack_ns;
    } else {
        ns += n->s->same_rack_ns;
    }
    return ns;
}
/* The whole of it, drawing what is random and taking the sender's device for as long as the packet needs. */
struct sim_passage sim_link_pass(struct sim_net *n, uint32_t from, uint32_t to, uint32_t bytes);

#endif
