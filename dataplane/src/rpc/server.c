// SPDX-License-Identifier: Apache-2.0
// Server life cycle: layout in the caller's memory, pairs, timers.
#include "rpc/server.h"

#include <stddef.h>
#include <string.h>

#include "rpc/server_internal.h"

enum { FORGET_AHEAD = 8 }; // finished pairs before the one that is forgotten next

static bool valid(const struct bt_server_cfg *cfg, struct bt_port *port)
{
    const struct bt_rpc_timers *t = &cfg->timers;
    return cfg->n >= 1 && cfg->n <= 64 && cfg->max_pending > 0 && cfg->max_pending < (1u << 24) && cfg->max_done > 0 &&
           cfg->max_done < (1u << 24) && bt_rpc_timers_valid(t) && cfg->ops.on_request &&
           bt_port_init(port, cfg->pool, &cfg->local, cfg->local_index, cfg->mtu, cfg->max_message);
}

// One walk for measuring and for laying out, so that the two cannot differ.
static struct bt_server *lay_out(const struct bt_server_cfg *cfg, const struct bt_port *port, struct bt_mem *m)
{
    struct bt_server *s = bt_mem_take(m, sizeof *s);
    struct bt_pair *pair = bt_mem_take(m, cfg->max_pending * sizeof *pair);
    struct bt_done *done = bt_mem_take(m, cfg->max_done * sizeof *done);
    uint32_t limit = cfg->max_pending + cfg->max_done;
    void *table = bt_mem_take(m, bt_pairs_bytes(limit));
    struct bt_assembly_pool assemblies;
    struct bt_train_pool trains;
    bt_assembly_pool_init(&assemblies, m, cfg->max_assemblies, port->max_packets);
    bt_train_pool_init(&trains, m, cfg->max_assemblies, port->max_packets);
    if (!s || m->overflowed) {
        return NULL;
    }
    s->cfg = *cfg;
    s->port = *port;
    s->pair = pair;
    s->done = done;
    s->assemblies = assemblies;
    s->trains = trains;
    bt_pairs_init(&s->pairs, table, limit, cfg->seed);
    return s;
}

size_t bt_server_bytes(const struct bt_server_cfg *cfg)
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

struct bt_server *bt_server_init(const struct bt_server_cfg *cfg, void *mem, size_t bytes, uint64_t now_ns)
{
    struct bt_port port;
    struct bt_mem m;
    if (!valid(cfg, &port)) {
        return NULL;
    }
    bt_mem_init(&m, mem, bytes);
    struct bt_server *s = lay_out(cfg, &port, &m);
    if (!s) {
        return NULL;
    }
    for (uint32_t i = cfg->max_pending; i-- > 0;) {
        s->pair[i].next_free = s->free;
        s->free = &s->pair[i];
    }
    s->began = now_ns;
    bt_wheel_init(&s->wheel, now_ns);
    bt_server_shares(s);
    bt_wheel_add(&s->wheel, &s->period, now_ns);
    return s;
}

/* What the table has of one that is forgotten soon is asked for now: it was not looked at for long. */
static inline void ask_for_forgotten(const struct bt_server *s)
{
    uint32_t at = s->done_head + FORGET_AHEAD;
    at = at >= s->cfg.max_done ? 0 : at; // whichever then: it is only looked at sooner
    bt_pairs_ahead(&s->pairs, s->done[at].hash);
}

static inline __attribute__((always_inline)) void forget_oldest(struct bt_server *s)
{
    ask_for_forgotten(s);
    struct bt_pairs_slot *entry = bt_pairs_entry(&s->pairs, s->done[s->done_head].hash, BT_PAIR_DONE | s->done_head);
    if (entry) {
        bt_pairs_remove(&s->pairs, entry);
    }
    s->done_head = s->done_head + 1 == s->cfg.max_done ? 0 : s->done_head + 1;
    s->done_count--;
}

void bt_server_forget_old(struct bt_server *s)
{
    while (s->done_count && s->done[s->done_head].until_ns <= s->now) {
        forget_oldest(s);
    }
}

__attribute__((noinline)) static void forget_early(struct bt_server *s)
{
    forget_oldest(s);
}

// Where the next finished pair is to be remembered; the oldest one gives way.
static inline uint32_t place_for_done(struct bt_server *s)
{
    if (s->done_count == s->cfg.max_done) {
        forget_early(s);
    }
    uint32_t at = s->done_head + s->done_count;
    return at >= s->cfg.max_done ? at - s->cfg.max_done : at;
}

static inline void remember_at(struct bt_server *s, uint32_t at, uint32_t hash, uint32_t content)
{
    s->done[at] = (struct bt_done){.hash = hash, .content = content, .until_ns = s->now + s->cfg.timers.quarantine_ns};
    s->done_count++;
}

// A pair ends: its entry stays, under another value.
static inline void remember(struct bt_server *s, const struct bt_pair *p)
{
    uint32_t at = place_for_done(s); // first: forgetting moves entries
    struct bt_pairs_slot *entry = bt_pairs_entry(&s->pairs, p->hash, (uint32_t)(p - s->pair));
    if (!entry) {
        return;
    }
    entry->value = BT_PAIR_DONE | at;
    remember_at(s, at, p->hash, p->content);
}

// A request that never became a pair. The table has room: max_done was reserved for these.
void bt_server_remember_refused(struct bt_server *s, const struct bt_arrival *a)
{
    uint32_t at = place_for_done(s);
    if (bt_pairs_add(&s->pairs, a->hash, &a->client, a->h.req_id, BT_PAIR_DONE | at)) {
        remember_at(s, at, a->hash, a->h.ext ? 0 : bt_server_content(s, &a->h));
    }
}

