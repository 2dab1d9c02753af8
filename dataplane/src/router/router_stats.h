// SPDX-License-Identifier: Apache-2.0
// What a router tells about itself: counters by reason, gauges, one row per worker. Names and labels stand in
// bt_router_counter_descs so that the control socket prints them without knowing the router.
#ifndef BOBTAIL_ROUTER_STATS_H
#define BOBTAIL_ROUTER_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/counters.h"
#include "router/admission.h"
#include "router/hedging_config.h"
#include "wire/mcase.h"

/* Why a router answers with DROP, the one table of reasons: the name in C, the word in counters. New ones stand last.
 */
#define BT_ROUTER_DROP_TABLE(ROW)                                                                                      \
    /* central FIFO at its limit (R-105) */                                                                            \
    ROW(QUEUE_FULL, "queue_full")                                                                                      \
    /* held for maxQueueMilliseconds (R-105) */                                                                        \
    ROW(QUEUE_TIMEOUT, "queue_timeout")                                                                                \
    /* no worker is configured */                                                                                      \
    ROW(NO_MEMBERS, "no_members")                                                                                      \
    /* sticky request, master not joined */                                                                            \
    ROW(NO_MASTER, "no_master")                                                                                        \
    /* policy not implemented here (R-12), or unknown (M-6) */                                                         \
    ROW(POLICY, "policy")                                                                                              \
    /* options do not fit (R-4) */                                                                                     \
    ROW(NO_ROOM, "no_room")                                                                                            \
    /* unknown option marked critical (R-55) */                                                                        \
    ROW(OPTION, "critical_option")                                                                                     \
    /* refused to keep the objective (R-205) */                                                                        \
    ROW(ADMISSION, "admission")
#define BT_ROUTER_DROP_VALUE(name, word) BT_RC_DROP_##name,

enum bt_router_counter {
    /* requests */
    BT_RC_REQUESTS,         /* well-formed REQ0 accepted for routing */
    BT_RC_FORWARDED,        /* REQ0 handed to the driver for a worker */
    BT_RC_FORWARDED_STICKY, /* of these, by policy 1 */
    BT_RC_FORWARDED_LEGACY, /* of these, without options to a legacy worker */
    BT_RC_FORWARDED_BARE,   /* of these, without room for Transparent forwarding's option: not counted as sent */
    BT_RC_HELD,             /* REQ0 that had to enter the central FIFO */
    BT_RC_HELD_BACK,        /* decisions put off by the hold-back tweak */
    /* DROP sent to the client, by reason: bt_router_drops is their sum */
    BT_ROUTER_DROP_TABLE(BT_ROUTER_DROP_VALUE) /* from BT_RC_DROPS_FIRST */
    BT_RC_DROPS_END,
    BT_RC_DEGRADED = BT_RC_DROPS_END, /* marked instead */
    BT_RC_DEGRADE_NO_ROOM,            /* should have been marked, but the mark does not fit */
    /* FEEDBACK */
    BT_RC_FEEDBACK,        /* applied */
    BT_RC_FEEDBACK_STALE,  /* late or duplicated: counters ignored */
    BT_RC_FEEDBACK_LEGACY, /* of the applied ones, 16-byte form */
    BT_RC_JOINED,
    BT_RC_LEFT,
    BT_RC_RESTARTED,          /* */
    BT_RC_FORGOTTEN,          /* left or removed workers whose state was dropped */
    BT_RC_SUSPECTED,          /* */
    BT_RC_READMITTED,         /* suspect workers heard again */
    BT_RC_UNREACHABLE,        /* ICMP errors for a worker */
    BT_RC_UNREACHABLE_BEHIND, /* not looked at: the FEEDBACK thread did not keep up */
    BT_RC_EJECTED,            /* R-139a */
    BT_RC_EJECTION_SPARED,    /* black holes kept because half the pool is out already */
    BT_RC_CREDITS_RECLAIMED,  /* legacy credits taken back after T_leak */
    BT_RC_CREDITS_LOST,       /* growth of lost[w] */
    BT_RC_CREDIT_RESCANS,     /* the REQ0 thread did not keep up with credit and looks at every worker */
    /* latency pairs */
    BT_RC_PAIRS_FINISHED,   /* REQ0→FEEDBACK latency measured */
    BT_RC_PAIRS_REJECTED,   /* worker said dropped, not served */
    BT_RC_PAIRS_UNANSWERED, /* counted as +inf after T_max */
    BT_RC_PAIRS_FULL,       /* forwarded but not measured: pair table full */
    BT_RC_PAIRS_UNKNOWN,    /* FEEDBACK for a pair that is not watched */
    BT_RC_PAIRS_OVERDUE,    /* admission on: not finished by its worker within T_max, a violation */
    BT_RC_PAIRS_UNSEEN,     /* admission on: finished by its worker, FEEDBACK lost, no sample */
    BT_RC_PAIRS_BEHIND,     /* forwarded but not measured: the FEEDBACK thread did not keep up */
    /* hedging: copies, and what became of requests that should have had one */
    BT_RC_HEDGES_SENT,      /* hedged requests */
    BT_RC_HEDGES_NO_IDLE,   /* answered before another worker was idle */
    BT_RC_HEDGES_BUSY,      /* too many workers were busy */
    BT_RC_HEDGES_BUDGET,    /* too many copies already */
    BT_RC_HEDGES_NO_BUFFER, /* no packet or no pair for the copy */
    BT_RC_HEDGES_NO_ROOM,   /* not kept: too many requests are on their way */
    BT_RC_HEDGES_UNSUITED,  /* not kept: sticky, of several packets, or too long */
    BT_RC_HEDGES_WON,       /* the copy was answered first */
    BT_RC_HEDGES_LATE,      /* the later of two completions */
    /* copies taken back: sent is honoured + too late + unheard + those open */
    BT_RC_CANCELS_SENT,
    BT_RC_CANCELS_HONOURED,  /* the worker says that it ended the copy */
    BT_RC_CANCELS_TOO_LATE,  /* it had been served, or dropped, or its application goes on */
    BT_RC_CANCELS_UNHEARD,   /* nothing was heard of the copy within T_max, or its id was used again */
    BT_RC_CANCELS_NO_BUFFER, /* not sent: no packet for it */
    BT_RC_PREEMPTIONS,       /* of those sent, to make room for a newcomer */
    BT_RC_CONFIGS_APPLIED,
    BT_RC_CONFIGS_REFUSED,
    BT_ROUTER_COUNTERS
};

