// SPDX-License-Identifier: Apache-2.0
// The REQ0 half (see split.h): takes the credit the other half published, decides, and notes what it sent.
#include "router/split_request.h"

#include "router/core.h"
#include "router/request.h"
#include "router/queue.h"
#include "router/workers.h"

/* What the worker owes by the word, which was written when no more than the present requests had been sent; negative
 * when it served more than we know of. */
static inline int64_t owed_by(uint64_t sent, uint64_t word)
{
    const uint64_t settled = word & ~((UINT64_C(1) << WORD_SETTLED_SHIFT) - 1u);
    return (int64_t)((sent << WORD_SETTLED_SHIFT) - settled) >> WORD_SETTLED_SHIFT;
}

/* Its settled changes, and with true its flags or n as well. */
static inline bool take_word(struct bt_router *q, size_t w, uint64_t word, int64_t owed)
{
    struct worker *worker = &q->worker[w];
    uint16_t n = word >> WORD_N_SHIFT & 0xffu, flags = word & WORD_FLAGS;
    bool steady = worker->flags == flags && worker->n == n;
    bt_credit_put_settled(&q->credit[w], router_sent(q, w) - (uint64_t)owed);
    worker->flags = flags;
    worker->n = n;
    return !steady;
}

void split_take_word(struct bt_router *q, size_t w, uint64_t word)
{
    take_word(q, w, word, owed_by(router_sent(q, w), word));
    router_refresh(q, (uint32_t)w);
}

/* Where flags or n change, several workers may have come at once: who gets what is held is decided when all are in. So
 * it is (at_once false) while the index may show somebody as free who is not any more, by a word that is still to come.
 */
static void take_credit(const struct router_split *s, uint64_t now, uint32_t w, bool at_once, struct bt_txq *txq)
{
    struct bt_router *q = s->request;
    uint64_t word = atomic_load_explicit(&s->channel->word[w], memory_order_relaxed);
    int64_t owed = owed_by(router_sent(q, w), word);
    if (take_word(q, w, word, owed)) {
        router_refresh(q, w);
        router_pump_soon(q);
    } else if (!at_once) {
        bt_load_move(&q->load, w, owed > 0 ? (uint64_t)owed : 0);
    } else {
        router_credit_came(q, now, w, owed > 0 ? (uint64_t)owed : 0, txq);
    }
}

/* Workers in the order in which they answered, or all of them when the queue could not hold their names. */
static void take_credits(struct router_split *s, struct bt_txq *txq)
{
    struct split_channel *c = s->channel;
    struct bt_router *q = s->request;
    uint32_t at;
    uint64_t rescans = atomic_load_explicit(&c->rescans, memory_order_acquire);
    uint32_t n = bt_spsc_waiting(&c->credits, &at);
    if (n == 0 && rescans == s->rescans_seen) {
        return;
    }
    uint64_t now = router_clock(q, atomic_load_explicit(&c->feedback_clock, memory_order_relaxed));
    bool at_once = q->held.n == 0 || q->waits_for_credit;
    q->pump_due = q->pump_due || !at_once;
    for (uint32_t i = 0; i < n; i++) {
        take_credit(s, now, c->credit_of[(at + i) & c->credits.mask], at_once, txq);
    }
    bt_spsc_taken(&c->credits, n);
    if (rescans != s->rescans_seen) {
        s->rescans_seen = rescans;
        for (uint32_t w = 0; w < q->used_end; w++) {
            take_credit(s, now, w, at_once, txq);
        }
    }
    if (q->pump_due && q->held.n > 0) {
        router_pump(q, now, txq);
    }
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Before anything is counted as sent at or before `now`. */
static void publish_clock(struct router_split *s, uint64_t now)
{
    now = later(now, s->request->now);
    now = later(now, atomic_load_explicit(&s->channel->feedback_clock, memory_order_relaxed));
    atomic_store_explicit(&s->channel->request_clock, now, memory_order_relaxed);
}

static void publish_totals(struct router_split *s)
{
    const uint64_t *counter = s->request->counter;
    atomic_store_explicit(&s->channel->arrived, counter[BT_RC_REQUESTS], memory_order_relaxed);
    atomic_store_explicit(&s->channel->dropped, bt_router_drops(counter), memory_order_relaxed);
    atomic_store_explicit(&s->channel->unwatched, counter[BT_RC_PAIRS_BEHIND], memory_order_relaxed);
}

void split_requests(struct router_split *s, struct bt_pkt *const *pkts, unsigned n, struct bt_txq *txq)
{
    uint64_t latest = 0;
    for (unsigned i = 0; i < n; i++) {
        latest = later(latest, pkts[i]->t_rx_ns);
    }
    publish_clock(s, latest);
    take_credits(s, txq);
    router_requests(s->request, pkts, n, txq);
    publish_totals(s);
}

void split_request_tick(struct router_split *s, uint64_t now, struct bt_txq *txq)
{
    publish_clock(s, now);
    take_credits(s, txq);
    router_core_tick(s->request, now, txq);
    publish_totals(s);
}

bool split_credit_waits(const struct router_split *s)
{
    return bt_spsc_count(&s->channel->credits) != 0 ||
           atomic_load_explicit(&s->channel->rescans, memory_order_relaxed) != s->rescans_seen;
}

bool split_notes_pile_up(const struct router_split *s)
{
    return bt_spsc_count(&s->channel->notes) > s->channel->notes.mask / 2u;
}

/* A request left: the other half watches its pair. */
static void tell_other_half(struct bt_router *q, struct pair_key key, struct pair_sent sent, uint8_t label)
{
    struct split_channel *c = q->split->channel;
    uint32_t at;
    if (!bt_spsc_room(&c->notes, &at)) {
        q->counter[BT_RC_PAIRS_BEHIND]++;
        return;
    }
    c->note[at] = (struct split_note){.key = key, .sent = sent, .kind = NOTE_SENT, .label = label};
    bt_spsc_filled(&c->notes);
}

const struct router_watcher split_request_watcher = {.sent = tell_other_half};

void split_unreachable(struct router_split *s, uint64_t now, const struct bt_addr *worker)
{
    struct split_channel *c = s->channel;
    uint32_t at;
    if (!bt_spsc_room(&c->notes, &at)) { /* silence will tell */
        s->request->counter[BT_RC_UNREACHABLE_BEHIND]++;
        return;
    }
    c->note[at] = (struct split_note){.worker = *worker, .sent = {.at = now}, .kind = NOTE_UNREACHABLE};
    bt_spsc_filled(&c->notes);
}
