// SPDX-License-Identifier: Apache-2.0
// as pure recursions on arrival and service times: what the packet simulation must equal.
#ifndef BOBTAIL_SIM_ORACLE_H
#define BOBTAIL_SIM_ORACLE_H

#include <stddef.h>
#include <stdint.h>

struct sim_job {
    uint64_t arrival_ns; /* non-decreasing over the array */
    uint64_t service_ns;
};

/* Q-1, central FCFS with k workers: writes the sojourn of each job. k >= 1. */
void sim_oracle_central(const struct sim_job *jobs, size_t n, unsigned k, uint64_t *sojourn_ns);
/* Q-2, one FCFS queue per worker; choice[i] < k is the worker of job i. */
void sim_oracle_partitioned(const struct sim_job *jobs, const uint16_t *choice, size_t n, unsigned k,
                            uint64_t *sojourn_ns);

#endif
