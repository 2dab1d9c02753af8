// SPDX-License-Identifier: Apache-2.0
// The controller of cores and frequency (Z-14 to Z-16) in a closed loop: src/sched measures, decides and knows the
// ladder; load, threads and what a configuration carries are a model. The model has no cost of a migration.
#ifndef BOBTAIL_SIM_SCHED_ELASTIC_H
#define BOBTAIL_SIM_SCHED_ELASTIC_H

#include <stdint.h>

#include "sched/ladder.h"

/* Four minutes each, from nothing to 6.2 M requests a second and back. */
enum sim_elastic_pattern {
    SIM_ELASTIC_SLOPE, /* straight up, straight down */
    SIM_ELASTIC_STEP,  /* 500,000 a second more every ten seconds, then less */
    SIM_ELASTIC_SINE,  /* a sine, and up to 250,000 more or less, drawn every five seconds */
    SIM_ELASTIC_PATTERNS
};

struct sim_elastic_model {
    enum sim_elastic_pattern pattern;
    double delay_bound_ns; /* the policy's */
    double slo_ns;         /* of the p99 of a second */
    uint32_t tick_ms;      /* between two decisions */
    uint32_t hold_off;     /* decisions after a step without a step down */
    enum bt_objective objective;
    uint64_t seed;
};

struct sim_elastic_result {
    uint32_t seconds, violations; /* in which more than 1 % took longer than the objective */
    uint32_t most_ticks;          /* decisions from a rise of the load to enough capacity, at most */
    double mean_rung;
    double power_saved;      /* of what the highest configuration takes; by the model below */
    double background_share; /* of what the background job does alone on the machine */
};

/* What a configuration takes, in watts: a MODEL, of which nothing is measured or published. A thread polls, so load
 * does not count. The package takes 20 W. A core takes 6 W more at 2.4 GHz with one thread, 15 % more than that with
 * two, and it grows with the frequency to the power of 2.2, as the voltage follows. */
double sim_elastic_watts(const struct bt_rung *rung);

/* As published: 500 us, ten decisions a second. The bound on the delay is not published; it is one with which the
 * objective holds here. */
void sim_elastic_defaults(struct sim_elastic_model *m, enum sim_elastic_pattern pattern, uint64_t seed);
void sim_elastic_run(const struct sim_elastic_model *m, struct sim_elastic_result *out);

#endif
