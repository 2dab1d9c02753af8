// SPDX-License-Identifier: Apache-2.0
// Ladders of configurations (Z-16): the order in which resources are added, and in reverse taken away.
#ifndef BT_SCHED_LADDER_H
#define BT_SCHED_LADDER_H

#include <stdbool.h>
#include <stdint.h>

struct bt_machine {
    uint32_t cores;
    uint32_t smt;                              // hardware threads a core: 1 or 2
    uint32_t mhz_least, mhz_nominal, mhz_step; // step 0: the frequency stays nominal
    uint32_t mhz_turbo;                        // 0: none
};

enum bt_objective {
    BT_OBJECTIVE_ENERGY,        // cores at the lowest frequency, then their second threads, then frequency, then turbo
    BT_OBJECTIVE_CONSOLIDATION, // whole cores at the nominal frequency; a background job has the others; then turbo
};

struct bt_rung {
    uint32_t cores, smt; // smt: hardware threads of each of these cores that are used
    uint32_t mhz;
    uint32_t background; // cores that the background job keeps
    bool turbo;
};

enum { BT_LADDER_MAX = 256 };

// Fills out[0…] and returns how many rungs there are; 0: the machine is none, or there are more than `max`.
uint32_t bt_ladder(const struct bt_machine *m, enum bt_objective objective, struct bt_rung *out, uint32_t max);
// What a rung carries, in MHz of a core with one thread; a second thread gives 1.3 times as much (Z-16).
double bt_rung_capacity(const struct bt_rung *r);

#endif
