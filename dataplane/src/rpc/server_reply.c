// SPDX-License-Identifier: Apache-2.0
// Replies and refusals. A short reply goes straight from the caller's iovec to
// the wire; one that may need repair or pacing is kept as a train.
#include <string.h>

#include "rpc/server_internal.h"

static struct bt_pair *executing(struct bt_server *s, uint64_t handle)
{
    uint32_t i = (uint32_t)handle;
    if (i >= s->cfg.max_pending) {
        return NULL;
    }
    struct bt_pair *p = &s->pair[i];
    return p->state == BT_PAIR_EXECUTING && p->generation == handle >> 32 ? p : NULL;
}

static inline void reply_header(const struct bt_pair *p, struct bt_r2p2_hdr *h)
{
    bt_r2p2_start(h, BT_REPLY, p->policy, p->ext);
    h->req_id = p->req_id;
    if (!p->ext) {
        return; // options only to peers known to understand them (§11)
    }
    h->opt.present = p->echo & BT_ECHOED;
    h->opt.class_id = p->class_id;
    h->opt.class_flags = p->class_flags;
    h->opt.trace = p->trace;
    if (p->signal != 0) {
        h->opt.present |= BT_HAS_FLOW;
        h->opt.flow = p->signal;
    }
}

// The request has left, executed or not (took NULL), and its client is told what it may do (F-19). Once: a reply that
// finds no buffer comes again.
__attribute__((noinline)) static void flow_left(struct bt_server *s, struct bt_pair *p,
                                                const struct bt_server_took *took)
{
    const struct bt_server_flow *f = &s->cfg.flow;
    uint32_t number = p->flow;
    p->flow = BT_FLOW_NONE;
    f->left(f->arg, number, took);
    if (p->flow_asked && p->ext) {
        p->signal = f->signal(f->arg, number, s->now);
        s->counters[BT_SERVER_FLOW_SIGNALS] += p->signal != 0;
    }
}

// Without bt_server_measured: a worker executes one request at a time, as with the service time below.
static inline void flow_replied(struct bt_server *s, struct bt_pair *p)
{
    if (__builtin_expect(p->flow == BT_FLOW_NONE, 1)) {
        return;
    }
    struct bt_server_took took = {p->t_handed_ns > s->free_ns ? p->t_handed_ns : s->free_ns, s->now};
    flow_left(s, p, p->measured ? &p->took : &took);
}

void bt_server_measured(struct bt_server *s, uint64_t handle, uint64_t began_ns, uint64_t ended_ns)
{
    struct bt_pair *p = executing(s, handle);
    if (p != NULL) {
        p->measured = true;
        p->took = (struct bt_server_took){began_ns, ended_ns};
    }
}

// the sampled ones. The application has given its answer, the network has it.
static void note_trace(struct bt_server *s, const struct bt_pair *p, bool dropped)
{
    if (p->trace != 0) {
        bt_trace_note(s->cfg.traces, &(struct bt_trace){.id = p->trace,
                                                        .start_ns = p->t_first_ns,
                                                        .middle_ns = p->t_handed_ns,
                                                        .end_ns = s->now,
                                                        .client = p->client,
                                                        .worker = s->cfg.local,
                                                        .req_id = p->req_id,
                                                        .routed = p->router != BT_NO_ROUTER,
                                                        .dropped = dropped});
    }
}

// The last reply packet is in txq: FEEDBACK follows it.
static void reply_sent(struct bt_server *s, struct bt_pair *p, struct bt_txq *txq)
{
    s->counters[BT_SERVER_REPLIES]++;
    note_trace(s, p, false);
    if (s->cfg.latency) {
        bt_hist_slices_record(s->cfg.latency, s->now, s->now > p->t_first_ns ? s->now - p->t_first_ns : 0);
    }
    bt_server_end(s, p, 0, txq);
}

