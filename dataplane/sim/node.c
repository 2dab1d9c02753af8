// SPDX-License-Identifier: Apache-2.0
// What all nodes of a world have: address, clock, driver and pool.
#include "world.h"

#define MS 1000000ULL

struct bt_addr sim_addr(struct sim_world *w, enum sim_role role, uint32_t i, uint32_t port)
{
    return sim_net_addr(&w->net, w->net.first[role] + i, port);
}

uint32_t sim_node_of(struct sim_world *w, enum sim_role role, uint32_t i)
{
    return w->net.first[role] + i;
}

void sim_node_init(struct sim_world *w, struct sim_node *n, enum sim_role role, uint32_t i)
{
    static const bool always = true;
    n->world = w;
    n->role = role;
    n->index = i;
    n->node = sim_node_of(w, role, i);
    n->up = role == SIM_CLIENT ? &always : role == SIM_ROUTER ? &w->router[i].up : &w->server[i].up;
    w->node[n->node] = n;
    n->due_ns = n->wake_ns = n->asked_ns = UINT64_MAX;
    const struct bt_addr ports[BT_IO_SIM_PORTS] = {sim_addr(w, role, i, 0), sim_addr(w, role, i, 1)};
    n->link = (struct bt_io_sim_net){.send = sim_net_send, .ctx = &w->net, .now = &n->local_ns};
    bt_io_sim_init(&n->io, &n->link, n->node, ports);
    if (w->s->clocks_differ) { /* from a fresh boot to weeks of uptime */
        struct bt_rng *g = &w->stream[SIM_STREAM_EVENT];
        uint64_t uptime = bt_rng_next(g);
        n->clock.skew = 10000 * MS + (uptime >> (20 + sim_below(g, 40)));
    }
}

struct bt_pool *sim_node_pool(struct sim_node *n)
{
    return &n->world->net.holder[n->node].pool;
}

void sim_node_wake(struct sim_node *n, uint64_t next_ns)
{
    struct sim_world *w = n->world;
    next_ns = sim_clock_world(&n->clock, next_ns, w->agenda.now);
    if (next_ns == UINT64_MAX || next_ns >= n->wake_ns) {
        return;
    }
    n->wake_ns = next_ns;
    sim_agenda_push(&w->agenda, next_ns, (struct sim_event){.node = n->node, .kind = SIM_EVENT_WAKE});
}

struct sim_node *sim_node_by(struct sim_world *w, enum sim_role role, uint32_t i)
{
    return w->node[sim_node_of(w, role, i)];
}
