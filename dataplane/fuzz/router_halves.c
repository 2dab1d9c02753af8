// SPDX-License-Identifier: Apache-2.0
// A router of fuzz_router on two threads: each half reads its port when the input says so, and either may be
// late by as much as the input wants. The queues between them are so short that they overflow.
#include "router_story.h"

#include "router/split_channel.h"

enum { PORT_ROOM = 32 };

/* Bits of the first byte: credits, then notes, each in a queue of 1, 2, 4 or 8. */
void halves_setup(struct bt_router_setup *setup, uint32_t how)
{
    setup->threads = 2;
    setup->credits = 1u << (how >> 1 & 3u);
    setup->notes = 1u << (how >> 3 & 3u);
}

void halves_open(struct story *s)
{
    s->hears = s->decides->split->feedback;
    bt_txq_init(&s->port[0]);
    bt_txq_init(&s->port[1]);
}

void halves_turn(struct story *s, bool feedback, unsigned most)
{
    struct bt_pkt *pkts[PORT_ROOM] = {NULL};
    unsigned n = 0;
    while (n < most && s->port[feedback].n > 0) {
        pkts[n++] = bt_txq_pop(&s->port[feedback]);
    }
    if (feedback) {
        bt_router_feedbacks(s->decides, pkts, n, &s->out);
        CHECK(bt_spsc_count(&s->decides->split->channel->notes) == 0);
    } else {
        bt_router_requests(s->decides, pkts, n, &s->out);
        CHECK(!bt_router_credit_waits(s->decides)); /* */
    }
}

/* It is read at once, with what waited before it, unless the sentence lets it wait. Whether a rejected packet changes
 * nothing is told only of one that comes alone, after what is under way from the other half has come in. */
void halves_give(struct story *s, bool feedback, struct bt_pkt *pkt)
{
    struct bt_txq *port = &s->port[feedback];
    bool waits = s->waits && port->n + 1u < PORT_ROOM, judged = s->clean && !waits && port->n == 0;
    if (judged) {
        halves_turn(s, feedback, 0);
    }
    uint64_t before = story_fingerprint(s);
    bt_txq_push(port, pkt);
    if (!waits) {
        halves_turn(s, feedback, PORT_ROOM);
    }
    CHECK(!judged || story_fingerprint(s) == before);
}

void halves_tick(struct story *s, bool feedback)
{
    if (feedback) {
        bt_router_feedback_tick(s->decides, s->now);
    } else {
        bt_router_tick(s->decides, s->now, &s->out);
    }
    CHECK((feedback ? bt_router_feedback_next(s->decides) : bt_router_next(s->decides)) >
          s->now); /* a driver that sleeps until then must not spin */
}

/* Nearly as far from what was sent as a word can say, or farther: only by forged counters, where there is no key. */
static bool absurd(const struct story *s, uint32_t w)
{
    int64_t owed = (int64_t)(router_sent(s->hears, w) - bt_credit_settled(&s->hears->credit[w]));
    return owed > OWED_MAX - 65536 || owed < 65536 - OWED_MAX;
}

static bool word_says(const struct bt_router *r, uint32_t w, uint64_t word, bool absurd)
{
    uint64_t settled = bt_credit_settled(&r->credit[w]) << WORD_SETTLED_SHIFT;
    uint16_t says = (uint16_t)((unsigned)r->worker[w].n << WORD_N_SHIFT | (r->worker[w].flags & WORD_FLAGS));
    return (uint16_t)word == says && (absurd || (word ^ settled) >> WORD_SETTLED_SHIFT == 0);
}

/* What one half knows of the workers the other will: it is in their words, and when no credit waits they agree. */
void halves_check(const struct story *s)
{
    bool told = !bt_router_credit_waits(s->decides);
    for (uint32_t w = 0; w < s->hears->used_end; w++) {
        uint64_t word = atomic_load_explicit(&s->decides->split->channel->word[w], memory_order_relaxed);
        CHECK(word_says(s->hears, w, word, absurd(s, w)));
        CHECK(!told || word_says(s->decides, w, word, absurd(s, w)));
    }
}

/* The story ends: both read what is left. */
void halves_close(struct story *s)
{
    halves_turn(s, true, PORT_ROOM);
    halves_turn(s, false, PORT_ROOM);
    story_check(s);
}
