// SPDX-License-Identifier: Apache-2.0
// Each node's own monotonic clock. The contract of the cores (io.h): times of one node come from one clock that never
// goes back. It may start anywhere, run fast or slow, stand still (a suspended machine) and leap ahead; and should it
// go back all the same, time stands still inside the core until it is caught up.
#ifndef BOBTAIL_SIM_FAULT_CLOCK_H
#define BOBTAIL_SIM_FAULT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_CLOCK_TRUE = 1024 }; /* rate of a clock that runs as the world does */

/* local = local_ns + (world − world_ns) × rate / 1024; in the ordinary case the difference is `skew`. */
struct sim_clock {
    uint64_t skew;
    bool odd; /* it does not run as the world does; the rest says how */
    uint32_t rate;
    uint64_t world_ns, local_ns;
};

uint64_t sim_clock_odd(const struct sim_clock *c, uint64_t world_ns);

/* What the node's clock shows at a world time. */
static inline uint64_t sim_clock_local(const struct sim_clock *c, uint64_t world_ns)
{
    return c->odd ? sim_clock_odd(c, world_ns) : world_ns + c->skew;
}

/* World time at which the clock will show `local_ns`, now at the earliest; UINT64_MAX: it stands still. */
uint64_t sim_clock_world(const struct sim_clock *c, uint64_t local_ns, uint64_t now_ns);

/* From now on the clock runs at rate/1024 of the world; 0: it stands still. */
void sim_clock_run(struct sim_clock *c, uint64_t now_ns, uint32_t rate);
/* Now the clock shows so much more, or less. */
void sim_clock_step(struct sim_clock *c, uint64_t now_ns, int64_t ns);

#endif
