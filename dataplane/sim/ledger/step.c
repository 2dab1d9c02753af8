// SPDX-License-Identifier: Apache-2.0
// What must hold after every single step of a node, whatever it did: a client's and a worker's books against ours, and
// one row of a router at a time against the rules its counters obey.
#include "ledger/book.h"
#include "router/router.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "world.h"

void sim_check_client_step(struct sim_world *w, uint32_t client)
{
    const struct sim_client *c = &w->client[client];
    sim_checked(&w->ledger.verdict, SIM_INV_OPEN);
    if (bt_client_pending(c->core) != c->open) {
        sim_breach(w, SIM_INV_OPEN, "client %u counts %u requests pending, the application waits for %u", client,
                   bt_client_pending(c->core), c->open);
    }
}

/* a worker owes its routers nothing that it has not at hand. */
void sim_check_server_step(struct sim_world *w, uint32_t server)
{
    const struct sim_server *v = &w->server[server];
    struct bt_server_router_state st;
    uint64_t owed = 0;
    for (int i = 0; bt_server_router_state(v->core, i, &st); i++) {
        owed += st.received - st.served;
    }
    sim_checked(&w->ledger.verdict, SIM_INV_SERVED);
    if (owed > bt_server_backlog(v->core) || v->q_n > bt_server_backlog(v->core)) {
        sim_breach(w, SIM_INV_SERVED, "worker %u received %llu more than it served, and has %u at hand", server,
                   (unsigned long long)owed, bt_server_backlog(v->core));
    }
}

/* R-138 by the router's own clock; it looks at its workers every T_dead/8. A busy one may be silent for T_leak, which
 * follows the observed latency up to T_max. */
static void check_liveness(struct sim_world *w, uint32_t router, uint32_t server,
                           const struct bt_router_member_stats *m)
{
    const struct sim_credit *c = &w->ledger.credit[(size_t)router * w->s->workers + server];
    uint64_t dead = w->ledger.t_dead_ns, slack = dead / 4 + 2000000;
    uint64_t busy = w->s->request_timeout_ns > 100000000 ? w->s->request_timeout_ns : 100000000;
    uint64_t limit = m->outstanding > 0 && busy > dead ? busy : dead;
    if (m->legacy || !m->joined || m->feedback_age_ns == UINT64_MAX || w->agenda.now < c->excused_until) {
        return;
    }
    sim_checked(&w->ledger.verdict, SIM_INV_LIVENESS);
    if (m->eligible && m->feedback_age_ns > limit + slack) {
        sim_breach(w, SIM_INV_LIVENESS, "router %u still sends to worker %u, silent for %.3f ms", router, server,
                   (double)m->feedback_age_ns / 1e6);
    }
    uint64_t told_ago = c->told_unreachable != 0 ? w->agenda.now - c->told_unreachable : UINT64_MAX;
    bool told = told_ago < m->feedback_age_ns + m->feedback_age_ns / 8 + 1000; /* since it was heard */
    if (m->suspect && m->feedback_age_ns < dead && !told) {
        sim_breach(w, SIM_INV_LIVENESS, "router %u suspects worker %u, heard %.3f ms ago", router, server,
                   (double)m->feedback_age_ns / 1e6);
    }
}

static void check_ejection(struct sim_world *w, uint32_t router)
{
    struct bt_router_stats st;
    sim_router_totals(w, router, &st);
    sim_checked(&w->ledger.verdict, SIM_INV_EJECTION);
    if (st.ejected * 2 > w->s->workers) {
        sim_breach(w, SIM_INV_EJECTION, "router %u has ejected %u of %u workers", router, st.ejected, w->s->workers);
    }
}

static void check_row(struct sim_world *w, uint32_t router, uint32_t server, bool liveness)
{
    struct bt_router_member_stats m;
    if (!sim_router_row(w, router, server, &m)) {
        return;
    }
    sim_book_check(w, router, server, &m);
    if (liveness) {
        check_liveness(w, router, server, &m);
    }
}

/* Of the worker whose FEEDBACK was read and of one more, in turn; workers that got a request have been looked at as it
 * left. All of them where FEEDBACK is read in bursts, or without any credit may come back. */
void sim_check_router_step(struct sim_world *w, uint32_t router)
{
    uint32_t turn = w->ledger.turn++ % w->s->workers, concerned = w->ledger.concerned - 1;
    bool all = w->router[router].form->bursts || w->s->legacy_workers > 0;
    w->ledger.concerned = 0;
    for (uint32_t server = 0; all && server < w->s->workers; server++) {
        check_row(w, router, server, server == turn);
    }
    if (!all) {
        check_row(w, router, turn, true);
        if (concerned < w->s->workers && concerned != turn) {
            check_row(w, router, concerned, false);
        }
    }
    if (turn == 0 && w->net.seen.refused > 0) {
        check_ejection(w, router);
    }
}

/* The REQ0 half takes what was published before it decides, and nothing was published since: so it knows of
 * each worker what the half knows that hears it. */
void sim_check_halves(struct sim_world *w, uint32_t router)
{
    const struct sim_router *r = &w->router[router];
    uint64_t now = sim_node_now(&r->n);
    struct bt_router_member_stats q, f;
    for (uint32_t k = 0; k < w->s->workers; k++) {
        bool known = bt_router_member_decided(r->core, now, k, &q);
        if (known != bt_router_member(r->core, now, k, &f)) {
            sim_breach(w, SIM_INV_HALVES, "the halves of router %u differ in their members", router);
            return;
        }
        sim_checked(&w->ledger.verdict, SIM_INV_HALVES);
        if (!known || (bt_addr_eq(&q.addr, &f.addr) && q.outstanding == f.outstanding && q.n == f.n &&
                       q.eligible == f.eligible && q.joined == f.joined && q.leaving == f.leaving)) {
            continue;
        }
        sim_breach(
            w, SIM_INV_HALVES,
            "router %u decides by %u outstanding of %u at worker %u, eligible %d; it was told %u of %u, eligible %d",
            router, q.outstanding, q.n, k, q.eligible, f.outstanding, f.n, f.eligible);
    }
}
