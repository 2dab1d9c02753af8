// SPDX-License-Identifier: Apache-2.0
// What passes between the two halves of a router (split.h). Nothing outside src/router includes this.
#ifndef BOBTAIL_ROUTER_SPLIT_CHANNEL_H
#define BOBTAIL_ROUTER_SPLIT_CHANNEL_H

#include "base/spsc.h"
#include "router/state.h"

/* One word says all of a worker that a decision needs: settled in 48 bits, which only differ from `sent` by what is on
 * its way, then n and flags. So the two can never disagree, whenever it is read. */
#define WORD_SETTLED_SHIFT 16u
#define WORD_N_SHIFT       8u
#define WORD_FLAGS         0xffu
static_assert(WORKER_STAYS == 1u << 7 && BT_ROUTER_DEPTH_MAX <= 0xffu, "flags and n fit in a word");

enum split_note_kind { NOTE_SENT, NOTE_UNREACHABLE };

/* A request left, or the network said that a worker cannot be reached. One cache line. */
struct split_note {
    alignas(64) union {
        struct pair_key key;   /* NOTE_SENT */
        struct bt_addr worker; /* NOTE_UNREACHABLE; of sent only `at` counts then */
    };
    struct pair_sent sent;
    uint8_t kind, label; /* enum split_note_kind, enum pair_label */
};
static_assert(sizeof(struct split_note) == 64, "a note is one cache line");

struct split_channel {
    /* FEEDBACK → REQ0 */
    struct bt_spsc_ends credits; /* of credit_of */
    uint16_t *credit_of;         /* workers whose word changed */
    _Atomic uint64_t *word;      /* [slots] */
    alignas(64) _Atomic uint64_t feedback_clock;
    _Atomic uint64_t rescans; /* times credit_of was full: every word must be looked at */
    /* REQ0 → FEEDBACK */
    alignas(64) struct bt_spsc_ends notes; /* of note */
    struct split_note *note;
    alignas(64) _Atomic uint64_t request_clock; /* never behind the time of a request that `sent` counts */
    _Atomic uint64_t arrived, dropped;          /* totals for the latency histogram's window */
    _Atomic uint64_t unwatched;                 /* sent without a note: admission counts them as unknown */
};

struct router_split {
    struct bt_router *request, *feedback;
    struct split_channel *channel;
    alignas(64) uint64_t rescans_seen;                               /* the REQ0 thread's */
    alignas(64) uint64_t arrived_seen, dropped_seen, unwatched_seen; /* the FEEDBACK thread's */
    struct bt_txq nothing;                                           /* it sends nothing */
};

/* Counters that are far from what was sent are forged, where there is no key: they count as OWED_MAX away from it. */
#define OWED_MAX INT64_C(0x7fffffff)

static inline uint64_t split_word(const struct bt_router *f, size_t w)
{
    uint64_t settled = bt_credit_settled(&f->credit[w]), sent = router_sent(f, w);
    if (__builtin_expect(sent - settled + (uint64_t)OWED_MAX > 2u * (uint64_t)OWED_MAX, 0)) {
        settled = sent + (uint64_t)((int64_t)(sent - settled) > 0 ? -OWED_MAX : OWED_MAX);
    }
    return settled << WORD_SETTLED_SHIFT | (uint64_t)f->worker[w].n << WORD_N_SHIFT | (f->worker[w].flags & WORD_FLAGS);
}

#endif
