// SPDX-License-Identifier: Apache-2.0
// What a load or a number of workers is enough for: bisection over runs with the same arrivals and service times, so
// that the latency rises with the load along one seed and the search cannot be led astray by noise.
#include <math.h>

#include "policy_command.h"

static const double LOAD_STEP = 0.0005, ROUGH_STEP = 1.0 / 64;

static bool within(const struct sim_policy_model *m, double slo_ns, double percentile)
{
    double late = 1 - percentile / 100;
    return sim_policy_late(m, slo_ns, late) <= late;
}

/* Halves [good, bad] until it is as narrow as step. */
static double bisect(struct sim_policy_model *at, double good, double bad, double step, double slo_ns,
                     double percentile)
{
    while (bad - good > step) {
        at->load = (good + bad) / 2;
        if (within(at, slo_ns, percentile)) {
            good = at->load;
        } else {
            bad = at->load;
        }
    }
    return good;
}

double sim_policy_highest_load(const struct sim_policy_model *m, double slo_ns, double percentile)
{
    struct sim_policy_model rough = *m, at = *m;
    rough.requests = m->requests > 80000 ? m->requests / 8 : m->requests;
    double guess = bisect(&rough, 0, 1, ROUGH_STEP, slo_ns, percentile);
    double low = fmax(guess - ROUGH_STEP, 0), high = fmin(guess + 2 * ROUGH_STEP, 1);
    double found = bisect(&at, low, high, LOAD_STEP, slo_ns, percentile);
    /* A short run may have misled the guess: then the search ran into an end it never tried. */
    if (found == low) {
        return bisect(&at, 0, low + LOAD_STEP, LOAD_STEP, slo_ns, percentile);
    }
    if (high - found <= LOAD_STEP && high < 1) {
        return bisect(&at, found, 1, LOAD_STEP, slo_ns, percentile);
    }
    return found;
}

uint32_t sim_policy_least_workers(const struct sim_policy_model *m, double rate, double slo_ns, double percentile)
{
    struct sim_policy_model at = *m;
    double needed = rate * m->service.mean_ns / 1e9;
    uint32_t enough = SIM_POLICY_WORKERS_MAX + 1, few = needed < 1 ? 0 : (uint32_t)floor(needed);
    while (enough - few > 1 && few < SIM_POLICY_WORKERS_MAX) {
        /* near the rate's own number first: that is where the answer is */
        uint32_t middle = enough > 2 * few + 8 ? few + few / 8 + 1 : (few + enough) / 2;
        at.workers = middle;
        at.load = needed / middle;
        if (within(&at, slo_ns, percentile)) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    return enough > SIM_POLICY_WORKERS_MAX ? 0 : enough;
}

/* Student's t for 95 %, both sides, by degrees of freedom; beyond the table the normal value. */
static double student(uint32_t freedom)
{
    static const double t[] = {0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                               2.201, 2.179,  2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
    return freedom < sizeof t / sizeof t[0] ? t[freedom] : 1.96 + 2.4 / freedom;
}

double sim_policy_mean(const double *v, uint32_t n, double *error)
{
    double sum = 0, square = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += v[i];
    }
    double mean = sum / n;
    for (uint32_t i = 0; i < n; i++) {
        square += (v[i] - mean) * (v[i] - mean);
    }
    *error = n > 1 ? student(n - 1) * sqrt(square / (n - 1) / n) : 0;
    return mean;
}
