// SPDX-License-Identifier: Apache-2.0
// Load-aware hedging of reads (LÆDGE; Primorac, EPFL thesis 10253, chapter 5 and algorithms 1 to 3; ):
// which replica gets a request, and which gets a hedged request for one that may be stuck. Pure and without a
// parameter: it is told of arrivals and replies and answers with what to start and what to cancel. One of these stands
// in front of the replicas of one shard, each of which serves one request at a time; what no replica can take waits
// here, first come first served. Without copies it is per-shard queueing (PSQ), so that both are the same code.
#ifndef BOBTAIL_SIM_LAEDGE_H
#define BOBTAIL_SIM_LAEDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

enum sim_laedge_mode {
    SIM_LAEDGE_OFF,        /* PSQ: no hedged request */
    SIM_LAEDGE_LOAD_AWARE, /* LÆDGE: nothing is cancelled */
    SIM_LAEDGE_CLEANUP,    /* and the twin of an answered request is cancelled (+CC) */
    SIM_LAEDGE_PREEMPTIVE, /* and a twin makes room for a newcomer (+CC +PC) */
    SIM_LAEDGE_IDEALIZED,  /* the same, cancelling what would end later: a bound, needs sim_laedge_foresee */
    SIM_LAEDGE_MODES
};

enum { SIM_LAEDGE_REPLICAS_MAX = 16, SIM_LAEDGE_STEPS_MAX = 3 };

#define SIM_LAEDGE_NONE UINT32_MAX

/* What to do, in this order. */
struct sim_laedge_step {
    uint64_t request;
    uint32_t replica;
    bool cancel; /* else: start */
    bool copy;   /* started: it runs elsewhere, too */
};

struct sim_laedge_steps {
    struct sim_laedge_step step[SIM_LAEDGE_STEPS_MAX];
    uint32_t n;
};

/* What a reply is. */
enum sim_laedge_reply {
    SIM_LAEDGE_FIRST,  /* forward it */
    SIM_LAEDGE_LATE,   /* of a request answered before: discard */
    SIM_LAEDGE_UNKNOWN /* of nothing that runs there: discard; nothing has changed */
};

struct sim_laedge_stats {
    uint64_t arrivals, refused;     /* refused: the queue was full */
    uint64_t starts, copies;        /* copies: starts of what ran elsewhere at that time */
    uint64_t first, late, unknown;  /* replies */
    uint64_t cleanups, preemptions; /* cancels, by reason */
};

struct sim_laedge_replica {
    uint64_t request, started, ends; /* ends: sim_laedge_foresee */
    uint32_t twin;                   /* replica of the other live copy, or SIM_LAEDGE_NONE */
    bool stale;                      /* answered by its twin; runs on, because nothing was cancelled */
};

struct sim_laedge {
    enum sim_laedge_mode mode;
    uint32_t replicas;
    uint32_t idle; /* bit per replica */
    struct sim_laedge_replica replica[SIM_LAEDGE_REPLICAS_MAX];
    uint64_t *queue; /* ring of requests */
    uint32_t mask, head, queued;
    struct bt_rng rng;
    struct sim_laedge_stats stats;
};

/* NULL, or what is wrong, naming the field: replicas 1…16, capacity of the queue a power of two up to 2^31. */
const char *sim_laedge_judge(enum sim_laedge_mode mode, uint32_t replicas, uint32_t capacity);

/* All replicas idle. queue: memory for `capacity` requests, the caller's until the end; values judged before. */
void sim_laedge_init(struct sim_laedge *h, enum sim_laedge_mode mode, uint32_t replicas, uint64_t *queue,
                     uint32_t capacity, uint64_t seed);

/* A request arrived. False: no replica is idle and the queue is full; nothing has changed. Times are
 * compared with each other only. */
bool sim_laedge_arrive(struct sim_laedge *h, uint64_t request, uint64_t now, struct sim_laedge_steps *out);

/* A replica answered. A cancel takes effect at once: whoever cannot rely on it does without. */
enum sim_laedge_reply sim_laedge_respond(struct sim_laedge *h, uint32_t replica, uint64_t request, uint64_t now,
                                         struct sim_laedge_steps *out);

/* Idealized: when what was started on a replica will end. Nobody but a simulator knows. */
static inline void sim_laedge_foresee(struct sim_laedge *h, uint32_t replica, uint64_t ends)
{
    h->replica[replica].ends = ends;
}

#endif
