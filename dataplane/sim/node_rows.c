// SPDX-License-Identifier: Apache-2.0
// What can be read of the nodes: rows and counters they publish, and whose request an id is. Nothing changes by it.
#include "router/router.h"
#include "rpc/server.h"
#include "world.h"

#define HEARD_NS 1000000000u

bool sim_router_row(const struct sim_world *w, uint32_t i, uint32_t worker, struct bt_router_member_stats *out)
{
    const struct sim_router *r = &w->router[i];
    return r->up && bt_router_member(r->core, sim_node_now(&r->n), worker, out);
}

void sim_router_totals(const struct sim_world *w, uint32_t i, struct bt_router_stats *out)
{
    bt_router_read_stats(w->router[i].core, sim_node_now(&w->router[i].n), out);
}

bool sim_server_counts(const struct sim_world *w, uint32_t i, uint32_t router, uint64_t *received, uint64_t *served)
{
    struct bt_server_router_state st;
    if (!w->server[i].up || !bt_server_router_state(w->server[i].core, (int)router, &st)) {
        return false;
    }
    *received = st.received;
    *served = st.served;
    return true;
}

bool sim_server_heard(const struct sim_world *w, uint32_t i, uint32_t router)
{
    struct bt_server_router_state st;
    return bt_server_router_state(w->server[i].core, (int)router, &st) && st.heard_ns != 0 &&
           sim_node_now(&w->server[i].n) - st.heard_ns < HEARD_NS;
}

uint32_t sim_request_of(struct sim_world *w, const struct bt_addr *client, uint16_t id)
{
    uint32_t node = sim_net_node(&w->net, client);
    if (node == UINT32_MAX || sim_net_role(&w->net, node) != SIM_CLIENT) {
        return UINT32_MAX;
    }
    return w->client[node].by_id[id] - 1;
}
