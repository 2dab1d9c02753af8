// SPDX-License-Identifier: Apache-2.0
// See fault_clock.h.
#include "fault_clock.h"

uint64_t sim_clock_odd(const struct sim_clock *c, uint64_t world_ns)
{
    return c->local_ns + (uint64_t)((__uint128_t)(world_ns - c->world_ns) * c->rate / SIM_CLOCK_TRUE);
}

uint64_t sim_clock_world(const struct sim_clock *c, uint64_t local_ns, uint64_t now_ns)
{
    uint64_t shown = sim_clock_local(c, now_ns);
    if (local_ns <= shown) {
        return now_ns;
    }
    if (!c->odd) {
        return local_ns - c->skew;
    }
    if (c->rate == 0) {
        return UINT64_MAX;
    }
    __uint128_t wait = ((__uint128_t)(local_ns - shown) * SIM_CLOCK_TRUE + c->rate - 1) / c->rate;
    return wait < UINT64_MAX - now_ns ? now_ns + (uint64_t)wait : UINT64_MAX;
}

void sim_clock_run(struct sim_clock *c, uint64_t now_ns, uint32_t rate)
{
    uint64_t shown = sim_clock_local(c, now_ns);
    c->odd = rate != SIM_CLOCK_TRUE;
    c->rate = rate;
    c->world_ns = now_ns;
    c->local_ns = shown;
    c->skew = shown - now_ns;
}

void sim_clock_step(struct sim_clock *c, uint64_t now_ns, int64_t ns)
{
    sim_clock_run(c, now_ns, c->odd ? c->rate : SIM_CLOCK_TRUE);
    if (ns < 0 && (uint64_t)-ns >= c->local_ns) {
        ns = -(int64_t)(c->local_ns / 2); /* no clock shows less than nothing */
    }
    c->local_ns += (uint64_t)ns;
    c->skew += (uint64_t)ns;
}