static void take_options(struct bt_pair *p, const struct bt_options *o)
{
    if (p->echo & BT_HAS_CLASS) {
        p->class_id = o->class_id;
        p->class_flags = o->class_flags;
    }
    if (p->echo & BT_HAS_TRACE) {
        p->trace = o->trace;
    }
    if (p->echo & BT_HAS_COPY) {
        p->copy = o->copy;
    }
    if (p->echo & BT_HAS_SESSION) {
        p->session = o->session;
        p->session_seq = o->session_seq;
    }
    if ((p->echo & BT_HAS_COPY) && o->copy == 0) {
        p->echo &= (uint8_t)~BT_HAS_COPY; // no router writes that
    }
}

struct bt_pair *bt_server_new_pair(struct bt_server *s, const struct bt_arrival *a)
{
    struct bt_pair *p = s->free;
    s->free = p->next_free;
    uint32_t generation = p->generation + 1;
    // The rest is as free_pair left it: no timer, no packets.
    p->client = a->client;
    p->req_id = a->h.req_id;
    p->policy = a->h.policy;
    p->router = a->router;
    p->class_id = p->class_flags = 0;
    p->trace = 0;
    p->generation = generation ? generation : 1;
    p->ext = a->h.ext;
    p->content = a->h.ext ? 0 : bt_server_content(s, &a->h);
    p->packets = a->h.count_or_index;
    p->echo = (uint8_t)(a->h.opt.present & (BT_ECHOED | BT_HAS_COPY | BT_HAS_SESSION));
    if (p->echo) {
        take_options(p, &a->h.opt);
    }
    p->t_first_ns = a->pkt->t_rx_ns ? a->pkt->t_rx_ns : s->now;
    p->hash = a->hash;
    p->flow = a->flow;
    p->flow_asked = (a->h.opt.present & BT_HAS_FLOW) != 0;
    p->measured = false;
    p->signal = 0;
    bt_pairs_add(&s->pairs, p->hash, &p->client, p->req_id, (uint32_t)(p - s->pair));
    s->backlog++;
    if (s->cfg.latency) {
        bt_hist_slices_arrived(s->cfg.latency, s->now, 1);
    }
    return p;
}

void bt_server_hand_over(struct bt_server *s, struct bt_pair *p)
{
    p->state = BT_PAIR_EXECUTING;
    p->t_handed_ns = s->now;
    struct bt_server_request rq = {
        .handle = (uint64_t)p->generation << 32 | (uint32_t)(p - s->pair),
        .msg = p->msg,
        .client = p->client,
        .req_id = p->req_id,
        .policy = p->policy,
        .class_id = p->class_id,
        .class_flags = p->class_flags,
        .router = p->router == BT_NO_ROUTER ? -1 : p->router,
        .trace = p->trace,
        .t_first_ns = p->t_first_ns,
    };
    if (p->echo & BT_HAS_SESSION) {
        rq.session = p->session;
        rq.session_seq = p->session_seq;
    }
    s->cfg.ops.on_request(s->cfg.ops.arg, &rq, s->txq);
}

void bt_server_free_pair(struct bt_server *s, struct bt_pair *p)
{
    bt_wheel_del(&s->wheel, &p->timer);
    if (p->state == BT_PAIR_KEPT) {
        bt_pair_list_remove(&s->kept, p);
    }
    if (p->in) {
        bt_assembly_put(&s->assemblies, p->in, s->port.pool);
    }
    if (p->out) {
        bt_train_put(&s->trains, p->out, s->port.pool);
    }
    bt_msg_free(&p->msg, s->port.pool);
    p->in = NULL;
    p->out = NULL;
    p->state = BT_PAIR_FREE;
    p->next_free = s->free;
    s->free = p;
    remember(s, p);
}

static void on_timer(void *arg, struct bt_timer *t)
{
    struct bt_server *s = arg;
    if (t == &s->period) {
        bt_server_forget_old(s);
        bt_server_expire_held(s);
        bt_server_periodic(s);
        return;
    }
    struct bt_pair *p = (struct bt_pair *)(void *)((char *)t - offsetof(struct bt_pair, timer));
    switch (p->state) {
    case BT_PAIR_RECEIVING:
        bt_server_repair(s, p);
        break;
    case BT_PAIR_SENDING:
        bt_server_next_burst(s, p, s->txq);
        break;
    case BT_PAIR_KEPT:
        if (p->out && p->out->todo) {
            bt_server_next_burst(s, p, s->txq);
        } else {
            bt_server_free_pair(s, p);
        }
        break;
    default:
        break;
    }
}

void bt_server_tick(struct bt_server *s, uint64_t now_ns, struct bt_txq *txq)
{
    bt_server_clock(s, now_ns);
    s->txq = txq;
    bt_wheel_advance(&s->wheel, s->now, on_timer, s);
    s->txq = NULL;
}

uint64_t bt_server_next(const struct bt_server *s)
{
    return bt_wheel_next(&s->wheel);
}

int bt_server_set_timers(struct bt_server *s, const struct bt_rpc_timers *timers)
{
    if (!bt_rpc_timers_valid(timers)) {
        return BT_RPC_BAD_ARGUMENT;
    }
    s->cfg.timers = *timers;
    return 0;
}

uint32_t bt_server_backlog(const struct bt_server *s)
{
    return s->backlog;
}

const uint64_t *bt_server_counters(const struct bt_server *s)
{
    return s->counters;
}
