// SPDX-License-Identifier: Apache-2.0
// Packets that reach the server: whose pair they belong to, and the common
// case, a request of one packet.
#include <string.h>

#include "rpc/server_internal.h"

// What who is refused is told: it has left, and if it asked, it hears when to come again.
static uint16_t refusal_signal(struct bt_server *s, const struct bt_arrival *a)
{
    const struct bt_server_flow *f = &s->cfg.flow;
    if (a->flow == BT_FLOW_NONE) {
        return 0;
    }
    uint32_t number = a->flow & ~BT_FLOW_REFUSED;
    if (number == a->flow) {
        f->left(f->arg, number, NULL);
    }
    return a->h.ext && (a->h.opt.present & BT_HAS_FLOW) != 0 ? f->signal(f->arg, number, s->now) : 0;
}

// A request that will not run, said truthfully: counted as received and
// served at its router, and remembered, lest a duplicate of it runs.
void bt_server_refuse(struct bt_server *s, const struct bt_arrival *a, enum bt_server_counter why)
{
    s->counters[why]++;
    bt_server_send_refusal(s, a, refusal_signal(s, a));
    // A malformed one that came directly would be refused again: no trace.
    if (why != BT_SERVER_DROP_MALFORMED || a->router != BT_NO_ROUTER) {
        bt_server_remember_refused(s, a);
    }
    if (s->cfg.latency) {
        bt_hist_slices_arrived(s->cfg.latency, s->now, 1);
        bt_hist_slices_rejected(s->cfg.latency, s->now, 1);
    }
    bt_server_received(s, a->router);
    struct bt_finished f = {.client = &a->client, .req_id = a->h.req_id, .fate = BT_FEEDBACK_DROPPED};
    f.with_trace = a->h.opt.present & BT_HAS_TRACE;
    f.trace = f.with_trace ? a->h.opt.trace : 0;
    bt_server_served(s, a->router, &f, a->txq);
}

static inline __attribute__((always_inline)) void take_single(struct bt_server *s, struct bt_arrival *a)
{
    if (!s->free && !bt_server_displace(s, a->router)) {
        s->counters[BT_M24]++;
        bt_server_refuse(s, a, BT_SERVER_DROP_TABLE);
        return;
    }
    struct bt_pair *p = bt_server_new_pair(s, a);
    bt_server_received(s, a->router);
    s->counters[BT_SERVER_REQUESTS]++;
    bt_pkt_pull(a->pkt, a->h.hdr_size);
    a->pkt->next = NULL;
    a->kept = true;
    p->msg = (struct bt_msg){.head = a->pkt, .len = a->pkt->len, .packets = 1};
    bt_server_hand_over(s, p);
}

// F packet of a pair we know: the same again is ignored, another one
// under the same name is M-11.
static enum bt_mcase repeated_first(struct bt_server *s, const struct bt_arrival *a, uint32_t known)
{
    bool same = true;
    if (!(known & BT_PAIR_DONE)) {
        const struct bt_pair *p = &s->pair[known];
        const struct bt_pkt *have = p->in ? p->in->head : p->msg.head;
        same = p->policy == a->h.policy && p->packets == a->h.count_or_index &&
               (!have || bt_assembly_same_first(have, p->packets, &a->h));
    }
    if (!same) {
        return BT_M11;
    }
    s->counters[BT_SERVER_DUPLICATE]++;
    return BT_M_OK;
}

// Sound, and new. False: it was refused.
static inline __attribute__((always_inline)) bool admitted(struct bt_server *s, struct bt_arrival *a)
{
    const struct bt_server_flow *f = &s->cfg.flow;
    if (a->h.policy >= BT_POLICY_REPLICATED_WRITE && !s->cfg.replicated) {
        bt_server_refuse(s, a, BT_SERVER_DROP_POLICY);
        return false;
    }
    if (s->cfg.ops.admit && !s->cfg.ops.admit(s->cfg.ops.arg)) {
        bt_server_refuse(s, a, BT_SERVER_DROP_ADMIT);
        return false;
    }
    if (f->arrived) {
        struct bt_server_came came = {(a->h.opt.present & BT_HAS_FLOW) != 0, a->router != BT_NO_ROUTER};
        a->flow = f->arrived(f->arg, &a->client, came, s->now);
        if (a->flow & BT_FLOW_REFUSED) {
            bt_server_refuse(s, a, BT_SERVER_DROP_FLOW);
            return false;
        }
    }
    return true;
}

