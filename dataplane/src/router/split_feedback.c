// SPDX-License-Identifier: Apache-2.0
// The FEEDBACK half (see split.h): reads what was sent, accounts for what is done, and publishes what that leaves.
#include "router/split_feedback.h"

#include "router/core.h"
#include "router/feedback.h"
#include "router/watch.h"
#include "router/workers.h"

#define NOTES_AHEAD 4u /* so many notes early is the place of a pair asked for */

/* The word first, then who it is about: who takes the name out of the queue sees that word or a later one. */
static void publish_worker(struct bt_router *f, size_t w)
{
    struct split_channel *c = f->split->channel;
    uint64_t word = split_word(f, w);
    uint32_t at;
    if (word == atomic_load_explicit(&c->word[w], memory_order_relaxed)) {
        return;
    }
    atomic_store_explicit(&c->word[w], word, memory_order_relaxed);
    atomic_store_explicit(&c->feedback_clock, f->now, memory_order_relaxed);
    if (bt_spsc_room(&c->credits, &at)) {
        c->credit_of[at] = (uint16_t)w;
        bt_spsc_filled(&c->credits);
        return;
    }
    uint64_t rescans = atomic_load_explicit(&c->rescans, memory_order_relaxed);
    atomic_store_explicit(&c->rescans, rescans + 1u, memory_order_release);
    f->counter[BT_RC_CREDIT_RESCANS]++;
}

const struct router_watcher split_feedback_watcher = {.changed = publish_worker};

static void take_sent(struct bt_router *f, const struct split_note *note)
{
    uint64_t now = router_clock(f, note->sent.at), w = note->key.who >> 32;
    if ((int64_t)(note->sent.index - bt_credit_settled(&f->credit[w])) <= 0) { /* it owed nothing */
        f->worker[w].busy_at = now;
    }
    router_watch_start(f, note->key, note->sent, note->label);
}

/* Admission must not wait for what no note told of. */
static void take_unwatched(struct router_split *s)
{
    uint64_t unwatched = atomic_load_explicit(&s->channel->unwatched, memory_order_relaxed);
    for (; s->unwatched_seen != unwatched; s->unwatched_seen++) {
        router_tell_unseen(s->feedback);
    }
}

/* What the other half counted since the last time goes into the present second. */
static void take_totals(struct router_split *s)
{
    struct bt_router *f = s->feedback;
    uint64_t arrived = atomic_load_explicit(&s->channel->arrived, memory_order_relaxed);
    uint64_t dropped = atomic_load_explicit(&s->channel->dropped, memory_order_relaxed);
    if (f->latency != NULL && arrived != s->arrived_seen) {
        bt_hist_slices_arrived(f->latency, f->now, (uint32_t)(arrived - s->arrived_seen));
    }
    if (f->latency != NULL && dropped != s->dropped_seen) {
        bt_hist_slices_rejected(f->latency, f->now, (uint32_t)(dropped - s->dropped_seen));
    }
    s->arrived_seen = arrived;
    s->dropped_seen = dropped;
    take_unwatched(s);
}

void split_take_notes(struct router_split *s)
{
    struct split_channel *c = s->channel;
    struct bt_router *f = s->feedback;
    uint32_t at;
    uint32_t n = bt_spsc_waiting(&c->notes, &at);
    for (uint32_t i = 0; i < n; i++) {
        const struct split_note *note = &c->note[(at + i) & c->notes.mask];
        if (i + NOTES_AHEAD < n) {
            __builtin_prefetch(watch_slot(&f->pairs, &c->note[(at + i + NOTES_AHEAD) & c->notes.mask].key), 1);
        }
        if (note->kind == NOTE_SENT) {
            take_sent(f, note);
        } else {
            router_core_unreachable(f, note->sent.at, &note->worker);
        }
    }
    bt_spsc_taken(&c->notes, n);
    take_totals(s);
}

void split_feedbacks(struct router_split *s, struct bt_pkt *const *pkts, unsigned n)
{
    split_take_notes(s);
    struct bt_router *f = s->feedback;
    for (unsigned i = 0; i < n; i++) {
        uint64_t now = router_clock(f, pkts[i]->t_rx_ns);
        uint32_t w;
        if (router_feedback_steady(f, now, pkts[i], &w)) {
            publish_worker(f, w);
            bt_pool_put(f->pool, pkts[i]);
        } else {
            router_feedback_any(f, now, pkts[i], &s->nothing);
        }
    }
}

/* What one thread knows at once and two learn a little later. A worker that owes nothing owes no answer since when
 * even if the note of its next request should find no room. And one that was given up while a request was on
 * its way to it does not owe that one for ever. */
static void look_again(struct bt_router *f, uint64_t now)
{
    for (uint32_t w = 0; w < f->used_end; w++) {
        const unsigned gone = WORKER_USED | WORKER_JOINED;
        if (router_outstanding(f, w) == 0) {
            f->worker[w].busy_at = now;
        } else if ((f->worker[w].flags & gone) == WORKER_USED &&
                   bt_credit_settled(&f->credit[w]) == f->cold[w].given_up) {
            bt_credit_write_off(&f->credit[w], router_sent(f, w));
            f->cold[w].given_up = bt_credit_settled(&f->credit[w]);
            router_refresh(f, w);
        }
    }
}

void split_feedback_tick(struct router_split *s, uint64_t now)
{
    struct bt_router *f = s->feedback;
    split_take_notes(s);
    now = router_clock(f, now);
    if (now >= f->next_health) {
        look_again(f, now);
    }
    router_core_tick(f, now, &s->nothing);
}

const struct bt_router *split_feedback_half(const struct router_split *s)
{
    return s->feedback;
}
