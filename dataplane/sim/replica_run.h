// SPDX-License-Identifier: Apache-2.0
// One seed of a replication group, from its first entry to its verdict.
#ifndef BOBTAIL_SIM_REPLICA_RUN_H
#define BOBTAIL_SIM_REPLICA_RUN_H

#include "replica_world.h"

struct replica_result {
    enum replica_breach breach;
    char says[REPLICA_SAYS];
    struct replica_counts count;
    uint64_t failover[64]; /* virtual ns from a leader's death to the next acknowledged write */
    uint32_t failovers, members;
    uint64_t lost, virtual_ns;
    uint64_t executed_twice;    /* of writes that were asked for again */
    uint64_t dropped_executed;  /* refused requests in the committed order */
    uint64_t lost_replies_most; /* that went with one member */
    uint32_t bound;             /* B */
    bool ran;
};

void replica_run(uint64_t seed, enum replica_mode mode, enum replica_protocol protocol, struct replica_result *out);

/* Messages of the leader of a quiet group for so many requests, one after the other; false when it was not quiet. */
bool replica_run_counts(enum replica_protocol protocol, uint32_t members, uint64_t ops, struct replica_tally *out);

#endif
