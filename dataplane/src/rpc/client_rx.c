// SPDX-License-Identifier: Apache-2.0
// Packets that reach the client: REPLY, REQRDY, DROP, SACK. Each handler says
// whether it kept the packet, or which case rejected it.
#include <string.h>

#include "rpc/client_internal.h"

// A packet after parsing. kept: the handler owns it now.
struct arrival {
    struct bt_pkt *pkt;
    struct bt_r2p2_hdr h;
    struct bt_txq *txq;
    bool kept;
};

static bool late_reply(struct bt_client *c, uint16_t req_id)
{
    uint32_t v = c->ids[req_id];
    if (v == 0 || (v & BT_ID_PENDING)) {
        return false;
    }
    uint32_t end = (v >> BT_ID_END_SHIFT) & 3;
    c->counters[end == BT_ID_ANSWERED_HEDGEABLE ? BT_CLIENT_HEDGE_LATE : BT_CLIENT_LATE_REPLY]++;
    return true;
}

// Options ride on the F packet, which need not be the one that completes.
static void note_options(struct bt_call *call, const struct bt_options *o)
{
    if (o->present == 0) {
        return;
    }
    if (o->present & BT_HAS_CLASS) {
        call->class_id = o->class_id;
        call->class_flags = o->class_flags;
    }
    if (o->present & BT_HAS_TRACE) {
        call->trace = o->trace;
    }
    call->signalled = (o->present & BT_HAS_FLOW) != 0;
    call->signal = o->flow;
}

static inline __attribute__((always_inline)) void succeed(struct bt_client *c, struct bt_call *call, struct bt_msg *msg,
                                                          const struct bt_pkt *last)
{
    uint64_t cookie = call->cookie;
    struct bt_reply_info info = {.from = last->src, .req_id = call->req_id, .trace = call->trace};
    info.class_id = call->class_id;
    info.class_flags = call->class_flags;
    info.t_rx_ns = last->t_rx_ns ? last->t_rx_ns : c->now;
    if (__builtin_expect(call->flow != NULL, 0)) {
        bt_client_flow_replied(c, call, &last->src);
    }
    bool hedgeable = !call->multi && call->policy == BT_POLICY_UNRESTRICTED;
    bt_client_finish(c, call, hedgeable ? BT_ID_ANSWERED_HEDGEABLE : BT_ID_ANSWERED);
    c->counters[BT_CLIENT_SUCCEEDED]++;
    c->cfg.ops.success(c->cfg.ops.arg, cookie, msg, &info);
}

// From here on this server, and no other, answers the call; the request's own
// packets are not needed any more.
static void begin_reply(struct bt_client *c, struct bt_call *call, const struct arrival *a)
{
    call->peer = a->pkt->src;
    call->peer_known = true;
    call->peer_ext = a->h.ext && c->cfg.extensions;
    call->state = BT_CALL_REPLYING;
    bt_wheel_del(&c->wheel, &call->repair);
    if (call->train) {
        bt_train_put(&c->trains, call->train, c->port.pool);
    }
    call->train = NULL;
}

static enum bt_mcase single_reply(struct bt_client *c, struct bt_call *call, struct arrival *a)
{
    if (call->state == BT_CALL_REPLYING) {
        return BT_M11; // began as one of several packets
    }
    note_options(call, &a->h.opt);
    bt_pkt_pull(a->pkt, a->h.hdr_size);
    a->pkt->next = NULL;
    struct bt_msg msg = {.head = a->pkt, .len = a->pkt->len, .packets = 1};
    a->kept = true;
    succeed(c, call, &msg, a->pkt);
    return BT_M_OK;
}

__attribute__((noinline)) static enum bt_mcase part_of_reply(struct bt_client *c, struct bt_call *call,
                                                             struct arrival *a)
{
    enum bt_mcase why = BT_M_OK;
    struct bt_assembly *as = call->reply ? call->reply : bt_assembly_get(&c->assemblies, c->now);
    if (!as) {
        return BT_M24;
    }
    switch (bt_assembly_add(as, a->pkt, &a->h, c->now, (struct bt_assembly_owner){&c->port, c->counters}, &why)) {
    case BT_ASSEMBLY_REJECTED:
        if (!call->reply) {
            bt_assembly_put(&c->assemblies, as, c->port.pool);
        }
        return why;
    case BT_ASSEMBLY_DUPLICATE:
        c->counters[BT_CLIENT_DUPLICATE]++;
        return BT_M_OK;
    case BT_ASSEMBLY_COMPLETE: {
        struct bt_msg msg;
        a->kept = true;
        bt_assembly_take(as, &msg);
        call->reply = as;
        if (a->h.first) {
            note_options(call, &a->h.opt);
        }
        succeed(c, call, &msg, a->pkt);
        return BT_M_OK;
    }
    case BT_ASSEMBLY_ADDED:
        break;
    }
    a->kept = true;
    call->reply = as;
    if (a->h.first) {
        note_options(call, &a->h.opt);
    }
    if (call->state != BT_CALL_REPLYING) {
        begin_reply(c, call, a);
    }
    if (call->peer_ext) {
        bt_wheel_add(&c->wheel, &call->repair, bt_assembly_deadline(as, &c->cfg.timers, true));
    }
    return BT_M_OK;
}

