// SPDX-License-Identifier: Apache-2.0
// Service times that were measured, as a distribution to draw from: each value as often as it was seen.
#ifndef BOBTAIL_SIM_TIMES_H
#define BOBTAIL_SIM_TIMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct sim_recording;

struct sim_times {
    size_t n;
    uint64_t *ns;
    /* Alias table: cell i holds value i for the share keep[i] of its draws, and value other[i] for the rest. */
    double *keep;
    uint32_t *other;
    double mean_ns;
};

/* Reads a CSV file as sim_recording_load does; serviceMicroseconds must be there. 0, or -1 with what is wrong. */
int sim_times_load(const char *path, struct sim_times *out, char *err, size_t err_n);
/* The same of n bytes in memory. */
int sim_times_parse(const char *path, const char *text, size_t n, struct sim_times *out, char *err, size_t err_n);
/* Of a recording that has service times; path names it in a complaint. */
int sim_times_of(const char *path, const struct sim_recording *r, struct sim_times *out, char *err, size_t err_n);
void sim_times_free(struct sim_times *t);
/* One value in ns, at least 1, in constant time. */
uint64_t sim_times_draw(const struct sim_times *t, struct bt_rng *g);

#endif
