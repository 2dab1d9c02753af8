// SPDX-License-Identifier: Apache-2.0
// Executions of a request: how many there are at once, and how long they go on when it is answered. And what a router
// that takes copies back promises of those that wait.
#include "router/router_config.h"
#include "world.h"

void sim_check_executed(struct sim_world *w, uint32_t server, uint32_t request)
{
    struct sim_request *r = &w->request[request];
    uint16_t life = (uint16_t)w->server[server].life;
    sim_checked(&w->ledger.verdict, SIM_INV_ONE_EXECUTION);
    bool forgotten =
        r->answered_ns != 0 && sim_node_core_now(&w->server[server].n) >= r->answered_ns + w->ledger.quarantine_ns;
    if (r->executions > 0 && r->worker == server && r->life == life && !forgotten) {
        sim_breach(w, SIM_INV_ONE_EXECUTION, "worker %u executes request %u a second time", server, request);
    }
    r->executions++;
    r->live++;
    sim_checked(&w->ledger.verdict, SIM_INV_LIVE_COPIES);
    if (r->live > 2 && r->handed <= 1) { /* what the network repeats before a router is another request to that */
        sim_breach(w, SIM_INV_LIVE_COPIES, "%u copies of request %u are at workers", r->live, request);
    }
    r->worker = (uint16_t)server;
    r->life = life;
    r->answered_ns = 0;
}

void sim_check_answered(struct sim_world *w, uint32_t server, uint32_t request)
{
    struct sim_request *r = &w->request[request];
    uint64_t bound = w->s->hedging_cancel_ns, now = w->agenda.now;
    if (r->worker == server) { /* whose clock it is, and whose quarantine */
        r->answered_ns = sim_node_core_now(&w->server[server].n);
    }
    r->live--;
    if (r->replied_ns == 0) {
        r->replied_ns = now;
    }
    if (bound == 0 || w->s->hedging_cancellation == BT_HEDGING_CANCEL_NONE || r->handed > 1) {
        return;
    }
    sim_checked(&w->ledger.verdict, SIM_INV_CLEANED_UP);
    if (now - r->replied_ns > bound) {
        sim_breach(w, SIM_INV_CLEANED_UP, "worker %u went on with request %u for %.3f ms after it was answered", server,
                   request, (double)(now - r->replied_ns) / 1e6);
    }
}

/* The worker may execute it again, as another copy. */
void sim_check_let_go(struct sim_world *w, uint32_t server, uint32_t request)
{
    struct sim_request *r = &w->request[request];
    r->live--;
    r->worker = r->worker == server ? UINT16_MAX : r->worker;
    r->router = r->at == server ? 0 : r->router;
    r->router2 = r->at2 == server ? 0 : r->router2;
    r->handed_to = r->handed_to == server ? UINT16_MAX : r->handed_to;
}

/* A worker that may not be chosen, or has more than it granted, cannot take the newcomer. */
void sim_check_preempted(struct sim_world *w, uint32_t router, const struct bt_router_stats *st)
{
    struct bt_router_member_stats m;
    if (w->s->hedging_cancellation != BT_HEDGING_CANCEL_PREEMPTIVE || st->counter[BT_RC_CANCELS_NO_BUFFER] > 0) {
        return;
    }
    sim_checked(&w->ledger.verdict, SIM_INV_PREEMPTED);
    if (st->held == 0 || st->hedging_pairs == 0) {
        return;
    }
    for (uint32_t k = 0; k < w->s->workers; k++) {
        if (!sim_router_row(w, router, k, &m) || !m.eligible || m.outstanding > m.n) {
            return;
        }
    }
    sim_breach(w, SIM_INV_PREEMPTED, "router %u holds %llu requests while %llu have two live copies", router,
               (unsigned long long)st->held, (unsigned long long)st->hedging_pairs);
}
