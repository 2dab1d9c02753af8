// SPDX-License-Identifier: Apache-2.0
// One server with everything drawn from a seed: cores, mode, costs, lost hints, flows, groups that move while packets
// come. What must hold whatever is drawn is counted where it does not.
#ifndef BOBTAIL_SIM_SCHED_SWEEP_H
#define BOBTAIL_SIM_SCHED_SWEEP_H

#include <stdint.h>

struct sim_sched_verdict {
    uint32_t lost;                              /* requests without a reply when all is long over */
    uint32_t doubled;                           /* executed or replied a second time */
    uint32_t reordered;                         /* executed before an earlier one of their flow */
    uint32_t together;                          /* executed while another core executed their flow */
    uint32_t astray;                            /* packets that came to a core which was not theirs */
    uint32_t unmoved;                           /* migrations that never ended */
    uint64_t requests, stolen, borrowed, moves; /* what was tried */
};

void sim_sched_seed(uint64_t seed, struct sim_sched_verdict *out);
/* What a verdict complains of, summed. */
uint32_t sim_sched_broken(const struct sim_sched_verdict *v);
void sim_sched_add(struct sim_sched_verdict *sum, const struct sim_sched_verdict *v);

#endif
