// SPDX-License-Identifier: Apache-2.0
// What admission control and hedging promise, held against the packets a router sends and the counters it shows: a
// refusal is one DROP of a request that may be refused, and a hedged request goes to a worker that was idle, while
// nothing waited, within gate and budget.
#include "router/router_config.h"
#include "wire/r2p2.h"
#include "world.h"

/* the DROP is of a request that may be refused. The option is read by the router, so it must be sent. */
static void check_victim(struct sim_world *w, uint32_t router, const struct bt_pkt *p)
{
    uint32_t number = sim_request_of(w, &p->dst, (uint16_t)(p->data[4] << 8 | p->data[5]));
    if (number == UINT32_MAX) {
        return;
    }
    const struct sim_request *r = &w->request[number];
    bool spared = (r->flags & SIM_RQ_SPARED) != 0 && w->client[r->client].extensions;
    if (spared || (r->flags & SIM_RQ_STICKY) != 0) {
        sim_breach(w, SIM_INV_REFUSED, "router %u refused request %u, which must not be refused", router, number);
    }
}

/* as many DROPs as were counted, and one for each refusal. A router handles one packet at a time, so that with
 * one DROP and one refusal it is that one's. */
static void check_drops(struct sim_world *w, uint32_t router, const struct bt_txq *q, const struct bt_router_stats *st)
{
    const struct sim_promise *before = &w->ledger.promise[router];
    uint64_t drops = 0, counted = bt_router_drops(st->counter) - before->dropped;
    uint64_t refused = st->counter[BT_RC_DROP_ADMISSION] - before->refused;
    for (const struct bt_pkt *p = q->head; p != NULL; p = p->next) {
        drops += sim_packet_of(p) == SIM_PKT_DROP;
    }
    sim_checked(&w->ledger.verdict, SIM_INV_REFUSED);
    if (drops != counted) {
        sim_breach(w, SIM_INV_REFUSED, "router %u sent %llu DROPs and counted %llu", router, (unsigned long long)drops,
                   (unsigned long long)counted);
    }
    for (const struct bt_pkt *p = q->head; p != NULL && refused == 1 && drops == 1; p = p->next) {
        if (sim_packet_of(p) == SIM_PKT_DROP) {
            check_victim(w, router, p);
        }
    }
}

/* refusals are of droppable classes, and each was answered as the mode says. */
static void check_classes(struct sim_world *w, uint32_t router, const struct bt_router_stats *st)
{
    uint64_t refused = 0;
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        const struct bt_admission_class_stats *class = &st->admission_class[c];
        bool droppable = (BT_ADMISSION_DROPPABLE_DEFAULT >> c & 1u) != 0;
        refused += class->refused;
        if (class->refused > class->arrived || (!droppable && class->refused > 0) || (!droppable && class->share > 0)) {
            sim_breach(w, SIM_INV_REFUSED, "router %u refused %llu of %llu requests of class %u", router,
                       (unsigned long long)class->refused, (unsigned long long)class->arrived, c);
        }
    }
    uint64_t dropped = st->counter[BT_RC_DROP_ADMISSION];
    uint64_t marked = st->counter[BT_RC_DEGRADED] + st->counter[BT_RC_DEGRADE_NO_ROOM];
    bool reject = w->s->admission_mode == BT_ADMISSION_REJECT, degrade = w->s->admission_mode == BT_ADMISSION_DEGRADE;
    if (dropped != (reject ? refused : 0) || marked != (degrade ? refused : 0)) {
        sim_breach(w, SIM_INV_REFUSED, "router %u refused %llu requests, dropped %llu and marked %llu", router,
                   (unsigned long long)refused, (unsigned long long)dropped, (unsigned long long)marked);
    }
}

/* idle, nothing that was admitted is open, and nothing was heard of twice. */
void sim_check_admitted(struct sim_world *w, uint32_t router)
{
    struct bt_router_stats st;
    if (w->s->admission_mode == BT_ADMISSION_OBSERVE || !w->router[router].up) {
        return;
    }
    sim_router_totals(w, router, &st);
    uint64_t arrived = 0,
             gone = bt_router_drops(st.counter) - st.counter[BT_RC_DROP_POLICY] - st.counter[BT_RC_DROP_OPTION];
    uint64_t known = st.admission_unknown + st.admission_dropped;
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        arrived += st.admission_class[c].arrived;
        known += st.admission_class[c].within + st.admission_class[c].exceeded;
    }
    sim_checked(&w->ledger.verdict, SIM_INV_ADMITTED);
    if (arrived != gone + known) {
        sim_breach(w, SIM_INV_ADMITTED, "idle, yet router %u admitted %llu requests and knows the end of %llu", router,
                   (unsigned long long)(arrived - gone), (unsigned long long)known);
    }
}

