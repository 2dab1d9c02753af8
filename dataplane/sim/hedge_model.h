// SPDX-License-Identifier: Apache-2.0
// A search-like service under virtual time: a request asks every shard, a shard has a few replicas, and the answer is
// complete with the first reply of each shard (Primorac, EPFL thesis 10253, section 4.3). A replica serves first come
// first served, one request at a time; a service takes P + J: P is drawn once per request and shard, mean 1,
// exponential; J once per execution, D with probability p and else nothing. Only against J does a second copy help.
// Network and cancels take no time. Per-shard queueing and load-aware hedging are the compiled policy of
// src/router/hedge.c; the policies that push (Random, JSQ, Naive, delayed hedging) stand beside it for comparison.
#ifndef BOBTAIL_SIM_HEDGE_MODEL_H
#define BOBTAIL_SIM_HEDGE_MODEL_H

#include <stdint.h>

enum sim_hedge_policy {
    SIM_HEDGE_RANDOM,
    SIM_HEDGE_JSQ,
    SIM_HEDGE_PSQ,
    SIM_HEDGE_NAIVE,   /* two copies of everything, nothing cancelled */
    SIM_HEDGE_DELAYED, /* a second copy after a delay; the twin of what is answered: enum sim_hedge_cleanup */
    SIM_HEDGE_LAEDGE,
    SIM_HEDGE_LAEDGE_CC,
    SIM_HEDGE_LAEDGE_CC_PC,
    SIM_HEDGE_IDEALIZED,
    SIM_HEDGE_POLICIES
};

/* What delayed hedging does about the twin of what is answered; the publication does not say which it means. */
enum sim_hedge_cleanup {
    SIM_HEDGE_CLEAN_ALL,     /* cancelled, also while it runs */
    SIM_HEDGE_CLEAN_WAITING, /* cancelled unless it runs */
    SIM_HEDGE_CLEAN_NONE,
    SIM_HEDGE_CLEANUPS
};

struct sim_hedge_model {
    uint32_t shards, replicas;
    double load;  /* of the replicas by P alone: arrival rate × mean of P ÷ replicas */
    double p, d;  /* hiccup: probability, length in means of P */
    double delay; /* of delayed hedging, in means of P */
    enum sim_hedge_cleanup cleanup;
    uint32_t requests;
    uint64_t seed;
};

/* Twins that made room for a newcomer: of all, and of those where one of the two had a hiccup, which alone is
 * what a choice between them can miss; those begun together, and those whose second copy began later. */
enum sim_hedge_victims { SIM_HEDGE_ANY_TWIN, SIM_HEDGE_HICCUP_TOGETHER, SIM_HEDGE_HICCUP_LATER, SIM_HEDGE_VICTIMS };

struct sim_hedge_chosen {
    uint64_t n, right; /* right: the other one would not have ended later */
};

struct sim_hedge_point {
    double p50, p99, p999; /* of requests, in means of P */
    double copies;         /* executions begun per request and shard */
    double busy;           /* share of the replicas' time, from the first arrival to the last one */
    struct sim_hedge_chosen chosen[SIM_HEDGE_VICTIMS];
};

const char *sim_hedge_policy_name(uint32_t policy);
/* 50 shards of 2 replicas, p 0.001, D 15, delay 5, load 0.2, 150,000 requests. */
void sim_hedge_defaults(struct sim_hedge_model *m);
/* NULL, or what is wrong with the model, naming the field. */
const char *sim_hedge_refuse(const struct sim_hedge_model *m);
/* Runs the policies whose bits are set, all of them with the same arrivals and the same draws of P and J. out: one per
 * policy, [SIM_HEDGE_POLICIES]; those not asked for stay as they are. */
void sim_hedge_run(const struct sim_hedge_model *m, uint32_t policies, struct sim_hedge_point *out);

#endif
