// SPDX-License-Identifier: Apache-2.0
// A replication group under load in virtual time, without faults: how many requests it answers, and how late. Members
// are the shipped core with the shipped box and aggregator; what a packet, an entry and a request cost is an input.
#ifndef BOBTAIL_SIM_REPLICA_LOAD_H
#define BOBTAIL_SIM_REPLICA_LOAD_H

#include "replica_load_model.h"

struct sim_load_result {
    double p50_ns, p99_ns, answered_rps; /* of what came after the first tenth of the requests */
    uint64_t dropped, lost;              /* refused by the box; never answered */
    /* with kill_at: of the last third of the requests, long after the death */
    double after_p99_ns, after_answered_rps, after_dropped_rps;
};

/* False: no leader was elected, or memory is missing. */
bool sim_load_run(const struct sim_load_model *m, struct sim_load_result *out);

/* Highest load whose p99 is within slo_ns, between low and high [requests/s], to one percent. */
double sim_load_within(const struct sim_load_model *m, double slo_ns, double low, double high);

#endif
