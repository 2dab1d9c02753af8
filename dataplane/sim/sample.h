// SPDX-License-Identifier: Apache-2.0
// Exact samples of one run: means and quantiles without bucket error, for comparing with theory.
#ifndef BOBTAIL_SIM_SAMPLE_H
#define BOBTAIL_SIM_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

struct sim_samples {
    uint64_t *v; /* ns, in order of arrival */
    size_t n, cap;
};

void sim_samples_init(struct sim_samples *s, size_t expect);
void sim_samples_free(struct sim_samples *s);
void sim_samples_add(struct sim_samples *s, uint64_t ns);
/* Arithmetic mean in ns; 0 without samples. */
double sim_samples_mean(const struct sim_samples *s);
/* The ceil(p/100·n)-th smallest sample, p in (0,100]. Reorders a private copy, not s. */
uint64_t sim_samples_percentile(const struct sim_samples *s, double p);
/* Several of them with one copy; p must not fall. */
void sim_samples_percentiles(const struct sim_samples *s, const double *p, size_t n, uint64_t *out);
/* 1 when both hold the same values irrespective of order (Q-62: sojourn multiset). */
int sim_samples_same_multiset(const struct sim_samples *a, const struct sim_samples *b);

#endif
