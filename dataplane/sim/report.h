// SPDX-License-Identifier: Apache-2.0
// What people and programs are told of runs: tables, JSON, measurements.
#ifndef BOBTAIL_SIM_REPORT_H
#define BOBTAIL_SIM_REPORT_H

#include <stdio.h>

#include "world.h"

/* A list of {"name","value","unit"} being written; NULL file = nobody asked. */
struct sim_measures {
    FILE *f;
    unsigned n;
};

/* Opens FILE for a list; returns -1 with a message on stderr. path NULL: a list nobody reads. */
int sim_measures_open(struct sim_measures *m, const char *path);
void sim_measure(struct sim_measures *m, const char *name, double value, const char *unit);
int sim_measures_close(struct sim_measures *m);

/* Sum of breaches; 0 = every invariant held. */
uint32_t sim_broken(const struct sim_verdict *v);
/* Adds b to a. */
void sim_verdict_add(struct sim_verdict *a, const struct sim_verdict *b);

/* DROPs of routers, of BT_ROUTER_COUNTERS counters: "queue_full 3, admission 1", a line of those that are not 0; a JSON
 * object of all reasons. */
void sim_print_drops(FILE *f, const uint64_t *router_counter);
void sim_json_drops(FILE *f, const uint64_t *router_counter);
void sim_print_faults(FILE *f, const struct sim_faults_seen *s);
void sim_print_invariants(FILE *f, const struct sim_verdict *v);
void sim_print_run(FILE *f, const struct sim_scenario *s, const struct sim_result *r);
void sim_json_run(FILE *f, const struct sim_scenario *s, const struct sim_result *r);

/* Value of a measure named in a scenario's expect list; NAN when there is no such measure. */
double sim_measure_value(const struct sim_scenario *s, const struct sim_result *r, const char *name);
/* Judges the expectations of s; adds breaches to the verdict of r. */
void sim_judge_expectations(const struct sim_scenario *s, struct sim_result *r);

#endif
