// SPDX-License-Identifier: Apache-2.0
// Starting a request: its id, its first packet, and the train behind it.
#include <string.h>

#include "rpc/client_internal.h"
#include "wire/fc_signal.h"

// Next id neither pending nor released less than a quarantine ago; -1: none
// among BT_ID_SCAN, and the next call goes on from there.
static int take_id(struct bt_client *c)
{
    uint32_t unit = (uint32_t)((c->now >> c->unit_shift) + 1) & BT_ID_TIME_MASK;
    for (uint32_t i = 0; i < BT_ID_SCAN; i++) {
        uint16_t id = c->next_id++;
        uint32_t v = c->ids[id];
        if (v == 0) {
            return id;
        }
        if (v & BT_ID_PENDING) {
            continue;
        }
        if (((unit - v) & BT_ID_TIME_MASK) > c->quarantine) {
            return id;
        }
    }
    return -1;
}

static inline void request_header(const struct bt_client *c, const struct bt_request *rq, bool flow,
                                  struct bt_r2p2_hdr *h)
{
    bt_r2p2_start(h, BT_REQUEST, rq->policy, c->cfg.extensions);
    if (!c->cfg.extensions) {
        return;
    }
    if (rq->with_class) {
        h->opt.present |= BT_HAS_CLASS;
        h->opt.class_id = rq->class_id;
        h->opt.class_flags = rq->class_flags;
    }
    if (rq->with_trace) {
        h->opt.present |= BT_HAS_TRACE;
        h->opt.trace = rq->trace;
    }
    if (flow) {
        h->opt.present |= BT_HAS_FLOW;
        h->opt.flow = BT_FC_VALUE_MAX; // F-33: nobody sends requests to us
    }
}

// Everything that can fail, done before anything is changed for good.
struct draft {
    struct bt_r2p2_hdr h;
    struct bt_split split;
    struct bt_pkt *first;
    struct bt_train *train;
};

static int draft_packets(struct bt_client *c, const struct bt_request *rq, bool flow, struct draft *d)
{
    uint32_t len = bt_iov_length(rq->iov, rq->iovcnt), full = bt_port_full(&c->port, &rq->dst);
    if (len > c->cfg.max_message) {
        return BT_RPC_TOO_LARGE;
    }
    request_header(c, rq, flow, &d->h);
    d->train = NULL;
    uint32_t taken = (uint32_t)bt_options_size(&d->h.opt) + (d->h.ext ? BT_R2P2_RESERVE : 0);
    d->split = bt_split_request(len, full - taken, full);
    if (d->split.count == 0 || d->split.count > c->port.max_packets) {
        return BT_RPC_TOO_LARGE;
    }
    struct bt_iov_cursor at = {.iov = rq->iov, .left = rq->iovcnt};
    d->first = bt_port_packet(&c->port, &rq->dst);
    if (!d->first) {
        return BT_RPC_NO_BUFFER;
    }
    bt_iov_take(&at, d->first, d->split.first);
    if (d->split.count == 1) {
        return 0;
    }
    d->train = bt_train_get(&c->trains, c->port.pool, &at, len, &d->split, 1);
    if (d->train) {
        return 0;
    }
    bt_pool_put(c->port.pool, d->first);
    return BT_RPC_NO_BUFFER;
}

static struct bt_call *open_call(struct bt_client *c, const struct bt_request *rq, const struct draft *d, uint16_t id)
{
    struct bt_call *call = c->free;
    c->free = call->next_free;
    // The rest is as bt_client_finish left it: no timer, no reply.
    call->cookie = rq->cookie;
    call->req_id = id;
    call->policy = rq->policy;
    call->peer_known = call->peer_ext = false;
    call->class_id = call->class_flags = 0;
    call->trace = 0;
    call->signalled = false;
    call->train = d->train;
    call->repair.kind = 1;
    call->multi = d->split.count > 1;
    call->state = call->multi ? BT_CALL_OFFERED : BT_CALL_SENT;
    c->ids[id] = BT_ID_PENDING | (uint32_t)(call - c->calls);
    c->pending++;
    return call;
}

int bt_client_send(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq, struct bt_txq *txq)
{
    return bt_client_send_charged(c, now_ns, rq, txq, NULL, 0);
}

bool bt_request_sound(const struct bt_request *rq)
{
    return rq->timeout_ns != 0 && rq->dst.port != 0 && rq->policy <= BT_POLICY_REPLICATED_READ && rq->iovcnt >= 0;
}

int bt_client_send_charged(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq, struct bt_txq *txq,
                           struct bt_fc_target *flow, uint32_t voice)
{
    struct draft d;
    if (!bt_request_sound(rq)) {
        return BT_RPC_BAD_ARGUMENT;
    }
    if (c->closed) {
        return BT_RPC_CANCELLED;
    }
    bt_client_clock(c, now_ns);
    if (!c->free) {
        c->counters[BT_CLIENT_REFUSED_TABLE]++;
        return BT_RPC_TABLE_FULL;
    }
    int err = draft_packets(c, rq, flow != NULL, &d);
    if (err) {
        c->counters[BT_CLIENT_NO_BUFFER] += err == BT_RPC_NO_BUFFER;
        return err;
    }
    int id = take_id(c);
    if (id < 0) {
        bt_pool_put(c->port.pool, d.first);
        if (d.train) {
            bt_train_put(&c->trains, d.train, c->port.pool);
        }
        c->counters[BT_CLIENT_REFUSED_ID]++;
        return BT_RPC_NO_ID;
    }
    struct bt_call *call = open_call(c, rq, &d, (uint16_t)id);
    call->flow = flow;
    call->flow_voice = voice;
    if (d.h.opt.present == 0 && !call->multi) { // headroom is larger than any header
        bt_r2p2_push_single(d.first, BT_REQUEST, rq->policy, c->cfg.extensions, (uint16_t)id);
    } else {
        d.h.last = !call->multi;
        d.h.req_id = call->req_id;
        d.h.count_or_index = (uint16_t)d.split.count;
        bt_r2p2_push_header(d.first, &d.h);
    }
    bt_txq_push(txq, d.first);
    uint64_t end = c->now + rq->timeout_ns;
    bt_wheel_add(&c->wheel, &call->deadline, end < c->now ? UINT64_MAX : end);
    c->counters[BT_CLIENT_STARTED]++;
    c->counters[BT_CLIENT_PACKETS_SENT]++;
    return id;
}

void bt_client_burst(struct bt_client *c, struct bt_call *call, struct bt_txq *txq)
{
    struct bt_r2p2_hdr h = {.type = BT_REQUEST, .policy = call->policy, .ext = c->cfg.extensions};
    h.req_id = call->req_id;
    struct bt_burst b = bt_train_burst(call->train, &c->port, &call->peer, &h, c->cfg.timers.burst, txq);
    c->counters[BT_CLIENT_PACKETS_SENT] += b.sent;
    c->counters[BT_CLIENT_RESENT] += b.resent;
    c->counters[BT_CLIENT_NO_BUFFER] += b.starved;
    if (call->train->todo) {
        bt_wheel_add(&c->wheel, &call->repair, c->now + c->cfg.timers.burst_gap_ns);
    }
}
