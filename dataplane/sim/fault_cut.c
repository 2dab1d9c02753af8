// SPDX-License-Identifier: Apache-2.0
// See fault_cut.h.
#include "fault_cut.h"

void sim_cut_add(struct sim_cuts *c, const struct sim_cut *cut)
{
    if (c->n < SIM_CUTS_MAX) {
        c->cut[c->n++] = *cut;
    }
}

void sim_cut_end(struct sim_cuts *c, uint32_t event)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->cut[i].event != event) {
            c->cut[kept++] = c->cut[i];
        }
    }
    c->n = kept;
}

bool sim_cut_between(const struct sim_cuts *c, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const struct sim_cut *k = &c->cut[i];
        if (from >= k->from && from < k->from_end && to >= k->to && to < k->to_end) {
            return true;
        }
    }
    return false;
}
