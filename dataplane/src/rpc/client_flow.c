// SPDX-License-Identifier: Apache-2.0
// Requests under flow control (F-40 to F-48): the address they go to has a token for them, or they do not leave.
#include "rpc/client_internal.h"
#include "wire/fc_signal.h"

// A place for a new address: a fresh one, else that of one with nothing under way, unused for longest. NULL: all have.
static struct bt_fc_target *place(struct bt_client *c)
{
    struct bt_fc_target *best = NULL;
    if (c->targets < c->cfg.flow_targets) {
        return &c->target[c->targets++];
    }
    for (uint32_t i = 0; i < c->targets; i++) {
        struct bt_fc_target *t = &c->target[i];
        if (t->unanswered == 0 && (best == NULL || t->used_ns < best->used_ns)) {
            best = t;
        }
    }
    return best;
}

static struct bt_fc_target *target_of(struct bt_client *c, const struct bt_addr *to)
{
    for (uint32_t i = 0; i < c->targets; i++) {
        if (bt_addr_eq(&c->target[i].to, to)) {
            return &c->target[i];
        }
    }
    struct bt_fc_target *t = place(c);
    if (t != NULL) {
        bt_fc_target_init(t, to);
    }
    return t;
}

static int try_one(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq, struct bt_txq *txq,
                   uint64_t *retry_after_ns)
{
    *retry_after_ns = BT_FC_PERIOD_US * 1000ull;
    struct bt_fc_target *t = target_of(c, &rq->dst);
    uint32_t voice = t != NULL ? bt_fc_target_take(t, c->now, retry_after_ns) : BT_FC_NOBODY;
    if (voice == BT_FC_NOBODY) {
        return BT_RPC_AGAIN;
    }
    int id = bt_client_send_charged(c, now_ns, rq, txq, t, voice);
    if (id < 0) {
        bt_fc_target_ended(t, voice);
    }
    return id;
}

int bt_client_try_any(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq,
                      const struct bt_replicas *replicas, struct bt_txq *txq, uint64_t *retry_after_ns)
{
    uint64_t shortest = UINT64_MAX;
    struct bt_request one = *rq;
    *retry_after_ns = 0;
    if (c->cfg.flow_targets == 0 || !c->cfg.extensions || replicas->n == 0) {
        return BT_RPC_BAD_ARGUMENT;
    }
    bt_client_clock(c, now_ns);
    for (uint32_t i = 0; i < replicas->n; i++) {
        uint64_t wait;
        one.dst = replicas->addr[(replicas->first + i) % replicas->n];
        if (!bt_request_sound(&one)) {
            return BT_RPC_BAD_ARGUMENT; // and takes no target's place
        }
        int id = try_one(c, now_ns, &one, txq, &wait);
        if (id != BT_RPC_AGAIN) {
            return id;
        }
        shortest = wait < shortest ? wait : shortest;
    }
    c->counters[BT_CLIENT_REFUSED_FLOW]++;
    *retry_after_ns = shortest;
    return BT_RPC_AGAIN;
}

int bt_client_try_send(struct bt_client *c, uint64_t now_ns, const struct bt_request *rq, struct bt_txq *txq,
                       uint64_t *retry_after_ns)
{
    struct bt_replicas one = {.addr = &rq->dst, .n = 1};
    return bt_client_try_any(c, now_ns, rq, &one, txq, retry_after_ns);
}

static void told(struct bt_client *c, struct bt_fc_target *t, const struct bt_addr *from, uint16_t signal)
{
    c->counters[BT_CLIENT_FLOW_SILENCE] += bt_fc_read(signal).idle;
    bt_fc_target_signalled(t, c->now, from, signal);
}

void bt_client_flow_replied(struct bt_client *c, struct bt_call *call, const struct bt_addr *from)
{
    struct bt_fc_target *t = call->flow;
    bt_client_flow_end(call);
    if (call->signalled) {
        told(c, t, from, call->signal);
    } else {
        bt_fc_target_unsignalled(t, c->now, from);
    }
}

void bt_client_flow_dropped(struct bt_client *c, struct bt_call *call, const struct bt_addr *from,
                            const struct bt_options *o)
{
    struct bt_fc_target *t = call->flow;
    bt_client_flow_end(call);
    if (t != NULL && (o->present & BT_HAS_FLOW) != 0) {
        told(c, t, from, o->flow);
    }
}
