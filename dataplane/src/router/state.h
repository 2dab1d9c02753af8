// SPDX-License-Identifier: Apache-2.0
// What a router knows: its configuration, workers, held requests, watched pairs and counters, and what every packet
// does with them. Nothing outside src/router includes this.
#ifndef BOBTAIL_ROUTER_STATE_H
#define BOBTAIL_ROUTER_STATE_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/histogram.h"
#include "base/pkt.h"
#include "base/pairs.h"
#include "base/ring.h"
#include "router/credit.h"
#include "router/load.h"
#include "router/policies/jbsq.h"
#include "router/policy.h"
#include "router/router_config.h"
#include "router/router_stats.h"
#include "router/watcher.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"
#include "wire/tag.h"

#define MILLISECOND UINT64_C(1000000)
#define SECOND      UINT64_C(1000000000)
#define NO_SLOT     UINT32_MAX

#define NEVER_STEADY UINT64_MAX

/* What every packet does is never called: the compiler would weigh its size. */
#define EVERY_PACKET static inline __attribute__((always_inline))

/* --- workers ------------------------------------------------------------------------------------------------ */

enum worker_flag {
    WORKER_USED = 1u << 0,     /* the slot holds a worker */
    WORKER_ALLOWED = 1u << 1,  /* in the configuration; otherwise it is being drained */
    WORKER_JOINED = 1u << 2,   /* heard, and not forgotten since */
    WORKER_LEAVING = 1u << 3,  /* said LEAVE */
    WORKER_SUSPECT = 1u << 4,  /* silent for too long */
    WORKER_EJECTED = 1u << 5,  /* black hole (R-139a) */
    WORKER_EXTENDED = 1u << 6, /* joined with extended FEEDBACK: understands options (r2p2.md §11) */
    WORKER_STAYS = 1u << 7,    /* in the configuration being applied */
};

/* What a decision and a FEEDBACK read of one worker, apart from its credit line. One cache line. */
struct worker {
    alignas(64) struct bt_addr addr;
    uint16_t flags;
    uint16_t n;        /* as granted by the worker; the router uses min(n, depth) */
    uint64_t heard_at; /* last valid FEEDBACK; 0 = never */
    uint64_t busy_at;  /* legacy: since when it owes an answer: last FEEDBACK or first send after being idle */
    uint64_t steady;   /* what an uneventful FEEDBACK of it says (router_steady), or NEVER_STEADY */
    uint32_t window_total, window_dropped; /* finished and dropped pairs (R-139a) */
    uint8_t ejections, reclaims;           /* exponents of the two back-offs */
    uint16_t spare;
};
static_assert(sizeof(struct worker) <= 64, "hot state of a worker");
static_assert(offsetof(struct bt_credit, next_sample_at) <= 64, "hot credit state of a worker");

struct worker_cold {
    uint64_t quiet_since; /* when LEAVE, removal or suspicion began: bounds the drain */
    uint64_t eject_until;
    uint64_t lost_seen; /* highest lost counted in BT_RC_CREDITS_LOST */
    uint64_t given_up;  /* settled when it was last forgotten */
    uint64_t answered;  /* legacy, while admission is on: one more than the highest index it answered */
};

/* --- latency pairs -------------------------------------------------------------------------------------------- */

/* What a pair is known by. */
struct pair_key {
    uint64_t ip[2]; /* the client's, in halves (bt_addr_half) */
    uint64_t who;   /* worker << 32 | bt_pairs_id */
};

/* How its request left the router. */
struct pair_sent {
    uint64_t since; /* arrived at the router */
    uint64_t at;    /* left it */
    uint64_t index; /* it was the worker's index-th request */
};

/* One cache line. The worker is part of the key: nobody else may end a pair. */
struct pair {
    alignas(64) struct pair_key key;
    uint32_t next;         /* in its slot, or of the free ones */
    uint32_t older, newer; /* list by age */
    uint8_t label;         /* enum pair_label; kept only while requests are noted, as is */
    uint16_t hedge;        /* slot of the request that is kept (hedging.h); 0: none */
    struct pair_sent sent;
};
static_assert(sizeof(struct pair) == 64, "a watched pair");

