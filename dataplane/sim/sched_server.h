// SPDX-License-Identifier: Apache-2.0
// A server of k cores in virtual time that does what src/sched tells it: the product's objects, with a network that is
// a ring a core and handlers that take the time their requests say.
#ifndef BOBTAIL_SIM_SCHED_SERVER_H
#define BOBTAIL_SIM_SCHED_SERVER_H

#include "policy_notices.h"
#include "sched/sched.h"

struct sim_sched_request {
    struct bt_sched_event event;      /* first */
    struct sim_sched_request *behind; /* in the ring */
    uint64_t service_ns;
    uint32_t group;
};

/* Inputs, all 0 for the pure queue. */
struct sim_sched_costs {
    uint64_t request_ns;            /* of a core, for each request it executes */
    uint64_t network_ns, packet_ns; /* a look at a network, and each packet that is taken */
    uint64_t wake_ns;               /* from a core's being woken to its first look */
};

struct sim_sched_setup {
    struct bt_sched_setup sched;
    struct sim_sched_costs costs;
    uint32_t batch;
    bool flow_each;       /* a request is its own flow (D-4) */
    bool together;        /* to completion: replies leave when their batch is done, and not one by one */
    double hint_lost;     /* chance that what a network has is not told */
    uint64_t redirect_ns; /* after bt_sched_move_step asks for it, packets go to the new home */
    uint64_t wait_ns;     /* how long the new home waits for a first packet; 0: 2 * redirect_ns + 1 */
    bool look_at_polls;   /* at a migration: once a batch, as Z-03's loop does, and not after each handler */
    uint64_t look_ns;     /* a core looks at a migration no sooner again; 0: whenever it looks at its network */
    uint64_t seed;
    void *arg; /* of the two below; either may be NULL */
    void (*executing)(void *arg, const struct sim_sched_request *r, uint32_t core, bool begins, uint64_t now);
    void (*replied)(void *arg, const struct sim_sched_request *r, uint64_t now);
};

struct sim_sched_server;

/* setup outlives it. */
struct sim_sched_server *sim_sched_open(const struct sim_sched_setup *setup);
void sim_sched_close(struct sim_sched_server *sv);
/* A packet comes; the caller keeps r until it is replied. With flow_each r->event.flow is the server's, else the
 * caller's. False: there is no flow left. */
bool sim_sched_arrive(struct sim_sched_server *sv, struct sim_sched_request *r, uint64_t now);
/* When something is to happen, SIM_NOTICE_NEVER: nothing; and that. */
uint64_t sim_sched_due(const struct sim_sched_server *sv);
void sim_sched_step(struct sim_sched_server *sv);
/* All cores that sleep take a look. */
void sim_sched_rouse(struct sim_sched_server *sv, uint64_t now);
/* Moves those groups of `from` that are in set to `to`; false: not now. */
bool sim_sched_move(struct sim_sched_server *sv, uint32_t from, uint32_t to, const uint64_t *set, uint64_t now);
struct bt_sched *sim_sched_of(struct sim_sched_server *sv);

struct sim_sched_seen {
    uint64_t astray, moves, turns;
};
void sim_sched_read(const struct sim_sched_server *sv, struct sim_sched_seen *out);

#endif
