// SPDX-License-Identifier: Apache-2.0
// One shard of fanout_model.h: what was drawn for it, and what a policy writes down about it.
#ifndef BOBTAIL_SIM_FANOUT_SHARD_H
#define BOBTAIL_SIM_FANOUT_SHARD_H

#include <stdbool.h>

#include "base/rng.h"
#include "fanout_model.h"

#define SIM_FANOUT_NEVER   UINT64_MAX
#define SIM_FANOUT_UNIT_NS 1e6 /* the mean of P; a scale only */

/* Drawn before any policy sees it, so that all of them serve the same. */
struct sim_fanout_query {
    uint64_t p;    /* ns */
    bool slow[2];  /* do the first two executions meet a hiccup? */
    uint8_t drawn; /* executions so far; the policy's run */
    uint8_t first; /* replica of the first copy, of policies that push */
    bool answered;
};

struct sim_fanout_shard {
    const struct sim_fanout_model *m;
    const uint64_t *at; /* [requests] arrivals, ns */
    struct sim_fanout_query *query;
    uint64_t *queue;       /* memory for `capacity` requests, a power of two and at least `requests` */
    uint32_t *rings;       /* the same, one ring per replica */
    uint32_t capacity;     /* of each */
    uint64_t *took;        /* [requests] longest so far of all shards, ns */
    struct bt_rng more;    /* hiccups of third and later executions */
    struct bt_rng choice;  /* of replicas */
    uint64_t starts, busy; /* added up; busy in ns, before the last arrival */
    struct sim_fanout_chosen chosen[SIM_FANOUT_VICTIMS];
};

/* How long an execution of the query takes that begins now. */
uint64_t sim_fanout_execution(struct sim_fanout_shard *s, uint32_t query);
/* The first answer of the query. */
void sim_fanout_answered(struct sim_fanout_shard *s, uint32_t query, uint64_t now);
/* A replica was busy between the two times. */
void sim_fanout_was_busy(struct sim_fanout_shard *s, uint64_t from, uint64_t to);

/* Serves all queries of the shard: by the compiled policy, or pushed. */
void sim_fanout_pull(struct sim_fanout_shard *s, enum sim_fanout_policy policy);
void sim_fanout_push(struct sim_fanout_shard *s, enum sim_fanout_policy policy);

#endif