#define BT_RC_DROPS_FIRST (BT_RC_HELD_BACK + 1)

/* Requests answered by DROP, whatever the reason; counter: BT_ROUTER_COUNTERS of them. */
static inline uint64_t bt_router_drops(const uint64_t *counter)
{
    uint64_t sum = 0;
    for (unsigned c = BT_RC_DROPS_FIRST; c < BT_RC_DROPS_END; c++) {
        sum += counter[c];
    }
    return sum;
}

/* Their names, [i] of counter i. */
extern const struct bt_counter_desc bt_router_counter_descs[BT_ROUTER_COUNTERS];

struct bt_router_stats {
    uint64_t counter[BT_ROUTER_COUNTERS];
    uint64_t malformed[BT_M_COUNT]; /* packets rejected, by enum bt_mcase (r2p2.md §9) */
    /* gauges */
    uint64_t held; /* requests in the central FIFO */
    uint64_t held_limit;
    uint64_t oldest_held_ns;                                        /* age of the FIFO head */
    uint64_t outstanding;                                           /* Σ over workers */
    uint64_t pairs;                                                 /* pairs being watched */
    uint32_t members, joined, eligible, suspect, ejected, draining; /* draining: removed from the config, backlog > 0 */
    bool router_draining;
    /* admission control */
    enum bt_admission_mode admission_mode; /* Observe: the rest is what was before */
    enum bt_admission_controller admission_controller;
    uint64_t admission_unknown, admission_decisions, admission_extensions, admission_stalls;
    uint64_t admission_dropped; /* admitted and then dropped by a worker: no sample */
    struct bt_admission_class_stats admission_class[BT_ADMISSION_CLASSES];
    /* hedging */
    enum bt_hedging_mode hedging_mode;
    uint64_t hedging_kept;                              /* requests on their way that are kept */
    uint64_t hedging_pairs;                             /* of these, with two copies that may be taken back */
    uint64_t hedging_delay_ns;                          /* Delayed: what is waited before a copy; 0: not known yet */
    uint64_t hedging_busy_ppm;                          /* workers busy with first copies, mean over arrivals */
    uint64_t jitter_compared;                           /* pairs of executions, and what follows from them */
    uint64_t jitter_hiccups_ppm, hiccup_ns, service_ns; /* probability and mean of a hiccup; mean without */
};

/* One configured worker, in configuration order. */
struct bt_router_member_stats {
    struct bt_addr addr;
    bool joined, eligible /* may receive policy-0 requests, credit apart */, suspect, ejected, leaving, legacy;
    uint32_t n;           /* credits the router uses: min(n of the worker, depth) */
    uint32_t outstanding; /* sent − done − lost, never negative */
    uint64_t sent, done, lost, reclaimed;
    uint32_t incarnation;
    uint64_t feedback_age_ns; /* UINT64_MAX = never heard */
};

#endif