static inline __attribute__((always_inline)) enum bt_mcase on_first(struct bt_server *s, struct bt_arrival *a,
                                                                    enum bt_mcase flaw, bool hashed)
{
    if (!hashed) {
        a->hash = bt_pairs_hash(s->pairs.seed, &a->client, a->h.req_id);
    }
    uint32_t known = bt_pairs_look(&s->pairs, a->hash, &a->client, a->h.req_id);
    if (known != BT_PAIRS_NONE && (known & BT_PAIR_DONE)) {
        bt_server_forget_old(s);
        known = bt_pairs_look(&s->pairs, a->hash, &a->client, a->h.req_id);
        if (a->h.opt.present & BT_HAS_COPY) {
            known = bt_server_after_cancel(s, a, known);
        }
        if (!a->h.ext) {
            known = bt_server_after_restart(s, a, known);
        }
    }
    if (known != BT_PAIRS_NONE) { // a refused packet is not answered twice either
        enum bt_mcase m = flaw ? flaw : repeated_first(s, a, known);
        bt_server_pay_unwanted(s, a);
        return m;
    }
    if (!flaw && a->h.count_or_index > s->port.max_packets) {
        flaw = BT_M14;
    }
    if (flaw) {
        bt_server_refuse(s, a, BT_SERVER_DROP_MALFORMED);
        return flaw;
    }
    if (!admitted(s, a)) {
        return BT_M_OK;
    }
    if (!a->h.last) {
        return bt_server_open_message(s, a);
    }
    take_single(s, a);
    return BT_M_OK;
}

// flaw: BT_M6 or BT_M_OPT_CRITICAL, which a REQUEST is told by DROP.
static inline __attribute__((always_inline)) enum bt_mcase on_request(struct bt_server *s, struct bt_arrival *a,
                                                                      enum bt_mcase flaw, bool hashed)
{
    enum bt_mcase m = BT_M_OK;
    a->client = a->pkt->src;
    a->router = BT_NO_ROUTER;
    if (!a->h.first) {
        return flaw ? flaw : bt_server_message_part(s, a);
    }
    if (a->h.opt.present & BT_HAS_FORWARDED) {
        a->client = a->h.opt.forwarded;
    }
    if (bt_addr_bad_source(&a->client)) {
        return BT_M23;
    }
    if (s->router_top != 0 || (a->h.opt.present & BT_HAS_FORWARDED)) {
        a->router = bt_server_router_of(s, a, &m);
    }
    if (!m && bt_addr_eq(&a->client, &s->port.local)) { // no router can tell that from a client's
        bt_server_pay_unwanted(s, a);
        return BT_M23;
    }
    return m ? m : on_first(s, a, flaw, hashed);
}

static inline __attribute__((always_inline)) enum bt_mcase dispatch(struct bt_server *s, struct bt_arrival *a,
                                                                    size_t usual, bool ahead)
{
    enum bt_mcase m = bt_port_check(&s->port, a->pkt);
    if (m) {
        return m;
    }
    if (usual != 0) {
        bt_r2p2_take_usual(a->pkt->data, a->pkt->len, BT_REQUEST, usual, &a->h);
    } else {
        m = bt_r2p2_decode(a->pkt->data, a->pkt->len, BT_ROLE_SERVER, &a->h);
    }
    if (m && !((m == BT_M6 || m == BT_M_OPT_CRITICAL) && a->h.type == BT_REQUEST)) {
        return m;
    }
    if (a->h.type == BT_REQUEST) {
        return on_request(s, a, m, ahead && usual != 0);
    }
    return a->h.type == BT_SACK ? bt_server_on_sack(s, a) : bt_server_on_cancel(s, a);
}