static enum bt_mcase on_reply(struct bt_client *c, struct arrival *a)
{
    struct bt_call *call = bt_client_find(c, a->h.req_id);
    if (!call) {
        return late_reply(c, a->h.req_id) ? BT_M_OK : BT_M17;
    }
    if (call->state == BT_CALL_OFFERED) {
        return BT_M17;
    }
    // an unreplicated pair is answered by whom it was confirmed by; and
    // packets of two hedged replies must not mix.
    bool bound = call->state == BT_CALL_REPLYING || call->policy < BT_POLICY_REPLICATED_WRITE;
    if (call->peer_known && bound && !bt_addr_eq(&call->peer, &a->pkt->src)) {
        c->counters[call->multi ? BT_CLIENT_FOREIGN_REPLY : BT_CLIENT_HEDGE_LATE]++;
        return BT_M_OK;
    }
    return a->h.first && a->h.last ? single_reply(c, call, a) : part_of_reply(c, call, a);
}

// REQRDY, or a SACK that stands for a lost one.
static void confirm(struct bt_client *c, struct bt_call *call, const struct arrival *a)
{
    call->peer = a->pkt->src;
    call->peer_known = true;
    call->peer_ext = a->h.ext && c->cfg.extensions;
    call->state = BT_CALL_SENDING;
    bt_client_burst(c, call, a->txq);
}

__attribute__((noinline)) static enum bt_mcase on_reqrdy(struct bt_client *c, struct arrival *a)
{
    struct bt_call *call = bt_client_find(c, a->h.req_id);
    if (!call || call->state != BT_CALL_OFFERED) {
        return BT_M18;
    }
    confirm(c, call, a);
    return BT_M_OK;
}

__attribute__((noinline)) static enum bt_mcase on_drop(struct bt_client *c, struct arrival *a)
{
    struct bt_call *call = bt_client_find(c, a->h.req_id);
    if (!call || call->state == BT_CALL_REPLYING) {
        return BT_M19;
    }
    // Once a server confirmed, only that server may still refuse.
    if (call->peer_known && !bt_addr_eq(&call->peer, &a->pkt->src)) {
        return BT_M19;
    }
    bt_client_flow_dropped(c, call, &a->pkt->src, &a->h.opt);
    bt_client_fail(c, call, BT_RPC_DROPPED);
    return BT_M_OK;
}

__attribute__((noinline)) static enum bt_mcase on_sack(struct bt_client *c, struct arrival *a)
{
    struct bt_sack s;
    enum bt_mcase m = bt_sack_decode(a->h.payload, a->h.payload_len, &s);
    if (m) {
        return m;
    }
    struct bt_call *call = bt_client_find(c, a->h.req_id);
    if (!call || s.what != BT_SACK_REQUEST || !call->train || !c->cfg.extensions) {
        return BT_M20;
    }
    if (call->state == BT_CALL_SENDING && !bt_addr_eq(&call->peer, &a->pkt->src)) {
        return BT_M20;
    }
    m = bt_train_sack(call->train, &s, 1);
    if (m) {
        return m;
    }
    c->counters[BT_CLIENT_SACK_RECEIVED]++;
    if (call->state == BT_CALL_OFFERED) {
        confirm(c, call, a);
    } else if (!bt_timer_armed(&call->repair)) { // else a burst is due anyway
        bt_client_burst(c, call, a->txq);
    }
    return BT_M_OK;
}

static enum bt_mcase dispatch(struct bt_client *c, struct arrival *a)
{
    enum bt_mcase m = bt_port_check(&c->port, a->pkt);
    if (m) {
        return m;
    }
    if (!bt_r2p2_read_usual(a->pkt->data, a->pkt->len, BT_REPLY, &a->h)) {
        m = bt_r2p2_decode(a->pkt->data, a->pkt->len, BT_ROLE_CLIENT, &a->h);
    }
    if (m) {
        return m;
    }
    switch (a->h.type) {
    case BT_REPLY:
        return on_reply(c, a);
    case BT_REQRDY:
        return on_reqrdy(c, a);
    case BT_DROP:
        return on_drop(c, a);
    default:
        return on_sack(c, a);
    }
}

void bt_client_rx(struct bt_client *c, uint64_t now_ns, struct bt_pkt *pkt, struct bt_txq *txq)
{
    struct arrival a; // h is filled in by dispatch
    a.pkt = pkt;
    a.txq = txq;
    a.kept = false;
    bt_client_clock(c, now_ns);
    c->txq = txq;
    c->counters[dispatch(c, &a)]++;
    c->txq = NULL;
    if (!a.kept) {
        bt_pool_put(c->port.pool, pkt);
    }
}
