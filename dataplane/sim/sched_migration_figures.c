// SPDX-License-Identifier: Apache-2.0
// See sched_migration_figures.h. As many migrations as were measured for the published table.
#include "sched_migration_figures.h"

#include <stddef.h>

#include "sched_migration.h"

enum { MIGRATIONS = 550, WHOLE = SIM_MIGRATION_PHASES };

/* A wrong model, or NULL. */
typedef void mistake(struct sim_migration_model *m);

static double figure(enum sim_migration_kind kind, uint32_t of, mistake *wrong, uint64_t seed)
{
    struct sim_migration_model m;
    struct sim_migration_result r;
    sim_migration_defaults(&m, kind, seed);
    if (wrong != NULL) {
        wrong(&m);
    }
    sim_migration_run(&m, MIGRATIONS, &r);
    return of == WHOLE ? r.total_ns / 1e3 : r.mean_ns[of] / r.total_ns;
}

static void redirects_slowly(struct sim_migration_model *m)
{
    m->redirect_ns *= 10;
}

/* Only the timer ends the wait. */
static void notices_nothing(struct sim_migration_model *m)
{
    m->load[0] = m->load[1] = 1e-3;
    m->queue[0] = m->queue[1] = 0;
    m->wait_ns = 1000000;
}

static void looks_late(struct sim_migration_model *m)
{
    m->look_ns = 1000000;
}

/* It has so much that its queue is hardly ever empty, and hands nothing over before. */
static void cannot_catch_up(struct sim_migration_model *m)
{
    m->load[0] = 1.6;
}

static void works_off_slowly(struct sim_migration_model *m)
{
    m->aside_ns = 9 * m->request_ns;
}

#define FIGURE(name, kind, of, wrong)                                                                                  \
    double name(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)                                    \
    {                                                                                                                  \
        (void)f;                                                                                                       \
        (void)requests;                                                                                                \
        return figure(kind, of, NULL, seed);                                                                           \
    }                                                                                                                  \
    double name##_wrong(const struct sim_sched_figure *f, uint64_t requests, uint64_t seed)                            \
    {                                                                                                                  \
        (void)f;                                                                                                       \
        (void)requests;                                                                                                \
        return figure(kind, of, wrong, seed);                                                                          \
    }
FIGURE(sim_migration_add_prepare, SIM_MIGRATION_ADD, SIM_MIGRATION_PREPARE, redirects_slowly)
FIGURE(sim_migration_add_wait, SIM_MIGRATION_ADD, SIM_MIGRATION_WAIT, notices_nothing)
FIGURE(sim_migration_add_rpc, SIM_MIGRATION_ADD, SIM_MIGRATION_RPC, cannot_catch_up)
FIGURE(sim_migration_add_deferred, SIM_MIGRATION_ADD, SIM_MIGRATION_DEFERRED, works_off_slowly)
FIGURE(sim_migration_add_us, SIM_MIGRATION_ADD, WHOLE, looks_late)
FIGURE(sim_migration_remove_prepare, SIM_MIGRATION_REMOVE, SIM_MIGRATION_PREPARE, redirects_slowly)
FIGURE(sim_migration_remove_wait, SIM_MIGRATION_REMOVE, SIM_MIGRATION_WAIT, notices_nothing)
FIGURE(sim_migration_remove_rpc, SIM_MIGRATION_REMOVE, SIM_MIGRATION_RPC, cannot_catch_up)
FIGURE(sim_migration_remove_deferred, SIM_MIGRATION_REMOVE, SIM_MIGRATION_DEFERRED, works_off_slowly)
FIGURE(sim_migration_remove_us, SIM_MIGRATION_REMOVE, WHOLE, looks_late)
