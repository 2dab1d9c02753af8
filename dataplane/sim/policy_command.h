// SPDX-License-Identifier: Apache-2.0
// `bobtail-sim policy`: what was asked for, and the rows that answer it.
#ifndef BOBTAIL_SIM_POLICY_COMMAND_H
#define BOBTAIL_SIM_POLICY_COMMAND_H

#include <stdio.h>

#include "policy_model.h"

enum { SIM_POLICY_LIST_MAX = 64, SIM_POLICY_SEEDS_MAX = 64 };

/* What is asked: a table over loads; the highest load under an SLO; the fewest workers for a rate under an SLO. */
enum sim_policy_question { SIM_POLICY_TABLE, SIM_POLICY_SLO, SIM_POLICY_PLAN };

struct sim_policy_choice {
    enum sim_policy_kind kind;
    uint32_t policy, depth;
};

struct sim_policy_ask {
    enum sim_policy_question question;
    struct sim_policy_model base;
    struct sim_policy_choice choice[SIM_POLICY_LIST_MAX];
    double load[SIM_POLICY_LIST_MAX], rate[SIM_POLICY_LIST_MAX]; /* rate: requests per second */
    uint32_t choices, loads, rates, seeds;
    double slo_us, percentile;
    unsigned jobs;
    const char *json, *csv, *path_name;
    struct sim_times times; /* of --distribution=trace:FILE */
    bool mean_given, stages_given, c2_given;
};

/* One line of the answer. The unused fields are 0. */
struct sim_policy_row {
    struct sim_policy_choice choice;
    uint32_t workers;
    double load, rate;
    struct sim_policy_result r;           /* means over the seeds */
    double slo_load, slo_load_error;      /* highest load under the SLO, and half its 95 % interval over the seeds */
    double central_load;                  /* that of the single queue with the same jobs and no delay */
    double share_of_central, share_error; /* the mean of their ratio seed by seed */
    uint32_t least_workers;               /* 0: not even 1,024 are enough */
};

/* Reads the options of the command; 0, or an exit code: help and version were printed, or an error was. */
int sim_policy_options(int argc, char **argv, struct sim_policy_ask *out, bool *done);
/* Names of kinds, by enum sim_policy_kind and with NULL at the end; "" for SIM_POLICY_ROUTER, whose policies have
 * names. */
extern const char *const sim_policy_kinds[SIM_POLICY_KINDS + 1];
/* "JBSQ(3)", "Switch(3)", "JSQ", "Direct". */
void sim_policy_choice_name(const struct sim_policy_choice *c, char *out, size_t n);
/* The model of one row. */
struct sim_policy_model sim_policy_model_of(const struct sim_policy_ask *a, const struct sim_policy_choice *c,
                                            double load, uint64_t seed);

void sim_policy_print(FILE *f, const struct sim_policy_ask *a, const struct sim_policy_row *row, uint32_t n);
/* Writes a->json and a->csv when asked for; 0, or -1 with a message. */
int sim_policy_write(const struct sim_policy_ask *a, const struct sim_policy_row *row, uint32_t n);

/* Highest load, to 0.0005, at which the percentile stays within the SLO; 0 when none does. One seed. */
double sim_policy_highest_load(const struct sim_policy_model *m, double slo_ns, double percentile);
/* Fewest workers that serve rate requests per second within the SLO; 0 when 1,024 do not. */
uint32_t sim_policy_least_workers(const struct sim_policy_model *m, double rate, double slo_ns, double percentile);
/* Mean of v and half of its 95 % interval (Student); 0 error for one value. */
double sim_policy_mean(const double *v, uint32_t n, double *error);

#endif