/* What admission and hedging want to know of a pair. */
enum pair_label {
    PAIR_CLASS = 0x07,     /* of the request */
    PAIR_MARKED = 0x08,    /* it was marked as degraded */
    PAIR_COPY = 0x20,      /* the hedged request of a pair */
    PAIR_CANCELLED = 0x40, /* a CANCEL for it was sent */
    PAIR_JUDGED = 0x10,    /* found to be overdue or unknown: what comes now is no sample */
};

/* Watched pairs by identity (hashing with chains) and by age. Places are indices of slab. The one at 0 is no pair: it
 * ends every list, and stands in the circle of ages between the newest and the oldest. */
struct pair_watch {
    uint32_t *slots; /* first pair of each hash */
    uint32_t mask, count;
    uint64_t seed[2];
    struct pair *slab;
    uint32_t free;
};

/* --- the router ------------------------------------------------------------------------------------------------ */

struct router_split; /* split_channel.h */

struct bt_router {
    /* configuration in force */
    const struct bt_balancer *balancer;
    bool jbsq; /* that is the balancer */
    enum bt_router_forwarding forwarding;
    bool legacy_peers, draining;
    uint32_t depth, central_limit, max_payload;
    uint64_t max_queue_ns, request_timeout_ns;
    uint32_t hold_back_packets;
    uint64_t hold_back_ns;
    struct router_split *split; /* NULL: on one thread. Beside what changes with a configuration only */
    struct bt_router_timers timers;
    struct bt_keyring keys;

    /* workers by slot */
    uint32_t slots;           /* capacity */
    uint32_t used_end;        /* slots ever used are below it */
    _Atomic uint64_t *sent;   /* [slots] written by the request side only */
    struct bt_credit *credit; /* [slots] written by the FEEDBACK side only */
    struct worker *worker;    /* [slots] */
    struct worker_cold *cold; /* [slots] */
    struct bt_load load;
    uint16_t *order; /* [slots] slots in configuration order; order[0] is the sticky master */
    uint32_t order_n;
    uint16_t *map;      /* address → slot + 1, open addressing */
    uint16_t *map_next; /* built while a configuration is being judged */
    uint32_t map_mask;
    uint32_t map_shift; /* 64 − its bits */
    uint64_t map_factor;

    /* central FIFO: held packets, linked by next */
    struct bt_txq held;
    bool pump_due;         /* a configuration or a tick may have freed credit */
    bool waits_for_credit; /* what is held waits for nothing else: not for an idle worker nor for a pump */

    struct pair_watch pairs;
    struct router_watchers watchers;
    bool noted;       /* somebody watches: what happens to each request matters */
    bool another;     /* what leaves now is watched apart from an earlier pair of its identity */
    bool none_steady; /* every FEEDBACK takes the long way, behind which watchers may act */
    struct bt_hist_slices *latency, *hold;
    /* of the features (features.h), which alone read them */
    struct bt_admission *admission;      /* NULL: off. The REQ0 half uses that of the other one (split.h) */
    struct bt_admission *admission_room; /* where it is when on */
    struct bt_hist *class_latency;       /* [BT_ADMISSION_CLASSES + 1] or NULL */
    struct router_hedging *hedging;      /* NULL: off */
    struct router_hedging *hedging_room; /* where it is when on */
    uint32_t unjudged;                   /* oldest pair that is not PAIR_JUDGED; 0: none */
    uint32_t response[64]; /* time from forwarding to FEEDBACK, by power of two ns: T_leak follows it */

    uint64_t now;         /* latest time given: packets stamped on different ports may come a little out of order */
    uint64_t leak_ns;     /* T_leak now: the larger of the configured one and 20× observed p99 */
    uint64_t next_health; /* next look at silent and failing workers */
    uint64_t next_learn, next_decay;
    uint64_t last_request_at, drain_since;

