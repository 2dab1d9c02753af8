// SPDX-License-Identifier: Apache-2.0
// Copies of requests that their router takes back. A CANCEL names one copy by client, request id and a
// number that its router gives to no other, so one that comes late, twice or after the id was used again ends nothing.
// Every request that ends this way is told to its router by one FEEDBACK, as any other.
#include "rpc/server_internal.h"

#define NAMED (BT_HAS_FORWARDED | BT_HAS_COPY)

// Gone without a reply. Its name stays known, for this copy alone: the network may deliver it twice.
static void end_cancelled(struct bt_server *s, struct bt_pair *p, uint32_t copy, struct bt_txq *txq)
{
    bt_msg_free(&p->msg, s->port.pool); // before the FEEDBACK, which may find no other buffer
    bt_server_end(s, p, BT_FEEDBACK_DROPPED | BT_FEEDBACK_CANCELLED, txq);
    bt_server_free_pair(s, p);
    uint32_t newest = s->done_head + s->done_count - 1;
    s->done[newest >= s->cfg.max_done ? newest - s->cfg.max_done : newest].copy = copy;
}

static void stop(struct bt_server *s, struct bt_pair *p, uint32_t copy, struct bt_txq *txq)
{
    s->counters[BT_SERVER_CANCELS_STOPPED]++;
    s->free_ns = s->now; // what is executed next did not begin before
    end_cancelled(s, p, copy, txq);
}

// The application decides; KEPT, the number is taken off the pair: it was told, and need not be again.
static void take_back(struct bt_server *s, struct bt_pair *p, struct bt_txq *txq)
{
    uint64_t handle = (uint64_t)p->generation << 32 | (uint32_t)(p - s->pair);
    uint32_t copy = p->copy;
    p->copy = 0;
    p->taken_back = copy;
    switch (s->cfg.ops.on_cancel ? s->cfg.ops.on_cancel(s->cfg.ops.arg, handle) : BT_CANCEL_KEPT) {
    case BT_CANCEL_KEPT:
        s->counters[BT_SERVER_CANCELS_KEPT]++;
        break;
    case BT_CANCEL_REMOVED:
        s->counters[BT_SERVER_CANCELS_REMOVED]++;
        end_cancelled(s, p, copy, txq);
        break;
    case BT_CANCEL_STOPPED:
        stop(s, p, copy, txq);
        break;
    }
}

enum bt_mcase bt_server_on_cancel(struct bt_server *s, struct bt_arrival *a)
{
    const struct bt_options *o = &a->h.opt;
    uint8_t router;
    if ((o->present & NAMED) != NAMED || o->copy == 0) {
        return BT_M27;
    }
    if (a->h.payload_len != 0) {
        return BT_M25;
    }
    enum bt_mcase m = bt_server_canceller(s, a, &router);
    if (m) {
        return m;
    }
    uint32_t known = bt_pairs_find(&s->pairs, &o->forwarded, a->h.req_id);
    struct bt_pair *p = known == BT_PAIRS_NONE || (known & BT_PAIR_DONE) ? NULL : &s->pair[known];
    if (!p || p->state != BT_PAIR_EXECUTING || !(p->echo & BT_HAS_COPY) || p->copy != o->copy || p->router != router) {
        s->counters[BT_SERVER_CANCELS_UNMATCHED]++;
    } else {
        take_back(s, p, a->txq);
    }
    return BT_M_OK;
}

// a request whose copy was taken back may come again as a later copy, which is to run. BT_PAIRS_NONE: it is one.
uint32_t bt_server_after_cancel(struct bt_server *s, const struct bt_arrival *a, uint32_t known)
{
    if (known == BT_PAIRS_NONE || !(known & BT_PAIR_DONE)) {
        return known;
    }
    const struct bt_done *done = &s->done[known & ~BT_PAIR_DONE];
    if (done->copy == 0 || (int32_t)(a->h.opt.copy - done->copy) <= 0) {
        return known;
    }
    bt_pairs_remove(&s->pairs,
                    bt_pairs_entry(&s->pairs, done->hash, known)); // the place in the ring runs out by itself
    return BT_PAIRS_NONE;
}

bool bt_server_cancelled(const struct bt_server *s, uint64_t handle)
{
    uint32_t i = (uint32_t)handle;
    if (i >= s->cfg.max_pending) {
        return false;
    }
    const struct bt_pair *p = &s->pair[i];
    bool executing = p->state == BT_PAIR_EXECUTING && p->generation == handle >> 32;
    return executing && (p->echo & BT_HAS_COPY) && p->copy == 0;
}

int bt_server_abandon(struct bt_server *s, uint64_t now_ns, uint64_t handle, struct bt_txq *txq)
{
    if (!bt_server_cancelled(s, handle)) {
        return BT_RPC_BAD_ARGUMENT;
    }
    bt_server_clock(s, now_ns);
    struct bt_pair *p = &s->pair[(uint32_t)handle];
    stop(s, p, p->taken_back, txq);
    return 0;
}
