// SPDX-License-Identifier: Apache-2.0
// Admission control under virtual time without a wire byte: the shipped loop and controllers (src/router/admission*.c)
// in front of a shipped load-balancing policy and workers that serve first come first served (sven.md §6, X-10; R-230).
// Requests are drawn one by one, so that minutes of millions of requests a second need no memory.
#ifndef BOBTAIL_SIM_ADMISSION_MODEL_H
#define BOBTAIL_SIM_ADMISSION_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"
#include "router/admission.h"
#include "stream.h"

enum { SIM_ADMISSION_STEPS_MAX = 64, SIM_ADMISSION_WINDOWS_MAX = 4096 };

struct sim_admission_model {
    uint32_t policy;         /* enum bt_router_policy */
    uint32_t workers, depth; /* depth: n, for JBSQ */
    struct sim_dist service;
    struct bt_admission_config admission; /* mode Observe: no admission control */
    double rate[SIM_ADMISSION_STEPS_MAX]; /* offered load of each step, requests per second */
    uint32_t steps;
    uint64_t step_ns, settle_ns;      /* length of a step; what is left out at its beginning */
    uint64_t window_ns;               /* of the series */
    double mix[BT_ADMISSION_CLASSES]; /* shares of the classes; add up to 1 */
    /* All workers stand still together at random moments, as on a machine whose host takes its processors away. */
    uint64_t pause_every_ns, pause_ns; /* mean distance, 0: never; length */
    uint64_t seed;
};

/* What happened after settling, in a step or in all steps together. */
struct sim_admission_part {
    double rate; /* offered on average */
    uint64_t span_ns, arrived, refused;
    uint64_t arrived_class[BT_ADMISSION_CLASSES], refused_class[BT_ADMISSION_CLASSES];
    uint64_t within;        /* answered within the objective */
    struct bt_hist latency; /* router in → FEEDBACK, answered in this part; merged, never averaged */
};

struct sim_admission_window {
    double at;                /* begin, seconds */
    double offered, answered; /* per second */
    double p_ns;              /* the objective's percentile */
    double refused_share;
    bool settled;
};

struct sim_admission_result {
    struct sim_admission_part step[SIM_ADMISSION_STEPS_MAX];
    struct sim_admission_window window[SIM_ADMISSION_WINDOWS_MAX];
    uint32_t windows;
    uint64_t requests, decisions;
};

/* 16 workers of 10 µs, random, 1 → 1.8 M requests/s in five steps of 10 s, 300 µs at p99. */
void sim_admission_defaults(struct sim_admission_model *m);
/* NULL, or what is wrong with the model, naming the field. */
const char *sim_admission_refuse(const struct sim_admission_model *m);
void sim_admission_run(const struct sim_admission_model *m, struct sim_admission_result *out);

/* Merges the steps whose offered load is above `above` requests per second. */
void sim_admission_merge(const struct sim_admission_model *m, const struct sim_admission_result *r, double above,
                         struct sim_admission_part *out);
/* Largest distance of a settled window's percentile from the mean of those of its step, ÷ the objective. */
double sim_admission_oscillation(const struct sim_admission_model *m, const struct sim_admission_result *r,
                                 double above);

#endif
