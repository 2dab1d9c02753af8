// SPDX-License-Identifier: Apache-2.0
// Flow control by waiting time in a closed loop: src/sched tells, rpc/fc_sender obeys; clients, network and cores are a
// model. What cannot be sent is dropped, as in the published experiments.
#ifndef BOBTAIL_SIM_FC_MODEL_H
#define BOBTAIL_SIM_FC_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/fc_load.h"
#include "stream.h"

enum { SIM_FC_SERVERS = 2, SIM_FC_GROUPS = 2 };

/* Clients with Poisson requests, each on a random one of their connections to each server they know. */
struct sim_fc_group {
    double rps;
    uint32_t first, servers; /* which they know: a request takes one of them, drawn, and another if that refuses */
};

struct sim_fc_model {
    struct sim_dist service;
    uint32_t servers, lanes, cores; /* lanes of a server, each one queue; cores of a lane */
    uint32_t connections;           /* of a group with a server, dealt round its lanes */
    struct sim_fc_group group[SIM_FC_GROUPS];
    uint32_t groups;
    double path_ns;                   /* between client and server, one way */
    double overhead_ns;               /* of the stack, besides the service */
    bool controlled;                  /* false: everything is sent */
    struct bt_fc_objective objective; /* cores are set by the run */
    uint64_t requests;                /* asked for, in all; the first quarter is left out */
    uint64_t seed;
};

struct sim_fc_result {
    struct {
        uint64_t asked, dropped;
        double p99_ns; /* from asking to the reply */
    } group[SIM_FC_GROUPS];
    struct {
        double wait_p99_ns; /* between arrival at the server and the begin of service */
        double rps, load;   /* served; of a core */
        uint64_t refused;   /* by the server, past every token */
    } server[SIM_FC_SERVERS];
};

/* 16 cores of 10 us, 100 us at the 99th, 4096 connections (tcp-flow-control §5). */
void sim_fc_defaults(struct sim_fc_model *m);
void sim_fc_run(const struct sim_fc_model *m, struct sim_fc_result *out);

#endif
