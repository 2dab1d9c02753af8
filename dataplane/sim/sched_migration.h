// SPDX-License-Identifier: Apache-2.0
// Flow groups that go from one core to another (Z-13), timed by phase: src/sched moves them, between two cores in
// virtual time. What a packet, a request, a look at a network and a new redirection take is a MODEL: it was fitted to
// the published means, and is found again in them.
#ifndef BOBTAIL_SIM_SCHED_MIGRATION_H
#define BOBTAIL_SIM_SCHED_MIGRATION_H

#include <stdint.h>

enum sim_migration_kind { SIM_MIGRATION_ADD, SIM_MIGRATION_REMOVE, SIM_MIGRATION_KINDS };

enum sim_migration_phase {
    SIM_MIGRATION_PREPARE,  /* asked for, until the network brings packets to the new core */
    SIM_MIGRATION_WAIT,     /* until that core sees the first, or waited long enough */
    SIM_MIGRATION_RPC,      /* until it has what the old core put aside */
    SIM_MIGRATION_DEFERRED, /* until all that was put aside is answered */
    SIM_MIGRATION_PHASES
};

struct sim_migration_model {
    double load[2];  /* of a core by its own groups, before: the old core, the new one */
    double queue[2]; /* requests that wait at each when it is asked for: mean of an exponential */
    double share;    /* of the old core's groups that go */
    uint64_t request_ns, network_ns, packet_ns, redirect_ns;
    uint64_t wait_ns;  /* the migration timer */
    uint64_t look_ns;  /* see struct sim_sched_setup */
    uint64_t aside_ns; /* a request that was put aside takes so much more */
    uint64_t seed;
};

struct sim_migration_result {
    double mean_ns[SIM_MIGRATION_PHASES], total_ns;
    double deferred; /* requests that were put aside, a migration */
};

void sim_migration_defaults(struct sim_migration_model *m, enum sim_migration_kind kind, uint64_t seed);
/* As many migrations, each of them from anew. */
void sim_migration_run(const struct sim_migration_model *m, uint32_t migrations, struct sim_migration_result *out);

#endif
