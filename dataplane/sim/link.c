// SPDX-License-Identifier: Apache-2.0
// Link rules: the last that matches a pair of nodes governs it.
#include "link.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAME_BYTES = 66 }; /* Ethernet header, checksum, preamble and gap; IPv4 and UDP headers */

static bool matches(const struct sim_net *n, uint32_t role, double index, uint32_t node)
{
    enum sim_role r = sim_net_role(n, node);
    if (role != SIM_END_ANY && role != (uint32_t)r) {
        return false;
    }
    return index < 0 || (uint32_t)index == node - n->first[r];
}

uint8_t *sim_link_table(const struct sim_net *n)
{
    size_t nodes = sim_net_nodes(n);
    if (n->s->links_n == 0) {
        return NULL;
    }
    uint8_t *table = calloc(nodes * nodes, 1); /* 0: none, else 1 + rule */
    if (table == NULL) {
        fprintf(stderr, "bobtail-sim: out of memory for the links of %zu nodes\n", nodes);
        abort();
    }
    for (uint32_t i = 0; i < n->s->links_n; i++) {
        const struct sim_link *l = &n->s->link[i];
        for (uint32_t from = 0; from < nodes; from++) {
            if (!matches(n, l->from, l->from_index, from)) {
                continue;
            }
            for (uint32_t to = 0; to < nodes; to++) {
                if (matches(n, l->to, l->to_index, to)) {
                    table[from * nodes + to] = (uint8_t)(i + 1);
                }
            }
        }
    }
    return table;
}

static uint64_t jitter_of(struct sim_net *n, const struct sim_link *l)
{
    double mean = (double)l->jitter_ns;
    if (l->jitter_ns == 0) {
        return 0;
    }
    switch (l->jitter) {
    case SIM_JITTER_EXPONENTIAL:
        return (uint64_t)(-log(sim_uniform(&n->jitter)) * mean);
    case SIM_JITTER_LOGNORMAL: {
        const struct sim_dist d = {SIM_DIST_LOGNORMAL, mean, 1};
        return sim_dist_draw(&d, &n->jitter);
    }
    default:
        return (uint64_t)(sim_uniform(&n->jitter) * mean);
    }
}

/* The sender's device is busy with the packet for its bytes at the rate; others of the same sender wait. */
static uint64_t serialised(struct sim_net *n, const struct sim_link *l, uint32_t from, uint32_t bytes)
{
    uint64_t now = n->agenda->now, *busy = &n->busy_until[from];
    if (l->gigabits <= 0) {
        return 0;
    }
    if (*busy < now) {
        *busy = now;
    }
    *busy += (uint64_t)((double)(bytes + FRAME_BYTES) * 8 / l->gigabits + 0.5);
    return *busy - now;
}

struct sim_passage sim_link_pass(struct sim_net *n, uint32_t from, uint32_t to, uint32_t bytes)
{
    struct sim_passage p = {.delay_ns = sim_link_delay(n, from, to)};
    if (n->s->delay.jitter_ns > 0) {
        p.delay_ns += bt_rng_next(&n->jitter) % (n->s->delay.jitter_ns + 1);
    }
    uint8_t rule = n->link_of != NULL ? n->link_of[(size_t)from * sim_net_nodes(n) + to] : 0;
    if (rule == 0) {
        return p;
    }
    const struct sim_link *l = &n->s->link[rule - 1];
    if (l->delay_us >= 0) {
        p.delay_ns = (uint64_t)(l->delay_us * 1e3 + 0.5);
    }
    p.delay_ns += serialised(n, l, from, bytes) + jitter_of(n, l);
    if (n->calm) { /* faults are over */
        return p;
    }
    p.lost = sim_chance(&n->fault, l->loss);
    p.twice = sim_chance(&n->fault, l->duplicate);
    p.free_order = sim_chance(&n->fault, l->reorder);
    if (p.free_order) {
        p.late_ns = (uint64_t)(sim_uniform(&n->fault) * (double)l->reorder_ns);
    }
    return p;
}
