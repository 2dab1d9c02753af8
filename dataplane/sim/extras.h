// SPDX-License-Identifier: Apache-2.0
// What a run tells beyond its verdict: latency of everything that was asked, in one histogram and second by second.
#ifndef BOBTAIL_SIM_EXTRAS_H
#define BOBTAIL_SIM_EXTRAS_H

#include "base/histogram.h"
#include "world.h"

enum { SIM_SERIES_MAX = 600 };

/* one point of a curve. Requests without a reply count as +infinity, never as absent. */
struct sim_point {
    uint64_t measured;                /* requests sent after the warm-up */
    uint64_t outcome[SIM_OUTCOMES];   /* of those */
    double offered_rps, achieved_rps; /* over the time in which they were sent */
    double p50_ns, p99_ns, p999_ns;   /* INFINITY when it lies among the unanswered */
    double mean_ns;                   /* of the answered ones */
};

/* Requests sent within one row's time, and replies that came within it. */
struct sim_series_row {
    uint64_t sent, replies, timeouts, dropped, errors;
    double p50_ns, p99_ns; /* of the ones sent; INFINITY as above */
};

struct sim_extras {
    struct sim_point point;
    struct bt_hist hist; /* of the measured ones */
    uint64_t row_ns;
    uint32_t rows; /* what lies behind the last row is counted in it */
    struct sim_series_row row[SIM_SERIES_MAX];
};

/* Reads it all off the requests of a run that is over. */
void sim_extras_take(const struct sim_world *w, struct sim_extras *out);

#endif
