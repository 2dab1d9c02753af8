// SPDX-License-Identifier: Apache-2.0
// The router's rooms and what they call of one another. Nothing outside src/router includes this.
#ifndef BOBTAIL_ROUTER_INTERNAL_H
#define BOBTAIL_ROUTER_INTERNAL_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/pairs.h"
#include "base/ring.h"
#include "router/credit.h"
#include "router/load.h"
#include "router/policies/jbsq.h"
#include "router/policy.h"
#include "router/router.h"
#include "wire/feedback.h"
#include "wire/r2p2.h"
#include "wire/tag.h"

#define MILLISECOND UINT64_C(1000000)
#define SECOND      UINT64_C(1000000000)
#define NO_SLOT     UINT32_MAX

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
    uint64_t busy_at;  /* since when it owes an answer: last FEEDBACK or first send after being idle */
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
};

/* --- latency pairs -------------------------------------------------------------------------------------------- */

struct pair {
    struct bt_addr client;
    uint16_t req_id;
    uint16_t worker;
    uint32_t older, newer; /* list by age; NO_SLOT ends it. newer also links the free ones */
    uint64_t since;        /* arrived at the router */
    uint64_t sent_at;      /* left it */
    uint64_t index;        /* it was the worker's index-th request */
};

struct pair_slot {
    uint32_t hash;
    uint32_t at; /* place in slab + 1; 0 = free */
};

/* Watched pairs by identity (open addressing, linear probing) and by age. */
struct pair_watch {
    struct pair_slot *slots;
    uint32_t mask, count;
    uint64_t seed[2];
    struct pair *slab;
    uint32_t oldest, newest, free;
};

/* --- the router ------------------------------------------------------------------------------------------------ */

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
    uint64_t map_seed;

    /* central FIFO: held packets, linked by next */
    struct bt_txq held;
    bool pump_due;         /* a configuration or a tick may have freed credit */
    bool waits_for_credit; /* what is held waits for nothing else: not for an idle worker nor for a pump */

    struct pair_watch pairs;
    struct bt_hist_slices *latency, *hold;
    uint32_t response[64]; /* time from forwarding to FEEDBACK, by power of two ns: T_leak follows it */

    uint64_t now;         /* latest time given: packets stamped on different ports may come a little out of order */
    uint64_t leak_ns;     /* T_leak now: the larger of the configured one and 20× observed p99 */
    uint64_t next_health; /* next look at silent and failing workers */
    uint64_t next_learn, next_decay;
    uint64_t last_request_at, drain_since;

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

/* Worker w was given one request more. Returns w. */
static inline uint32_t router_count_sent(struct bt_router *r, size_t w)
{
    atomic_store_explicit(&r->sent[w], router_sent(r, w) + 1u, memory_order_relaxed);
    return bt_load_push(&r->load, w);
}

/* Worker w, which owes so many requests now, has credit again while a request is held because no worker had any: then w
 * is the only choice, and the index, which says that w is full, need not hear in between that it was free. */
static inline bool router_sole_choice(const struct bt_router *r, size_t w, uint64_t outstanding)
{
    return r->waits_for_credit && outstanding + 1u == r->load.limit[w] && r->load.rank[w].major == BT_LOAD_FULL;
}

/* The same when it was the sole choice: it is full again, as the index says. */
static inline void router_count_handed_over(struct bt_router *r, size_t w)
{
    atomic_store_explicit(&r->sent[w], router_sent(r, w) + 1u, memory_order_relaxed);
    r->load.outstanding[w] = r->load.limit[w];
}

/* workers.c */
/* Only addresses of the configuration are ever inserted, so the hash needs spread, not secrecy. What differs between
 * workers stands at the end of the address: brought to the low bits, a multiplication spreads it to the high ones. */
static inline uint32_t router_map_start(const struct bt_router *r, const struct bt_addr *addr)
{
    uint64_t low = be64toh(bt_addr_half(addr, 8)) << 16 | addr->port;
    uint64_t h = (low ^ bt_addr_half(addr, 0) ^ r->map_seed) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) & r->map_mask;
}

/* Slot or NO_SLOT. */
static inline uint32_t router_find(const struct bt_router *r, const struct bt_addr *addr)
{
    for (uint32_t i = router_map_start(r, addr); r->map[i] != 0; i = (i + 1u) & r->map_mask) {
        if (bt_addr_eq(&r->worker[r->map[i] - 1u].addr, addr)) {
            return r->map[i] - 1u;
        }
    }
    return NO_SLOT;
}

void router_map_add(const struct bt_router *r, uint16_t *map, const struct bt_addr *addr, uint32_t slot);
bool router_map_claim(const struct bt_router *r, uint16_t *map, const struct bt_addr *all, uint32_t i); /* no twin */
void router_map_rebuild(struct bt_router *r);
bool router_may_receive(const struct bt_router *r, uint32_t w); /* policy-0 requests, credit apart */
void router_refresh(struct bt_router *r, uint32_t w);           /* tells the load index after any change of w */
void router_forget(struct bt_router *r, uint32_t w, uint64_t now);
uint32_t router_take_slot(struct bt_router *r, uint64_t now, uint32_t *from);

bool router_master_ready(const struct bt_router *r);    /* sticky requests */
bool router_legacy_possible(const struct bt_router *r); /* workers without options can be served at all */
void router_legacy_default(struct bt_router *r, uint32_t w);

/* queue.c: hdr is the packet's header as decoded on arrival, NULL for a plain one (bt_r2p2_is_plain) */
void router_route(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, struct bt_txq *txq);
void router_credit_came(struct bt_router *r, uint64_t now, uint32_t w, uint64_t outstanding, struct bt_txq *txq);
void router_pump(struct bt_router *r, uint64_t now, struct bt_txq *txq);
void router_expire_held(struct bt_router *r, uint64_t now, struct bt_txq *txq);
uint64_t router_queue_next(const struct bt_router *r);

/* Credit may have come that no FEEDBACK brought. */
static inline void router_pump_soon(struct bt_router *r)
{
    r->pump_due = true;
    r->waits_for_credit = false;
}

/* forward.c */
bool router_forward(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, struct bt_r2p2_hdr *hdr, uint32_t w,
                    bool handed_over, struct bt_txq *txq); /* false: DROP was sent instead */
void router_drop(struct bt_router *r, uint64_t now, struct bt_pkt *pkt, enum bt_router_counter reason,
                 struct bt_txq *txq);
void router_reject(struct bt_router *r, struct bt_pkt *pkt, enum bt_mcase why);

/* watch.c */
void router_watch_init(struct bt_router *r, uint32_t limit, struct bt_mem *mem, uint64_t seed);
void router_watch_expect(const struct bt_router *r, const struct bt_addr *client, uint16_t req_id); /* soon started */
void router_watch_start(struct bt_router *r, uint64_t now, const struct bt_addr *client, uint16_t req_id, uint32_t w,
                        uint64_t since);
void router_watch_end(struct bt_router *r, uint64_t now, const struct bt_addr *client, uint16_t req_id, uint32_t w,
                      bool rejected);
void router_watch_expire(struct bt_router *r, uint64_t now);
uint64_t router_watch_next(const struct bt_router *r);

/* health.c */
void router_health(struct bt_router *r, uint64_t now);
void router_health_soon(struct bt_router *r, uint64_t now);
void router_note_finished(struct bt_router *r, uint64_t now, uint32_t w, bool dropped);

#endif
