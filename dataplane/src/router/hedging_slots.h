// SPDX-License-Identifier: Apache-2.0
// Hedged requests, for those that may be stuck: which requests the router keeps, when it sends
// one again and to whom, and what it makes of two completions. The choice is that of load-aware hedging
// (dataplane/sim/laedge.h), made for workers that hold n requests each, come and go, and lose packets: credit and
// membership stay what they are, since a copy is a request like any other to its worker. Nothing outside src/router
// includes this.
#ifndef BOBTAIL_ROUTER_HEDGING_SLOTS_H
#define BOBTAIL_ROUTER_HEDGING_SLOTS_H

#include "base/histogram.h"
#include "base/rng.h"
#include "router/hedging_config.h"
#include "router/state.h"

#define HEDGE_BYTES 1472u /* longest request that is kept: a datagram of a 1,500 B MTU */

/* One copy of a request. */
struct hedge_copy {
    uint32_t pair;   /* its place in the pair table; 0: not sent, or over */
    uint32_t number; /* what a CANCEL calls it; 0: it cannot be taken back */
    /* What its worker had said when it was sent there: an earlier copy's end is not later than that. */
    uint32_t incarnation;
    uint64_t served;
};

/* A request on its way, kept to be sent again. */
struct hedge_slot {
    uint64_t since, at; /* arrived at the router; left it first */
    uint64_t took;      /* how long its first completion took, if the two can be compared; 0: they cannot */
    struct bt_addr client;
    struct hedge_copy copy[2];
    /* Lists of those with one copy, by `at`, and of those with two that run, by the start of the second; newer also
     * links the free ones. */
    uint32_t older, newer;
    uint16_t len;
    uint8_t blocked; /* why a copy that was due was not sent: counter − BT_RC_HEDGES_SENT; 0: none was due */
    bool listed, answered, probe, together; /* together: both left at once, each to an idle worker */
    bool measures;                          /* a probe with two copies: neither is taken back */
    bool preempted;                         /* the hedged request was taken back, and its end is not known yet */
};

struct router_hedging {
    struct bt_hedging_config config;
    /* [slots + 2]; the first is none: it ends the list of single ones, at both ends; the last that of the others. */
    struct hedge_slot *slot;
    uint8_t *bytes; /* [slots + 1][HEDGE_BYTES] */
    uint32_t slots, free, used;
    uint32_t keeping, copying; /* of the request that is being forwarded: for the first time, or again; 0: neither */
    uint32_t turn;             /* where the search for an idle worker starts */
    uint64_t budget;           /* hundredths of a copy */
    uint32_t copies;           /* hedged requests on their way */
    uint64_t busy, up;         /* workers busy with first copies, and all of them, as arrivals find them: smoothed */
    uint64_t delay_ns, next_delay; /* Delayed: what is waited; 0: not known yet */
    uint64_t looked_at;
    uint32_t copy_number;   /* given last */
    uint32_t answered_slot; /* of a request that has just been answered, and whose other copy runs on; 0: none */
    struct bt_rng rng;
    struct bt_hist response; /* of first copies, since next_delay − 1 s */
    /* Of two executions that began together: how they differ; the shorter one. Those under way, and the ones before,
     * so that what was long ago is forgotten. */
    struct bt_hist differs[2], lesser[2];
};

#define HEDGING_BURST (64u * 100u) /* hundredths: copies that an unused budget saves up */

/* Lists of slots: takes slot s out of its list; puts it behind another one; frees it. */
void hedging_unlist(struct router_hedging *h, uint32_t s);
void hedging_list_behind(struct router_hedging *h, uint32_t s, uint32_t before);
void hedging_release(struct router_hedging *h, uint32_t s);

/* Copy k of the request is not watched any more. */
void hedging_copy_over(struct router_hedging *h, struct hedge_slot *slot, unsigned k);

/* A copy that was taken back to make room is none that the budget is for. */
void hedging_refund(struct router_hedging *h);

/* Who has the request of a pair. */
static inline uint32_t hedging_worker(const struct bt_router *r, uint32_t pair)
{
    return (uint32_t)(r->pairs.slab[pair].key.who >> 32);
}

#endif