// A worker executes one request at a time: one that was handed over while another was at work waited for it.
// With that in it the service time would say half of what the worker can do.
static void request_done(struct bt_server *s, struct bt_pair *p)
{
    uint64_t began = p->t_handed_ns > s->free_ns ? p->t_handed_ns : s->free_ns;
    if (s->cfg.service) {
        bt_hist_slices_record(s->cfg.service, s->now, s->now > began ? s->now - began : 0);
    }
    s->free_ns = s->now;
    bt_msg_free(&p->msg, s->port.pool);
}

// Whole reply in packets made from the iovec at once; NULL chain on failure.
static bool send_direct(struct bt_server *s, const struct bt_pair *p, const struct bt_split *split, uint32_t len,
                        struct bt_iov_cursor *iov, struct bt_txq *txq)
{
    struct bt_r2p2_hdr h;
    struct bt_txq made;
    reply_header(p, &h);
    bt_txq_init(&made);
    for (uint32_t i = 0; i < split->count; i++) {
        struct bt_pkt *pkt = bt_port_packet(&s->port, &p->client);
        if (!pkt) {
            bt_pool_put_chain(s->port.pool, made.head);
            s->counters[BT_SERVER_NO_BUFFER]++;
            return false;
        }
        uint32_t want = i ? split->rest : split->first, n = len < want ? len : want;
        bt_iov_take(iov, pkt, n);
        len -= n;
        h.first = i == 0;
        h.last = i == split->count - 1;
        h.count_or_index = (uint16_t)(i ? i : split->count);
        if (i) {
            h.opt.present = 0;
        }
        bt_r2p2_push_header(pkt, &h); // headroom is larger than any header
        bt_txq_push(&made, pkt);
    }
    s->counters[BT_SERVER_PACKETS_SENT] += made.n;
    for (struct bt_pkt *pkt; (pkt = bt_txq_pop(&made));) {
        bt_txq_push(txq, pkt);
    }
    return true;
}

static int reply_directly(struct bt_server *s, struct bt_pair *p, const struct bt_split *split, uint32_t len,
                          struct bt_iov_cursor *iov, struct bt_txq *txq)
{
    if (!send_direct(s, p, split, len, iov, txq)) {
        return BT_RPC_NO_BUFFER;
    }
    request_done(s, p);
    reply_sent(s, p, txq);
    bt_server_free_pair(s, p);
    return 0;
}

// The common case: one packet, h its header, NULL for one without options. It replaces the request, whose pair ends
// here.
static int reply_single(struct bt_server *s, struct bt_pair *p, struct bt_r2p2_hdr *h, uint32_t len,
                        struct bt_iov_cursor *iov, struct bt_txq *txq)
{
    struct bt_pkt *pkt = bt_port_packet(&s->port, &p->client);
    if (!pkt) {
        s->counters[BT_SERVER_NO_BUFFER]++;
        return BT_RPC_NO_BUFFER;
    }
    bt_iov_take(iov, pkt, len);
    if (h == NULL) { // headroom is larger than any header
        bt_r2p2_push_single(pkt, BT_REPLY, p->policy, p->ext, p->req_id);
    } else {
        h->last = true;
        h->count_or_index = 1;
        bt_r2p2_push_header(pkt, h);
    }
    bt_txq_push(txq, pkt);
    s->counters[BT_SERVER_PACKETS_SENT]++;
    request_done(s, p);
    reply_sent(s, p, txq);
    bt_server_free_pair(s, p);
    return 0;
}

// A train for a new reply; sent replies kept for repair give way, oldest first.
static struct bt_train *get_train(struct bt_server *s, const struct bt_iov_cursor *iov, uint32_t len,
                                  const struct bt_split *split)
{
    for (;;) {
        struct bt_iov_cursor at = *iov;
        struct bt_train *t = bt_train_get(&s->trains, s->port.pool, &at, len, split, 0);
        if (t || !s->kept.head) {
            return t;
        }
        bt_server_free_pair(s, s->kept.head);
    }
}