int bt_server_adopt(struct bt_server *s, uint64_t now_ns, const struct bt_server_adopted *o, uint64_t *handle,
                    struct bt_txq *txq)
{
    struct bt_pkt first = {.t_rx_ns = o->t_first_ns};
    struct bt_arrival a = {
        .pkt = &first, .txq = txq, .client = o->client, .router = BT_NO_ROUTER, .flow = BT_FLOW_NONE};
    bt_server_clock(s, now_ns);
    bt_r2p2_start(&a.h, BT_REQUEST, o->policy, o->ext);
    a.h.req_id = o->req_id;
    a.h.count_or_index = 1;
    a.h.payload = NULL;
    a.h.payload_len = 0;
    a.hash = bt_pairs_hash(s->pairs.seed, &a.client, o->req_id);
    bt_server_forget_old(s);
    if (bt_pairs_look(&s->pairs, a.hash, &a.client, o->req_id) != BT_PAIRS_NONE) {
        return BT_RPC_BAD_ARGUMENT;
    }
    s->txq = txq;
    bool room = s->free || bt_server_displace(s, BT_NO_ROUTER);
    s->txq = NULL;
    if (!room) {
        return BT_RPC_NO_BUFFER;
    }
    struct bt_pair *p = bt_server_new_pair(s, &a);
    p->state = BT_PAIR_EXECUTING;
    p->t_handed_ns = s->now;
    s->counters[BT_SERVER_REQUESTS]++;
    *handle = (uint64_t)p->generation << 32 | (uint32_t)(p - s->pair);
    return 0;
}

/* Takes one packet. usual: bt_r2p2_usual of it. ahead: if it is, its hash is set; a constant: each way in has its own
 * code. */
static inline __attribute__((always_inline)) void take(struct bt_server *s, uint64_t now_ns, struct bt_arrival *a,
                                                       size_t usual, bool ahead)
{
    a->kept = false; // h and what follows from it are filled in by dispatch
    a->flow = BT_FLOW_NONE;
    bt_server_clock(s, now_ns);
    s->counters[dispatch(s, a, usual, ahead)]++;
    if (!a->kept) {
        bt_pool_put(s->port.pool, a->pkt);
    }
}

void bt_server_rx(struct bt_server *s, uint64_t now_ns, struct bt_pkt *pkt, struct bt_txq *txq)
{
    struct bt_arrival a;
    a.pkt = pkt;
    a.txq = s->txq = txq;
    take(s, now_ns, &a, bt_r2p2_usual(pkt->data, pkt->len, BT_REQUEST), false);
    s->txq = NULL;
}

/* Where the table will be looked into for a request of the usual form, asked for now. */
static inline uint32_t hash_ahead(const struct bt_server *s, const struct bt_pkt *pkt, size_t usual)
{
    struct bt_addr forwarded;
    const struct bt_addr *client = &pkt->src;
    if (__builtin_expect(usual == BT_R2P2_FORWARDED, 0)) {
        forwarded = bt_r2p2_forwarded(pkt->data);
        client = &forwarded;
    }
    uint32_t hash = bt_pairs_hash(s->pairs.seed, client, bt_get16(pkt->data + BT_R2P2_REQ_ID_AT));
    bt_pairs_ahead(&s->pairs, hash);
    return hash;
}

static inline void rx_some(struct bt_server *s, struct bt_pkt **pkts, unsigned n, struct bt_txq *txq)
{
    struct bt_arrival a;
    struct {
        uint32_t usual, hash;
    } ahead[BT_SERVER_AHEAD];
    for (unsigned i = 0; i < n; i++) {
        ahead[i].usual = (uint32_t)bt_r2p2_usual(pkts[i]->data, pkts[i]->len, BT_REQUEST);
        ahead[i].hash = ahead[i].usual != 0 ? hash_ahead(s, pkts[i], ahead[i].usual) : 0;
    }
    a.txq = txq;
    for (unsigned i = 0; i < n; i++) {
        a.pkt = pkts[i];
        a.hash = ahead[i].hash;
        take(s, pkts[i]->t_rx_ns, &a, ahead[i].usual, true);
    }
}

void bt_server_rx_burst(struct bt_server *s, struct bt_pkt **pkts, unsigned n, struct bt_txq *txq)
{
    if (n == 1) { // nothing to look ahead to
        bt_server_rx(s, pkts[0]->t_rx_ns, pkts[0], txq);
        return;
    }
    s->txq = txq;
    while (n != 0) {
        unsigned some = n < BT_SERVER_AHEAD ? n : BT_SERVER_AHEAD;
        rx_some(s, pkts, some, txq);
        pkts += some;
        n -= some;
    }
    s->txq = NULL;
}
