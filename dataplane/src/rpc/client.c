// SPDX-License-Identifier: Apache-2.0
// Client life cycle: layout in the caller's memory, timers, ends of requests.
#include "rpc/client.h"

#include <stddef.h>
#include <string.h>

#include "base/rng.h"
#include "rpc/client_internal.h"

enum { TIMER_DEADLINE, TIMER_REPAIR };

static bool valid(const struct bt_client_cfg *cfg, struct bt_port *port)
{
    return cfg->max_pending > 0 && cfg->max_pending < 65536 && bt_rpc_timers_valid(&cfg->timers) && cfg->ops.success &&
           cfg->ops.timeout && cfg->ops.error && cfg->flow_targets <= 1024 &&
           bt_port_init(port, cfg->pool, &cfg->local, cfg->local_index, cfg->mtu, cfg->max_message);
}

// One walk for measuring and for laying out, so that the two cannot differ.
static struct bt_client *lay_out(const struct bt_client_cfg *cfg, const struct bt_port *port, struct bt_mem *m)
{
    struct bt_client *c = bt_mem_take(m, sizeof *c);
    struct bt_call *calls = bt_mem_take(m, cfg->max_pending * sizeof *calls);
    uint32_t *ids = bt_mem_take(m, 65536 * sizeof *ids);
    struct bt_fc_target *target = bt_mem_take(m, cfg->flow_targets * sizeof *target);
    struct bt_assembly_pool assemblies;
    struct bt_train_pool trains;
    bt_assembly_pool_init(&assemblies, m, cfg->max_assemblies, port->max_packets);
    bt_train_pool_init(&trains, m, cfg->max_assemblies, port->max_packets);
    if (!c || m->overflowed) {
        return NULL;
    }
    c->cfg = *cfg;
    c->port = *port;
    c->calls = calls;
    c->ids = ids;
    c->target = target;
    c->assemblies = assemblies;
    c->trains = trains;
    return c;
}

size_t bt_client_bytes(const struct bt_client_cfg *cfg)
{
    struct bt_port port;
    struct bt_mem m;
    if (!valid(cfg, &port)) {
        return 0;
    }
    bt_mem_init(&m, NULL, 0);
    lay_out(cfg, &port, &m);
    return m.used;
}

struct bt_client *bt_client_init(const struct bt_client_cfg *cfg, void *mem, size_t bytes, uint64_t now_ns)
{
    struct bt_port port;
    struct bt_mem m;
    if (!valid(cfg, &port)) {
        return NULL;
    }
    bt_mem_init(&m, mem, bytes);
    struct bt_client *c = lay_out(cfg, &port, &m);
    if (!c) {
        return NULL;
    }
    for (uint32_t i = cfg->max_pending; i-- > 0;) {
        c->calls[i].next_free = c->free;
        c->free = &c->calls[i];
    }
    bt_wheel_init(&c->wheel, now_ns);
    // Release times are kept in units of about 1/256 of the quarantine.
    while ((cfg->timers.quarantine_ns >> c->unit_shift) > 256) {
        c->unit_shift++;
    }
    c->quarantine = (uint32_t)(cfg->timers.quarantine_ns >> c->unit_shift) + 1;
    struct bt_rng rng;
    bt_rng_seed(&rng, cfg->seed);
    c->next_id = (uint16_t)bt_rng_next(&rng);
    return c;
}

struct bt_call *bt_client_find(struct bt_client *c, uint16_t req_id)
{
    uint32_t v = c->ids[req_id];
    return v & BT_ID_PENDING ? &c->calls[v & ~BT_ID_PENDING] : NULL;
}

void bt_client_finish(struct bt_client *c, struct bt_call *call, enum bt_id_end end)
{
    bt_client_flow_end(call);
    bt_wheel_del(&c->wheel, &call->deadline);
    bt_wheel_del(&c->wheel, &call->repair);
    if (call->train) {
        bt_train_put(&c->trains, call->train, c->port.pool);
    }
    if (call->reply) {
        bt_assembly_put(&c->assemblies, call->reply, c->port.pool);
    }
    call->train = NULL;
    call->reply = NULL;
    // +1: a release time of 0 with BT_ID_FAILED would read as "never used".
    uint32_t unit = (uint32_t)((c->now >> c->unit_shift) + 1) & BT_ID_TIME_MASK;
    c->ids[call->req_id] = ((uint32_t)end << BT_ID_END_SHIFT) | (unit ? unit : 1);
    call->state = BT_CALL_FREE;
    call->next_free = c->free;
    c->free = call;
    c->pending--;
}

