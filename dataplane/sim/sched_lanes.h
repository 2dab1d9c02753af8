// SPDX-License-Identifier: Apache-2.0
// A router in front of lanes (D-3): a pod is one port a lane of some cores, which run src/sched, and the router counts
// requests at lanes as it does at workers: JBSQ with the shipped policy and load index.
#ifndef BOBTAIL_SIM_SCHED_LANES_H
#define BOBTAIL_SIM_SCHED_LANES_H

#include "policy_model.h"

enum { SIM_SCHED_LANES_MAX = 16 };

struct sim_sched_lane {
    uint32_t cores;
    uint32_t n; /* requests the router has there at most */
};

/* The p99 in ns of m's requests (load, service, seed; the path's dispatch and feedback), warm-up left out. The cores of
 * all lanes together are m->workers. */
double sim_sched_lanes_p99(const struct sim_policy_model *m, const struct sim_sched_lane *lane, uint32_t lanes);
/* n of a lane: what hides the loop's delay, and some: k(1 + D ÷ mean) + 8, at most 64. */
uint32_t sim_sched_lane_n(const struct sim_policy_model *m, uint32_t cores);

#endif
