// SPDX-License-Identifier: Apache-2.0
// Random operations such as a Raft core gives to its store.
#ifndef BOBTAIL_SIM_STORE_OPS_H
#define BOBTAIL_SIM_STORE_OPS_H

#include "base/rng.h"
#include "store_history.h"

enum { SIM_STORE_ENTRIES_MOST = 6 };

struct sim_store_op {
    struct bt_store_op op;
    struct bt_entry entry[SIM_STORE_ENTRIES_MOST];
    uint8_t bytes[SIM_STORE_ENTRIES_MOST][SIM_STORE_SNAPSHOT_MOST];
    struct sim_store_step step[SIM_STORE_ENTRIES_MOST];
    uint32_t steps;
};

/* The next operation of a member in this state; generation is the caller's. tidy: the log has become long. */
void sim_store_draw(struct bt_rng *rng, const struct sim_store_state *now, bool tidy, struct sim_store_op *o);

#endif
