// SPDX-License-Identifier: Apache-2.0
// The published figures of HovercRaft (thesis, figures 12.6 to 12.12), from the shipped consensus in virtual time.
#ifndef BOBTAIL_SIM_REPLICA_FIGURES_H
#define BOBTAIL_SIM_REPLICA_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

/* Runs and judges those whose name contains `only` (NULL: all), with planted the mistakes, too; returns the exit code.
 */
int sim_replica_figures(const char *only, uint64_t requests, uint64_t seed, unsigned jobs, bool planted,
                        const char *measurements);

#endif