    /* Another thread sends (split.h): when the latest of the requests that `sent` counts left. NULL: this one sends. */
    const _Atomic uint64_t *sends_clock;

    struct bt_trace_ring *traces; /* NULL: not kept. Written where FEEDBACK is taken */
    /* What a worker told last of flow control (F-49), for the DROPs of this router; 0: nothing. The FEEDBACK half
     * writes that of the other one (split.h). */
    _Atomic uint32_t flow_told, *tell_flow;

    struct bt_pool *pool;
    struct bt_addr request_addr, feedback_addr;
    uint32_t router_id; /* */
    uint8_t option[8];  /* option kind 5 with it, as it stands in a packet */
    uint64_t counter[BT_ROUTER_COUNTERS];
    uint64_t malformed[BT_M_COUNT];
};

/* Time never goes back inside the router, so that differences of times are never negative. */
static inline uint64_t router_clock(struct bt_router *r, uint64_t now)
{
    r->now = now > r->now ? now : r->now;
    return r->now;
}

static inline uint64_t router_sent(const struct bt_router *r, size_t w)
{
    return atomic_load_explicit(&r->sent[w], memory_order_relaxed);
}

static inline uint64_t router_outstanding(const struct bt_router *r, uint32_t w)
{
    return bt_credit_outstanding(router_sent(r, w), bt_credit_settled(&r->credit[w]));
}

/* The policy's choice: a worker or BT_NO_WORKER. The default policy is inlined: its call would cost a third of it. */
static inline uint32_t router_choose(struct bt_router *r)
{
    return __builtin_expect(r->jbsq, 1) ? bt_jbsq(&r->load) : r->balancer->pick(&r->load);
}

/* Worker w was given one request more. Returns which one of its requests that is, from 0. The index is to be told by
 * bt_load_push, unless the worker was the sole choice. */
static inline uint64_t router_count_sent(struct bt_router *r, size_t w)
{
    uint64_t index = router_sent(r, w);
    atomic_store_explicit(&r->sent[w], index + 1u, memory_order_release); /* split_take_report */
    return index;
}

/* Worker w, which owes so many requests now, has credit again while a request is held because no worker had any: then w
 * is the only choice, and the index, which says that w is full, need not hear in between that it was free. */
static inline bool router_sole_choice(const struct bt_router *r, size_t w, uint64_t outstanding)
{
    return r->waits_for_credit && outstanding + 1u == r->load.limit[w] && r->load.rank[w].major == BT_LOAD_FULL;
}

/* The sole choice got a request: it is full again, as the index says. */
static inline void router_hand_over(struct bt_router *r, size_t w)
{
    r->load.outstanding[w] = r->load.limit[w];
}

/* Version, flags, n and incarnation of a FEEDBACK as they stand in the packet, less the flags that do not matter. Never
 * NEVER_STEADY. */
static inline uint64_t router_steady(const uint8_t *payload)
{
    const uint8_t no_matter = (uint8_t)~(BT_FEEDBACK_JOIN | BT_FEEDBACK_LEAVE | BT_FEEDBACK_PAIR | BT_FEEDBACK_DROPPED);
    uint64_t word;
    memcpy(&word, payload + BT_FEEDBACK_VERSION_AT, sizeof word);
    return word & htobe64(~((uint64_t)no_matter << 48)); /* flags are the second byte */
}

/* Beside router_steady in the word of a worker whose FEEDBACK must carry a tag: one of the flags that do not matter, so
 * that no packet without tag compares as steady. */
#define STEADY_TAGGED htobe64(UINT64_C(0x80) << 48)
static_assert((0x80 & (BT_FEEDBACK_JOIN | BT_FEEDBACK_LEAVE | BT_FEEDBACK_PAIR | BT_FEEDBACK_DROPPED)) == 0,
              "the mark of tags is none of the flags that matter");

#endif
