// SPDX-License-Identifier: Apache-2.0
// Credit accounting of one worker (spec/jbsq-router.md §2): from what the router sent and what the worker reports to
// one number, settled, such that outstanding = sent − settled; it is kept as served + shift. Everything is bounded by
// absolute values each time, so lost, duplicated and reordered FEEDBACK change nothing in the end. Written by
// the FEEDBACK side only.
#ifndef BOBTAIL_ROUTER_CREDIT_H
#define BOBTAIL_ROUTER_CREDIT_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#define BT_CREDIT_SAMPLES 16u /* T_loss / 8 apart: enough to look T_loss back */

/* What one extended FEEDBACK says (r2p2.md §7). */
struct bt_credit_report {
    uint64_t received, served;
    uint32_t incarnation;
    bool silent; /* nothing valid was heard for T_dead: no word of a former life can be on the way any more, so any
                    other incarnation is a new one, even if the worker's wall clock was set back */
};

enum bt_credit_verdict {
    BT_CREDIT_FRESH,     /* applied */
    BT_CREDIT_RESTARTED, /* applied as the first of an incarnation */
    BT_CREDIT_STALE,     /* older than known: nothing changed */
    BT_CREDIT_BACKWARDS, /* M-22: contradicts itself or what is known: nothing changed */
};

struct bt_credit {
    /* one cache line: all that a FEEDBACK in order touches */
    alignas(64) uint64_t received; /* as last reported */
    uint64_t shift;                /* settled − served: lost − base; legacy: whatever is done or reclaimed besides */
    uint64_t served;               /* as last reported */
    uint64_t look_at;              /* when the history has to be looked at again; 0: nothing is known, or it changed */
    uint64_t past;                 /* value of sent T_loss ago, or before */
    uint64_t recent;               /* value of sent at the newest sample; past if there is none */
    uint32_t young;                /* finished requests sent after past: received, but not among the first past ones */
    uint32_t incarnation;
    /* touched once per sample and by faults */
    uint64_t next_sample_at;
    uint64_t base;          /* sent + base = the router's sends in the worker's own count */
    uint32_t young_before;  /* of young, those sent before recent */
    uint32_t young_past;    /* of these, those sent before the oldest sample of the history */
    uint8_t first, samples; /* ring of history */
    bool known;             /* an extended FEEDBACK was seen */
    uint64_t reclaimed;     /* */
    struct {
        uint64_t at, sent;
        uint64_t young; /* finished requests sent between this sample and the next; of the newest: not written yet */
    } history[BT_CREDIT_SAMPLES];
};

/* Takes a report made when the router had sent so many requests. Call bt_credit_settle after it. */
enum bt_credit_verdict bt_credit_report(struct bt_credit *c, const struct bt_credit_report *report, uint64_t sent,
                                        uint64_t now, uint64_t loss_ns);

/* The same for what nearly every report of the incarnation that is known says, in a few instructions: false, nothing
 * changed, when there is more to look at than that more was served, within what was sent. When true the worker is
 * settled, too, and *outstanding is known. The counters are as decoded from a packet, so that served ≤ received. */
static inline bool bt_credit_in_order(struct bt_credit *c, uint64_t received, uint64_t served, uint64_t sent,
                                      uint64_t now, uint64_t *outstanding)
{
    uint64_t in_its_count = sent - c->shift;
    if (__builtin_expect(now >= c->look_at || (int64_t)(received - c->received) < 0 ||
                             (int64_t)(c->served - served) >= 0 || (int64_t)(in_its_count - received) < 0,
                         0)) {
        return false;
    }
    c->received = received;
    c->served = served;
    *outstanding = in_its_count - served;
    return true;
}

/* The same for a request that was sent before the newest sample. */
void bt_credit_finished_before(struct bt_credit *c, uint64_t index);

/* A FEEDBACK named a pair that was the index-th request sent (from 0): it was received. Each pair once. */
static inline void bt_credit_finished(struct bt_credit *c, uint64_t index)
{
    if (__builtin_expect((int64_t)(index - c->recent) < 0, 0)) {
        bt_credit_finished_before(c, index);
        return;
    }
    c->young++;
}

/* Time or T_loss changed in a way the last look did not foresee. */
static inline void bt_credit_look_again(struct bt_credit *c)
{
    c->look_at = 0;
}

/* More is known to be lost than was before a pair was finished: settle again. */
static inline bool bt_credit_unsettled(const struct bt_credit *c)
{
    return (int64_t)(c->past + c->young - c->received - c->shift) > 0;
}

/* how many requests never arrived, and from that settled. */
void bt_credit_settle(struct bt_credit *c, uint64_t sent);

/* A 16-byte FEEDBACK: one more is done. Not idempotent. */
void bt_credit_legacy(struct bt_credit *c, uint64_t sent);

/* Takes credit back from a silent legacy worker, as much as is outstanding and no more than most: how much. */
uint64_t bt_credit_reclaim(struct bt_credit *c, uint64_t sent, uint64_t most);

/* Gives up everything outstanding: the worker is gone. A later report puts the true value back. */
void bt_credit_write_off(struct bt_credit *c, uint64_t sent);

/* Outstanding requests; never negative, since a worker that served more than we know of owes nothing. */
static inline uint64_t bt_credit_outstanding(uint64_t sent, uint64_t settled)
{
    int64_t difference = (int64_t)(sent - settled);
    return difference > 0 ? (uint64_t)difference : 0;
}

static inline uint64_t bt_credit_settled(const struct bt_credit *c)
{
    return c->served + c->shift;
}

/* Settled by what is known apart from reports. */
static inline void bt_credit_put_settled(struct bt_credit *c, uint64_t settled)
{
    c->shift = settled - c->served;
}

/* Requests held to be lost on the way to a worker that reports (known), since its incarnation began. */
static inline uint64_t bt_credit_lost(const struct bt_credit *c)
{
    return c->shift + c->base;
}

#endif
