// SPDX-License-Identifier: Apache-2.0
// What must hold of a world at rest: when nothing is under way any more, of the probes sent then, and of every buffer.
#include "ledger/ledger.h"

#include "router/router_config.h"
#include "world.h"

static void check_idle_worker(struct sim_world *w, uint32_t router, uint32_t server)
{
    struct bt_router_member_stats m;
    const struct sim_server *v = &w->server[server];
    if (!sim_router_row(w, router, server, &m)) {
        return;
    }
    sim_checked(&w->ledger.verdict, SIM_INV_CREDITS);
    if (m.outstanding != 0) {
        sim_breach(w, SIM_INV_CREDITS,
                   "idle, yet router %u counts %u outstanding at worker %u (sent %llu done %llu lost %llu)", router,
                   m.outstanding, server, (unsigned long long)m.sent, (unsigned long long)m.done,
                   (unsigned long long)m.lost);
    }
    uint32_t share = v->depth / w->s->routers, grant = v->legacy ? 1 : share > 0 ? share : 1;
    /* A legacy worker that was never heard is offered one request. R-61 shares n among the routers heard in the
     * last second: after an idle one that is nobody, or one. */
    uint32_t cap = w->router[router].depth, least = grant < cap ? grant : cap, most = v->depth < cap ? v->depth : cap;
    sim_checked(&w->ledger.verdict, SIM_INV_CAPACITY);
    /* Out for more than half of at least 20 (R-139a), for whatever reason it refused them: its back-off outlasts the
     * rest. */
    bool out = m.ejected && w->ledger.refusals[server] > 10;
    if ((!m.eligible && !out) || m.suspect || m.n < least || m.n > most) {
        sim_breach(w, SIM_INV_CAPACITY,
                   "idle, yet router %u sees worker %u with n %u (want %u to %u), eligible %d, suspect %d, ejected %d",
                   router, server, m.n, least, most, m.eligible, m.suspect, m.ejected);
    }
}

void sim_check_idle(struct sim_world *w)
{
    for (uint32_t r = 0; r < w->s->routers; r++) {
        struct bt_router_stats st;
        sim_router_totals(w, r, &st);
        if (st.held != 0) {
            sim_breach(w, SIM_INV_CREDITS, "idle, yet router %u holds %llu requests", r, (unsigned long long)st.held);
        }
        sim_check_admitted(w, r);
        for (uint32_t k = 0; k < w->s->workers; k++) {
            check_idle_worker(w, r, k);
        }
    }
    for (uint32_t k = 0; k < w->s->workers; k++) {
        for (uint32_t r = 0; r < w->s->routers; r++) {
            uint64_t received = 0, served = 0;
            if (!sim_server_counts(w, k, r, &received, &served)) {
                continue;
            }
            sim_checked(&w->ledger.verdict, SIM_INV_SERVED);
            if (received != served) {
                sim_breach(w, SIM_INV_SERVED, "idle, yet worker %u received %llu and served %llu for router %u", k,
                           (unsigned long long)received, (unsigned long long)served, r);
            }
        }
    }
}

void sim_check_probes(struct sim_world *w)
{
    for (uint64_t i = w->requests_main; i < w->requests_made; i++) {
        sim_checked(&w->ledger.verdict, SIM_INV_SERVICE);
        bool plain = !w->client[w->request[i].client].extensions; /* cannot say that it must not be refused */
        bool refused = w->request[i].outcome == SIM_DROPPED && w->s->admission_mode == BT_ADMISSION_REJECT;
        if (w->request[i].outcome == SIM_SUCCESS || (refused && plain)) {
            continue;
        }
        sim_breach(w, SIM_INV_SERVICE, "the faults are over, yet probe %llu ended with outcome %u",
                   (unsigned long long)(i - w->requests_main), w->request[i].outcome);
    }
}

/* A router on two threads may just have got a packet that neither has read. */
static uint32_t at_its_ports(const struct sim_world *w, uint32_t node)
{
    const struct sim_router *r = &w->router[node - w->net.first[SIM_ROUTER]];
    return r->thread[SIM_THREAD_REQ0].inbox.n + r->thread[SIM_THREAD_FEEDBACK].inbox.n;
}

void sim_check_buffers(struct sim_world *w)
{
    if (w->buffers.twice > 0) {
        sim_breach(w, SIM_INV_BUFFERS, "%u packets were given back or sent after they were free", w->buffers.twice);
    }
    char text[300];
    sim_checked(&w->ledger.verdict, SIM_INV_CONSERVED);
    if (w->net.disturbed && !sim_net_conserved(&w->net, text, sizeof text)) {
        sim_breach(w, SIM_INV_CONSERVED, "%s", text);
    }
    for (uint32_t i = 0; i < sim_net_nodes(&w->net); i++) {
        sim_checked(&w->ledger.verdict, SIM_INV_BUFFERS);
        enum sim_role role = sim_net_role(&w->net, i);
        if (w->net.holder[i].count == 0 || (role == SIM_ROUTER && w->net.holder[i].count == at_its_ports(w, i))) {
            continue;
        }
        static const char *const names[] = {"client", "router", "worker"};
        sim_breach(w, SIM_INV_BUFFERS, "idle, yet %s %u keeps %u packets", names[role], i - w->net.first[role],
                   w->net.holder[i].count);
    }
}