int bt_server_reply(struct bt_server *s, uint64_t now_ns, uint64_t handle, const struct iovec *iov, int iovcnt,
                    struct bt_txq *txq)
{
    struct bt_pair *p = executing(s, handle);
    if (!p || iovcnt < 0) {
        return BT_RPC_BAD_ARGUMENT;
    }
    bt_server_clock(s, now_ns);
    uint32_t len = bt_iov_length(iov, iovcnt), full = bt_port_full(&s->port, &p->client);
    uint32_t first = full;
    if (len > s->cfg.max_message) {
        return BT_RPC_TOO_LARGE;
    }
    flow_replied(s, p);
    bool options = p->ext && ((p->echo & BT_ECHOED) || p->signal != 0);
    struct bt_r2p2_hdr h;
    if (options) {
        reply_header(p, &h);
        first -= (uint32_t)bt_options_size(&h.opt);
    }
    struct bt_iov_cursor at = {.iov = iov, .left = iovcnt};
    if (len <= first) {
        return reply_single(s, p, options ? &h : NULL, len, &at, txq);
    }
    struct bt_split split = bt_split_reply(len, first, full);
    if (split.count == 0 || split.count > s->port.max_packets) {
        return BT_RPC_TOO_LARGE;
    }
    bool one_burst = split.count <= s->cfg.timers.burst;
    if (one_burst && !p->ext) {
        return reply_directly(s, p, &split, len, &at, txq);
    }
    p->out = get_train(s, &at, len, &split);
    if (!p->out) { // better unrepairable than unanswered
        return one_burst ? reply_directly(s, p, &split, len, &at, txq) : BT_RPC_NO_BUFFER;
    }
    request_done(s, p);
    p->state = BT_PAIR_SENDING;
    bt_server_next_burst(s, p, txq);
    return 0;
}

void bt_server_next_burst(struct bt_server *s, struct bt_pair *p, struct bt_txq *txq)
{
    struct bt_r2p2_hdr h;
    reply_header(p, &h);
    struct bt_burst b = bt_train_burst(p->out, &s->port, &p->client, &h, s->cfg.timers.burst, txq);
    s->counters[BT_SERVER_PACKETS_SENT] += b.sent;
    s->counters[BT_SERVER_RESENT] += b.resent;
    s->counters[BT_SERVER_NO_BUFFER] += b.starved;
    if (p->out->todo) {
        bt_wheel_add(&s->wheel, &p->timer, s->now + s->cfg.timers.burst_gap_ns);
        return;
    }
    if (p->state == BT_PAIR_SENDING) {
        reply_sent(s, p, txq);
        p->state = BT_PAIR_KEPT;
        bt_pair_list_add(&s->kept, p);
    }
    if (!p->ext) {
        bt_server_free_pair(s, p);
        return;
    }
    bt_wheel_add(&s->wheel, &p->timer, s->now + s->cfg.timers.gc_ns);
}

enum bt_mcase bt_server_on_sack(struct bt_server *s, struct bt_arrival *a)
{
    struct bt_sack k;
    enum bt_mcase m = bt_sack_decode(a->h.payload, a->h.payload_len, &k);
    if (m) {
        return m;
    }
    uint32_t known = bt_pairs_find(&s->pairs, &a->pkt->src, a->h.req_id);
    if (known == BT_PAIRS_NONE || (known & BT_PAIR_DONE) || k.what != BT_SACK_REPLY) {
        return BT_M20;
    }
    struct bt_pair *p = &s->pair[known];
    if (!p->out || !p->ext) {
        return BT_M20;
    }
    m = bt_train_sack(p->out, &k, 0);
    if (m) {
        return m;
    }
    s->counters[BT_SERVER_SACK_RECEIVED]++;
    if (p->state == BT_PAIR_KEPT) {
        bt_server_next_burst(s, p, a->txq);
    }
    return BT_M_OK;
}

