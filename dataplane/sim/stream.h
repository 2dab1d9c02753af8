// SPDX-License-Identifier: Apache-2.0
// Random streams, one per purpose: changing a policy never changes arrivals or service times.
#ifndef BOBTAIL_SIM_STREAM_H
#define BOBTAIL_SIM_STREAM_H

#include <stdint.h>

#include "base/rng.h"

/* What a stream is for. A run owns one of each; their seeds are derived from the run's seed. */
enum sim_purpose {
    SIM_STREAM_ARRIVAL,
    SIM_STREAM_SERVICE,
    SIM_STREAM_CLIENT,
    SIM_STREAM_SHAPE, /* sizes, sticky or not, class */
    SIM_STREAM_FAULT,
    SIM_STREAM_JITTER,
    SIM_STREAM_EVENT,
    SIM_STREAM_GARBAGE,
    SIM_STREAM_CHOICE, /* seeds handed to routers, clients, servers */
    SIM_STREAM_DRAW,   /* values a scenario leaves open */
    SIM_STREAM_HICCUP, /* of executions */
    SIM_STREAM_LAG,    /* of the threads of a router */
    SIM_STREAMS
};

void sim_stream_seed(struct bt_rng *g, uint64_t seed, enum sim_purpose purpose);
/* Uniform in (0,1): never 0, so that its logarithm is finite. */
double sim_uniform(struct bt_rng *g);
/* Uniform integer in [0, n); n > 0. */
uint32_t sim_below(struct bt_rng *g, uint32_t n);
/* True with probability p. Draws nothing when p <= 0. */
int sim_chance(struct bt_rng *g, double p);

enum sim_dist_kind {
    SIM_DIST_DETERMINISTIC,
    SIM_DIST_EXPONENTIAL,
    SIM_DIST_BIMODAL1, /* 90 % 0.5, 10 % 5.5 (queueing.md §1) */
    SIM_DIST_BIMODAL2, /* 99.9 % 0.5, 0.1 % 500.5 */
    SIM_DIST_LOGNORMAL,
    SIM_DIST_BIMODAL10,        /* 10 % ten times slower than the rest: 0.526 and 5.263 */
    SIM_DIST_ERLANG,           /* sum of `stages` exponential ones */
    SIM_DIST_HYPEREXPONENTIAL, /* one of two exponential ones, each of which makes half of the work; c² is `c2` */
    SIM_DIST_TRACE,            /* recorded; drawn by nobody */
    SIM_DIST_KINDS
};

struct sim_dist {
    enum sim_dist_kind kind;
    double mean_ns;
    double sigma;    /* lognormal only: standard deviation of the logarithm */
    uint32_t stages; /* erlang only; 0: as 1 */
    double c2;       /* hyperexponential only: squared coefficient of variation; below 1: as 1 */
};

const char *sim_dist_name(enum sim_dist_kind k);
/* Squared coefficient of variation, c². */
double sim_dist_c2(const struct sim_dist *d);
/* Of a distribution with two values: the share of the work that the shorter one makes. 0: it is none of these. */
double sim_dist_short_work(const struct sim_dist *d);
/* And the share of the requests that have it. */
double sim_dist_short_share(const struct sim_dist *d);
/* hyperexponential: share of the requests that are of the shorter kind; the longer has 1 minus that. */
double sim_hyper_share(double c2);
/* What sim_dist_draw gives for an exponential one, and for any. */
uint64_t sim_dist_draw_any(const struct sim_dist *d, struct bt_rng *g);
uint64_t sim_exponential(double mean_ns, struct bt_rng *g);
/* One value in ns, at least 1: a zero-length service would make Little's law trivially true. */
static inline uint64_t sim_dist_draw(const struct sim_dist *d, struct bt_rng *g)
{
    return d->kind == SIM_DIST_EXPONENTIAL ? sim_exponential(d->mean_ns, g) : sim_dist_draw_any(d, g);
}

#endif