/* what was busy before the first of these copies. */
static void check_gate(struct sim_world *w, uint32_t router, uint64_t copies, const struct bt_router_stats *st)
{
    struct bt_router_member_stats m;
    uint64_t up = 0, busy = 0;
    for (uint32_t k = 0; k < w->s->workers; k++) {
        if (!sim_router_row(w, router, k, &m) || !m.eligible || m.n == 0) {
            continue;
        }
        up++;
        busy += m.outstanding > 0;
    }
    if ((busy - 1) * 100 > w->s->hedging_busy * up) {
        sim_breach(w, SIM_INV_HEDGED, "router %u sent a hedged request while %llu of %llu workers were busy", router,
                   (unsigned long long)(busy - 1), (unsigned long long)up);
    }
    if (st->held > 0) {
        sim_breach(w, SIM_INV_HEDGED, "router %u sent %llu hedged requests while %llu requests waited", router,
                   (unsigned long long)copies, (unsigned long long)st->held);
    }
    /* What made room for a newcomer is none. */
    uint64_t spent = st->counter[BT_RC_HEDGES_SENT] - st->counter[BT_RC_PREEMPTIONS];
    if (spent * 100 > w->s->hedging_budget * st->counter[BT_RC_FORWARDED]) {
        sim_breach(w, SIM_INV_HEDGED, "router %u sent %llu hedged requests for %llu requests, %u %% are allowed",
                   router, (unsigned long long)st->counter[BT_RC_HEDGES_SENT],
                   (unsigned long long)st->counter[BT_RC_FORWARDED], w->s->hedging_budget);
    }
}

/* single packets of policy 0, that went to another worker before. The worker of the copy was idle: now it
 * owes this one alone. */
void sim_check_hedged(struct sim_world *w, uint32_t router, const struct bt_pkt *p)
{
    struct bt_r2p2_hdr h;
    struct bt_router_member_stats m;
    uint32_t node = sim_net_node(&w->net, &p->dst);
    bool read = node != UINT32_MAX && bt_r2p2_decode(p->data, p->len, BT_ROLE_SERVER, &h) == BT_M_OK;
    sim_checked(&w->ledger.verdict, SIM_INV_HEDGED);
    if (!read || h.type != BT_REQUEST || h.policy != BT_POLICY_UNRESTRICTED || !h.first || !h.last) {
        sim_breach(w, SIM_INV_HEDGED, "router %u sent a hedged request for what is not a single packet", router);
        return;
    }
    uint32_t server = node - w->net.first[SIM_SERVER];
    bool carried = (h.opt.present & BT_HAS_FORWARDED) != 0;
    uint32_t number = sim_request_of(w, carried ? &h.opt.forwarded : &p->src, h.req_id);
    if (!sim_router_row(w, router, server, &m) || m.outstanding != 1 || !m.eligible) {
        sim_breach(w, SIM_INV_HEDGED, "router %u sent a hedged request to worker %u, which owes %u", router, server,
                   m.outstanding);
    }
    if (number == UINT32_MAX) {
        return;
    }
    const struct sim_request *r = &w->request[number];
    if (r->handed == 1 && r->handed_by == router + 1 && r->handed_to == server) {
        sim_breach(w, SIM_INV_HEDGED, "router %u sent both copies of request %u to worker %u", router, number, server);
    }
}

static void check_copies(struct sim_world *w, uint32_t router, const struct bt_txq *q, const struct bt_router_stats *st)
{
    struct sim_promise *promise = &w->ledger.promise[router];
    promise->new_copies = (uint32_t)(st->counter[BT_RC_HEDGES_SENT] - promise->copies);
    if (promise->new_copies == 0) {
        return;
    }
    if (promise->new_copies > q->n) {
        sim_breach(w, SIM_INV_HEDGED, "router %u counts %u hedged requests and sends %u packets", router,
                   promise->new_copies, q->n);
        return;
    }
    check_gate(w, router, promise->new_copies, st);
}

void sim_check_promises(struct sim_world *w, uint32_t router, const struct bt_txq *q)
{
    struct sim_promise *promise = &w->ledger.promise[router];
    struct bt_router_stats st;
    if (w->s->admission_mode == BT_ADMISSION_OBSERVE && w->s->hedging_mode == BT_HEDGING_OFF) {
        return;
    }
    if (promise->life != w->router[router].life) {
        *promise = (struct sim_promise){.life = w->router[router].life};
    }
    sim_router_totals(w, router, &st);
    check_drops(w, router, q, &st);
    check_classes(w, router, &st);
    check_copies(w, router, q, &st);
    sim_check_preempted(w, router, &st);
    promise->dropped = bt_router_drops(st.counter);
    promise->refused = st.counter[BT_RC_DROP_ADMISSION];
    promise->copies = st.counter[BT_RC_HEDGES_SENT];
}