// DROP, and what else is to be said behind that word.
static void send_drop(struct bt_server *s, const struct bt_addr *client, struct bt_r2p2_hdr *h,
                      const struct bt_server_why *why, struct bt_txq *txq)
{
    uint8_t text[4 + BT_SERVER_WHY_MAX] = "DROP";
    uint32_t n = why != NULL ? why->n : 0;
    if (n != 0) {
        memcpy(text + 4, why->bytes, n);
    }
    bool sent = bt_port_send(&s->port, client, h, text, 4 + n, txq);
    s->counters[BT_SERVER_PACKETS_SENT] += sent;
    s->counters[BT_SERVER_NO_BUFFER] += !sent;
}

static struct bt_r2p2_hdr drop_header(uint16_t req_id, bool ext, uint16_t signal)
{
    struct bt_r2p2_hdr h = {.type = BT_DROP, .policy = BT_POLICY_STICKY, .first = true, .last = true, .ext = ext};
    h.req_id = req_id;
    h.count_or_index = 1;
    if (signal != 0) {
        h.opt.present = BT_HAS_FLOW;
        h.opt.flow = signal;
    }
    return h;
}

void bt_server_send_refusal(struct bt_server *s, const struct bt_arrival *a, uint16_t signal)
{
    struct bt_r2p2_hdr h = drop_header(a->h.req_id, a->h.ext, signal);
    s->counters[BT_SERVER_FLOW_SIGNALS] += signal != 0;
    send_drop(s, &a->client, &h, NULL, a->txq);
}

void bt_server_send_drop(struct bt_server *s, struct bt_pair *p, const struct bt_server_why *why, struct bt_txq *txq)
{
    if (p->flow != BT_FLOW_NONE) {
        flow_left(s, p, NULL);
    }
    struct bt_r2p2_hdr h = drop_header(p->req_id, p->ext, p->signal);
    send_drop(s, &p->client, &h, why, txq);
}

// The pair of a request that ends without a reply, its bytes gone.
static struct bt_pair *give_up(struct bt_server *s, uint64_t now_ns, uint64_t handle, enum bt_server_counter why)
{
    struct bt_pair *p = executing(s, handle);
    if (!p) {
        return NULL;
    }
    bt_server_clock(s, now_ns);
    s->counters[why]++;
    note_trace(s, p, true);
    if (s->cfg.latency) {
        bt_hist_slices_rejected(s->cfg.latency, s->now, 1);
    }
    bt_msg_free(&p->msg, s->port.pool); // before the DROP, which may find no other buffer
    return p;
}

int bt_server_drop_why(struct bt_server *s, uint64_t now_ns, uint64_t handle, const struct bt_server_why *why,
                       struct bt_txq *txq)
{
    bool too_long = why != NULL && why->n > BT_SERVER_WHY_MAX;
    struct bt_pair *p = too_long ? NULL : give_up(s, now_ns, handle, BT_SERVER_DROP_APP);
    if (!p) {
        return BT_RPC_BAD_ARGUMENT;
    }
    bt_server_send_drop(s, p, why, txq);
    bt_server_end(s, p, BT_FEEDBACK_DROPPED, txq);
    bt_server_free_pair(s, p);
    return 0;
}

int bt_server_drop(struct bt_server *s, uint64_t now_ns, uint64_t handle, struct bt_txq *txq)
{
    return bt_server_drop_why(s, now_ns, handle, NULL, txq);
}

int bt_server_forget(struct bt_server *s, uint64_t now_ns, uint64_t handle, struct bt_txq *txq)
{
    struct bt_pair *p = give_up(s, now_ns, handle, BT_SERVER_FORGOTTEN);
    if (!p) {
        return BT_RPC_BAD_ARGUMENT;
    }
    bt_server_end(s, p, 0, txq);
    bt_server_free_pair(s, p);
    return 0;
}
