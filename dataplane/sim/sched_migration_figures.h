// SPDX-License-Identifier: Apache-2.0
// What a migration's phases take, beside the published ones: rows of sched_figures.c, and the mistakes they must
// notice.
#ifndef BOBTAIL_SIM_SCHED_MIGRATION_FIGURES_H
#define BOBTAIL_SIM_SCHED_MIGRATION_FIGURES_H

#include "sched_figures.h"

typedef double sim_migration_figure(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed);

/* Shares of the whole, and that in us. */
extern sim_migration_figure sim_migration_add_prepare, sim_migration_add_wait, sim_migration_add_rpc,
    sim_migration_add_deferred, sim_migration_add_us, sim_migration_remove_prepare, sim_migration_remove_wait,
    sim_migration_remove_rpc, sim_migration_remove_deferred, sim_migration_remove_us;
extern sim_migration_figure sim_migration_add_prepare_wrong, sim_migration_add_wait_wrong, sim_migration_add_rpc_wrong,
    sim_migration_add_deferred_wrong, sim_migration_add_us_wrong, sim_migration_remove_prepare_wrong,
    sim_migration_remove_wait_wrong, sim_migration_remove_rpc_wrong, sim_migration_remove_deferred_wrong,
    sim_migration_remove_us_wrong;

#endif
