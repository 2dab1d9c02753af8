// SPDX-License-Identifier: Apache-2.0
// Time integrals over the measured part of the load, for Little's law and work conservation.
#include "world.h"

void sim_integrate_over(struct sim_world *w, uint64_t dt)
{
    double span = (double)(int64_t)dt; /* all of these are far below 2^63; unsigned they cost a branch each */
    w->integral_at_ns += dt;
    if (!w->measuring) {
        return;
    }
    w->area += (double)(int64_t)w->in_system * span;
    if (w->in_system > w->in_service && w->in_service < w->threads_all) {
        w->idle_while_waiting_ns += span;
    }
}
