// SPDX-License-Identifier: Apache-2.0
// A search-like service under virtual time: a request asks every shard, a shard has a few replicas, and the answer is
// complete with the first reply of each shard (Primorac, EPFL thesis 10253, section 4.3). A replica serves first come
// first served, one request at a time; a service takes P + J: P is drawn once per request and shard, mean 1,
// exponential; J once per execution, D with probability p and else nothing. Only against J does a hedged request help.
// Network and cancels take no time. Per-shard queueing and load-aware hedging are the compiled policy of
// laedge.c; the policies that push (Random, JSQ, Naive, delayed hedging) stand beside it for comparison.
#ifndef BOBTAIL_SIM_FANOUT_MODEL_H
#define BOBTAIL_SIM_FANOUT_MODEL_H

#include <stdint.h>

enum sim_fanout_policy {
    SIM_FANOUT_RANDOM,
    SIM_FANOUT_JSQ,
    SIM_FANOUT_PSQ,
    SIM_FANOUT_NAIVE,   /* two copies of everything, nothing cancelled */
    SIM_FANOUT_DELAYED, /* a hedged request after a delay; the twin of what is answered: enum sim_fanout_cleanup */
    SIM_FANOUT_LAEDGE,
    SIM_FANOUT_LAEDGE_CC,
    SIM_FANOUT_LAEDGE_CC_PC,
    SIM_FANOUT_IDEALIZED,
    SIM_FANOUT_POLICIES
};

/* What delayed hedging does about the twin of what is answered; the publication does not say which it means. */
enum sim_fanout_cleanup {
    SIM_FANOUT_CLEAN_ALL,     /* cancelled, also while it runs */
    SIM_FANOUT_CLEAN_WAITING, /* cancelled unless it runs */
    SIM_FANOUT_CLEAN_NONE,
    SIM_FANOUT_CLEANUPS
};

struct sim_fanout_model {
    uint32_t shards, replicas;
    double load;  /* of the replicas by P alone: arrival rate × mean of P ÷ replicas */
    double p, d;  /* hiccup: probability, length in means of P */
    double delay; /* of delayed hedging, in means of P */
    enum sim_fanout_cleanup cleanup;
    uint32_t requests;
    uint64_t seed;
};

/* Twins that made room for a newcomer: of all, and of those where one of the two had a hiccup, which alone is
 * what a choice between them can miss; those begun together, and those whose hedged request began later. */
enum sim_fanout_victims {
    SIM_FANOUT_ANY_TWIN,
    SIM_FANOUT_HICCUP_TOGETHER,
    SIM_FANOUT_HICCUP_LATER,
    SIM_FANOUT_VICTIMS
};

struct sim_fanout_chosen {
    uint64_t n, right; /* right: the other one would not have ended later */
};

struct sim_fanout_point {
    double p50, p99, p999; /* of requests, in means of P */
    double copies;         /* executions begun per request and shard */
    double busy;           /* share of the replicas' time, from the first arrival to the last one */
    struct sim_fanout_chosen chosen[SIM_FANOUT_VICTIMS];
};

const char *sim_fanout_policy_name(uint32_t policy);
/* 50 shards of 2 replicas, p 0.001, D 15, delay 5, load 0.2, 150,000 requests. */
void sim_fanout_defaults(struct sim_fanout_model *m);
/* NULL, or what is wrong with the model, naming the field. */
const char *sim_fanout_refuse(const struct sim_fanout_model *m);
/* Runs the policies whose bits are set, all of them with the same arrivals and the same draws of P and J. out: one per
 * policy, [SIM_FANOUT_POLICIES]; those not asked for stay as they are. */
void sim_fanout_run(const struct sim_fanout_model *m, uint32_t policies, struct sim_fanout_point *out);

#endif
