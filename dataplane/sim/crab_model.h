// SPDX-License-Identifier: Apache-2.0
// What CRAB's choice of a server does to latency: clients, balancers and servers without packets, but with
// the balancer's own pool (src/tcp/crab_pool.h). A connection carries one request; a server is one FCFS queue.
#ifndef BOBTAIL_SIM_CRAB_MODEL_H
#define BOBTAIL_SIM_CRAB_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "tcp/crab_pool.h"

enum { SIM_CRAB_MOST = 1024 };

/* Who chooses. */
enum sim_crab_variant {
    SIM_CRAB_RANDOM,
    SIM_CRAB_DISTRIBUTED, /* round robin, a pointer in each client, started at random */
    SIM_CRAB_CENTRAL,     /* round robin, one pointer */
    SIM_CRAB_TWO,         /* the lesser of two, by reports */
    SIM_CRAB_LEAST,       /* fewest open connections, by reports */
    SIM_CRAB_VARIANTS
};

struct sim_crab_model {
    uint32_t clients, servers; /* 1..SIM_CRAB_MOST */
    double load;               /* per server, below 1 */
    double report_every;       /* mean service times between two reports of a server */
    uint64_t requests;         /* the first tenth is left out */
    bool exponential;          /* service: exponential of mean 1, else always 1 */
    uint64_t seed;
};

struct sim_crab_point {
    double p50, p99;  /* sojourn, in mean service times */
    double imbalance; /* most connections of a server over fewest */
};

const char *sim_crab_variant_name(enum sim_crab_variant v);

/* 0, or -1: no memory. */
int sim_crab_run(const struct sim_crab_model *m, enum sim_crab_variant v, struct sim_crab_point *point);

#endif
