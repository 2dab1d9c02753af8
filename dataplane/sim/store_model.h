// SPDX-License-Identifier: Apache-2.0
// One seed of a member's storage: lives of a store on one disk, each ended by a crash at some moment. After each the
// store must find a prefix of what it was told with all in it that was acknowledged, or say that the disk is damaged.
#ifndef BOBTAIL_SIM_STORE_MODEL_H
#define BOBTAIL_SIM_STORE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "disk.h"

enum sim_store_count {
    SIM_STORE_LIVES,
    SIM_STORE_STEPS,
    SIM_STORE_ACKNOWLEDGED,
    SIM_STORE_KILLS,
    SIM_STORE_POWER_LOSSES,
    SIM_STORE_STARTS_INTERRUPTED,
    SIM_STORE_TAILS_CUT,
    SIM_STORE_FAILED,
    SIM_STORE_FENCED,
    SIM_STORE_ROT_HARMLESS,
    SIM_STORE_COUNTS,
};

const char *sim_store_count_name(enum sim_store_count c);

struct sim_store_result {
    const char *broken; /* the invariant, NULL: none */
    char text[200];
    uint64_t count[SIM_STORE_COUNTS], seen[SIM_DISK_SEEN];
};

void sim_store_run(uint64_t seed, struct sim_store_result *r);

#endif
