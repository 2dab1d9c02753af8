// SPDX-License-Identifier: Apache-2.0
// Policy-only simulation: the shipped load-balancing policies (bt_balancers, bt_load) and the central FIFO under
// virtual time without a wire byte, beside the pure queueing models they are compared with. A run is a function of a
// trace of jobs, so every policy sees the same arrivals and service times, and a trace taken from the packet
// simulation may be replayed here.
//
// Because delays are constant and workers behind a router serve first come first served, a request's end is known when
// it is dispatched. What is left to order are arrivals (already in order) and FEEDBACK notices (sim_notices). Servers
// of another discipline are reached without a router: where it would put the next request depends on ends it cannot
// know.
#ifndef BOBTAIL_SIM_POLICY_MODEL_H
#define BOBTAIL_SIM_POLICY_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oracle.h"
#include "stream.h"
#include "times.h"

enum {
    SIM_POLICY_WORKERS_MAX = 1024,
    SIM_POLICY_DEPTH_MAX = 64,
    SIM_POLICY_BATCHES = 20 /* consecutive parts of a run, for the confidence of its p99 */
};

enum sim_policy_kind {
    SIM_POLICY_ROUTER,            /* a shipped policy behind a software router */
    SIM_POLICY_SWITCH,            /* JBSQ as a switch pipeline does it (R-129…R-133) */
    SIM_POLICY_DIRECT,            /* no router: the client draws a worker, k × M/G/1 when there is no delay */
    SIM_POLICY_CENTRAL,           /* one queue, no delay at all: the bound */
    SIM_POLICY_STEAL,             /* work stealing between the cores of one server (ZygOS; Q-9) */
    SIM_POLICY_SJF,               /* one server, shortest job first */
    SIM_POLICY_EDF,               /* one server, earliest deadline first */
    SIM_POLICY_CSCQ,              /* one server, cycle stealing between fast and slow workers */
    SIM_POLICY_PS,                /* one server that shares all its workers out */
    SIM_POLICY_DIRECT_PS,         /* as DIRECT, and each worker shares itself out */
    SIM_POLICY_RUN_TO_COMPLETION, /* one server, whose cores run src/sched in that mode */
    SIM_POLICY_WORK_STEALING,     /* and in this one */
    SIM_POLICY_KINDS
};

/* One-way times in ns. A client's p99 contains the first two or client_server, the service and reply. */
struct sim_policy_path {
    uint64_t client_router_ns, dispatch_ns; /* client → router → worker */
    uint64_t feedback_ns;                   /* worker → router: the rest of the loop D */
    uint64_t reply_ns;                      /* worker → client */
    uint64_t client_server_ns;              /* client → worker without router */
    uint64_t router_ns;                     /* the router is busy so long with a request: 1/its rate limit */
    uint64_t confirm_ns; /* REQRDY and REQ1…: a request of several packets is complete so much later */
};

/* The pipeline of R-130: a pass compares `group` servers; what finds none goes round again. */
struct sim_policy_pipeline {
    uint32_t group;
    uint64_t pass_ns; /* one recirculation */
    uint64_t gap_ns;  /* two packets on the recirculation port are so far apart: it bounds the queue */
};

/* A search for the highest load need not finish a run that is lost: more than late_max of the requests from `from` on
 * took longer than limit_ns. limit_ns 0: every run is finished. What was not served then counts as dropped. */
struct sim_policy_patience {
    uint64_t limit_ns, late_max, from;
};

struct sim_policy_model {
    enum sim_policy_kind kind;
    uint32_t policy; /* enum bt_router_policy, for SIM_POLICY_ROUTER */
    uint32_t workers, depth;
    struct sim_dist service;
    const struct sim_times *times; /* of SIM_DIST_TRACE: what the services are drawn from */
    uint64_t overhead_ns;          /* worker time per request on top of the service */
    double load;                   /* of workers ÷ mean service time, overhead not counted */
    uint64_t requests;
    double warmup; /* share of them not measured */
    uint64_t seed;
    uint32_t central_limit; /* held requests beyond it are dropped; 0 = no bound */
    struct sim_policy_path path;
    struct sim_policy_pipeline pipeline;
    struct sim_policy_patience patience; /* heeded by SIM_POLICY_ROUTER and SIM_POLICY_SWITCH */
    bool interrupts;  /* STEAL, WORK_STEALING: idle cores see what waits in a busy core's NIC queue */
    uint32_t batch;   /* RUN_TO_COMPLETION, WORK_STEALING: packets that a core takes at once, at most (Z-04) */
    uint64_t look_ns; /* RUN_TO_COMPLETION, WORK_STEALING: a core's time for each look at its network */
    bool together;    /* RUN_TO_COMPLETION: replies of a batch leave when it is done (Z-03) */
};

#define SIM_POLICY_DROPPED UINT64_MAX

/* What an engine counts besides the sojourn times. */
struct sim_policy_counts {
    uint64_t dropped, held, most_held; /* held: requests that waited in the central queue */
    uint64_t most_outstanding;         /* at one worker, in the router's count */
    uint64_t passes;                   /* recirculations */
    uint64_t late;                     /* beyond the model's patience */
    uint64_t stolen;
};

struct sim_policy_result {
    double offered_rps, achieved_rps; /* achieved: answered between the first and last measured arrival */
    double throughput;                /* achieved as a share of workers ÷ mean service time */
    double mean_ns, p50_ns, p99_ns, p999_ns;
    double p99_error_ns; /* half of the 95 % interval, from batches */
    uint64_t measured;
    struct sim_policy_counts counts;
    double wall_seconds;
};

/* An ideal path, 16 exponential workers of 10 µs, JBSQ(2). */
void sim_policy_defaults(struct sim_policy_model *m);
/* NULL, or what is wrong with the model, naming the field. */
const char *sim_policy_refuse(const struct sim_policy_model *m);
/* Fills job[0…m->requests): the arrivals and services of seed, load and distribution, the same for every policy. */
void sim_policy_jobs(const struct sim_policy_model *m, struct sim_job *job);
/* Sojourn of each of n jobs at the client, SIM_POLICY_DROPPED for those refused. m is valid. */
void sim_policy_play(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                     struct sim_policy_counts *counts);
/* Draws, plays and judges m->requests jobs. */
void sim_policy_run(const struct sim_policy_model *m, struct sim_policy_result *out);
/* Share of the measured requests of one run that took longer than limit_ns (>= 1) or were dropped. A run with more than
 * `enough` of them is not finished, and what it says is only that. */
double sim_policy_late(const struct sim_policy_model *m, double limit_ns, double enough);

/* Notes the sojourn of job i in the counts; true when the patience has ended. */
static inline bool sim_policy_impatient(const struct sim_policy_model *m, struct sim_policy_counts *counts, size_t i,
                                        uint64_t sojourn_ns)
{
    if (m->patience.limit_ns == 0 || sojourn_ns <= m->patience.limit_ns || i < m->patience.from) {
        return false;
    }
    return ++counts->late > m->patience.late_max;
}

/* The engines, one file each. */
void sim_policy_router(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                       struct sim_policy_counts *counts);
void sim_policy_switch(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                       struct sim_policy_counts *counts);
void sim_policy_steal(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                      struct sim_policy_counts *counts);
void sim_policy_ordered(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                        struct sim_policy_counts *counts);
void sim_policy_cscq(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                     struct sim_policy_counts *counts);
void sim_policy_sched(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                      struct sim_policy_counts *counts);
void sim_policy_ps(const struct sim_policy_model *m, const struct sim_job *job, size_t n, uint64_t *sojourn_ns,
                   struct sim_policy_counts *counts);

#endif