void bt_client_fail(struct bt_client *c, struct bt_call *call, enum bt_rpc_error code)
{
    uint64_t cookie = call->cookie;
    bt_client_finish(c, call, BT_ID_FAILED);
    switch (code) {
    case BT_RPC_DROPPED:
        c->counters[BT_CLIENT_DROPPED]++;
        break;
    case BT_RPC_REPLY_INCOMPLETE:
        c->counters[BT_CLIENT_INCOMPLETE]++;
        break;
    default:
        c->counters[BT_CLIENT_CANCELLED]++;
        break;
    }
    c->cfg.ops.error(c->cfg.ops.arg, cookie, (int)code);
}

static void repair_reply(struct bt_client *c, struct bt_call *call)
{
    const struct bt_rpc_timers *t = &c->cfg.timers;
    uint8_t buf[BT_SACK_SIZE_MAX];
    switch (bt_assembly_due(call->reply, t, c->now, true)) {
    case BT_REPAIR_FAIL:
        bt_client_fail(c, call, BT_RPC_REPLY_INCOMPLETE);
        return;
    case BT_REPAIR_SACK: {
        struct bt_r2p2_hdr h = {.type = BT_SACK, .first = true, .last = true, .ext = true, .req_id = call->req_id};
        h.count_or_index = 1;
        size_t n = bt_assembly_sack(call->reply, BT_SACK_REPLY, buf);
        bool sent = bt_port_send(&c->port, &call->peer, &h, buf, (uint32_t)n, c->txq);
        c->counters[sent ? BT_CLIENT_SACK_SENT : BT_CLIENT_NO_BUFFER]++;
        c->counters[BT_CLIENT_PACKETS_SENT] += sent;
        break;
    }
    case BT_REPAIR_WAIT:
        break;
    }
    bt_wheel_add(&c->wheel, &call->repair, bt_assembly_deadline(call->reply, t, true));
}

static void on_timer(void *arg, struct bt_timer *t)
{
    struct bt_client *c = arg;
    if (t->kind == TIMER_REPAIR) {
        struct bt_call *call = (struct bt_call *)(void *)((char *)t - offsetof(struct bt_call, repair));
        if (call->state == BT_CALL_SENDING) {
            bt_client_burst(c, call, c->txq);
        } else if (call->state == BT_CALL_REPLYING) {
            repair_reply(c, call);
        }
        return;
    }
    struct bt_call *call = (struct bt_call *)(void *)((char *)t - offsetof(struct bt_call, deadline));
    uint64_t cookie = call->cookie;
    c->counters[BT_CLIENT_TIMED_OUT]++;
    bt_client_finish(c, call, BT_ID_FAILED);
    c->cfg.ops.timeout(c->cfg.ops.arg, cookie);
}

void bt_client_tick(struct bt_client *c, uint64_t now_ns, struct bt_txq *txq)
{
    bt_client_clock(c, now_ns);
    c->txq = txq;
    bt_wheel_advance(&c->wheel, c->now, on_timer, c);
    c->txq = NULL;
}

uint64_t bt_client_next(const struct bt_client *c)
{
    return bt_wheel_next(&c->wheel);
}

void bt_client_done(struct bt_client *c, struct bt_msg *reply)
{
    bt_msg_free(reply, c->port.pool);
}

void bt_client_close(struct bt_client *c, uint64_t now_ns)
{
    bt_client_clock(c, now_ns);
    c->closed = true; // what a callback started now would never end
    for (uint32_t i = 0; i < c->cfg.max_pending; i++) {
        if (c->calls[i].state != BT_CALL_FREE) {
            bt_client_fail(c, &c->calls[i], BT_RPC_CANCELLED);
        }
    }
}

uint32_t bt_client_pending(const struct bt_client *c)
{
    return c->pending;
}

const uint64_t *bt_client_counters(const struct bt_client *c)
{
    return c->counters;
}
