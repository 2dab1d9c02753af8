// SPDX-License-Identifier: Apache-2.0
// Load-aware hedging of reads (LÆDGE; Primorac, EPFL thesis 10253, chapter 5 and algorithms 1 to 3; ):
// which replica gets a request, and which gets a second copy of one that may be stuck. Pure and without a parameter:
// it is told of arrivals and replies and answers with what to start and what to cancel. One of these stands in front of
// the replicas of one shard, each of which serves one request at a time; what no replica can take waits here, first
// come first served. Without copies it is per-shard queueing (PSQ), so that both are the same code.
#ifndef BOBTAIL_ROUTER_HEDGE_H
#define BOBTAIL_ROUTER_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

enum bt_hedge_mode {
    BT_HEDGE_OFF,        /* PSQ: no second copy */
    BT_HEDGE_LOAD_AWARE, /* LÆDGE: nothing is cancelled */
    BT_HEDGE_CLEANUP,    /* and the twin of an answered request is cancelled (+CC) */
    BT_HEDGE_PREEMPTIVE, /* and a twin makes room for a newcomer (+CC +PC) */
    BT_HEDGE_IDEALIZED,  /* the same, cancelling what would end later: a bound, needs bt_hedge_foresee */
    BT_HEDGE_MODES
};

enum { BT_HEDGE_REPLICAS_MAX = 16, BT_HEDGE_STEPS_MAX = 3 };

#define BT_HEDGE_NONE UINT32_MAX

/* What to do, in this order. */
struct bt_hedge_step {
    uint64_t request;
    uint32_t replica;
    bool cancel; /* else: start */
    bool copy;   /* started: it runs elsewhere, too */
};

struct bt_hedge_steps {
    struct bt_hedge_step step[BT_HEDGE_STEPS_MAX];
    uint32_t n;
};

/* What a reply is. */
enum bt_hedge_reply {
    BT_HEDGE_FIRST,  /* forward it */
    BT_HEDGE_LATE,   /* of a request answered before: discard */
    BT_HEDGE_UNKNOWN /* of nothing that runs there: discard; nothing has changed */
};

struct bt_hedge_stats {
    uint64_t arrivals, refused;     /* refused: the queue was full */
    uint64_t starts, copies;        /* copies: starts of what ran elsewhere at that time */
    uint64_t first, late, unknown;  /* replies */
    uint64_t cleanups, preemptions; /* cancels, by reason */
};

struct bt_hedge_replica {
    uint64_t request, started, ends; /* ends: bt_hedge_foresee */
    uint32_t twin;                   /* replica of the other live copy, or BT_HEDGE_NONE */
    bool stale;                      /* answered by its twin; runs on, because nothing was cancelled */
};

struct bt_hedge {
    enum bt_hedge_mode mode;
    uint32_t replicas;
    uint32_t idle; /* bit per replica */
    struct bt_hedge_replica replica[BT_HEDGE_REPLICAS_MAX];
    uint64_t *queue; /* ring of requests */
    uint32_t mask, head, queued;
    struct bt_rng rng;
    struct bt_hedge_stats stats;
};

/* NULL, or what is wrong, naming the field: replicas 1…16, capacity of the queue a power of two up to 2^31. */
const char *bt_hedge_judge(enum bt_hedge_mode mode, uint32_t replicas, uint32_t capacity);

/* All replicas idle. queue: memory for `capacity` requests, the caller's until the end; values judged before. */
void bt_hedge_init(struct bt_hedge *h, enum bt_hedge_mode mode, uint32_t replicas, uint64_t *queue, uint32_t capacity,
                   uint64_t seed);

/* A request arrived. False: no replica is idle and the queue is full; nothing has changed. Times are
 * compared with each other only. */
bool bt_hedge_arrive(struct bt_hedge *h, uint64_t request, uint64_t now, struct bt_hedge_steps *out);

/* A replica answered. A cancel takes effect at once: whoever cannot rely on it does without. */
enum bt_hedge_reply bt_hedge_respond(struct bt_hedge *h, uint32_t replica, uint64_t request, uint64_t now,
                                     struct bt_hedge_steps *out);

/* Idealized: when what was started on a replica will end. Nobody but a simulator knows. */
static inline void bt_hedge_foresee(struct bt_hedge *h, uint32_t replica, uint64_t ends)
{
    h->replica[replica].ends = ends;
}

#endif
