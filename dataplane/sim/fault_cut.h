// SPDX-License-Identifier: Apache-2.0
// Partitions: which pairs of nodes cannot hear each other just now, and in which direction.
#ifndef BOBTAIL_SIM_FAULT_CUT_H
#define BOBTAIL_SIM_FAULT_CUT_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_CUTS_MAX = 64 };

/* Packets from nodes [from, from_end) to nodes [to, to_end) are lost. */
struct sim_cut {
    uint32_t from, from_end, to, to_end;
    uint32_t event; /* that made it, and ends it */
};

struct sim_cuts {
    struct sim_cut cut[SIM_CUTS_MAX];
    uint32_t n;
};

void sim_cut_add(struct sim_cuts *c, const struct sim_cut *cut);
void sim_cut_end(struct sim_cuts *c, uint32_t event);
bool sim_cut_between(const struct sim_cuts *c, uint32_t from, uint32_t to);

#endif
