// SPDX-License-Identifier: Apache-2.0
// Random streams and the service distributions of queueing.md §1.
#include "stream.h"

#include <math.h>

/* SplitMix64 finaliser: decorrelates neighbouring seeds and purposes. */
static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

void sim_stream_seed(struct bt_rng *g, uint64_t seed, enum sim_purpose purpose)
{
    bt_rng_seed(g, mix(mix(seed) ^ ((uint64_t)purpose << 56)));
}

double sim_uniform(struct bt_rng *g)
{
    return ((double)(bt_rng_next(g) >> 11) + 0.5) * 0x1p-53;
}

uint32_t sim_below(struct bt_rng *g, uint32_t n)
{
    return (uint32_t)(((bt_rng_next(g) >> 32) * (uint64_t)n) >> 32);
}

int sim_chance(struct bt_rng *g, double p)
{
    return p > 0 && sim_uniform(g) < p;
}

const char *sim_dist_name(enum sim_dist_kind k)
{
    static const char *const names[SIM_DIST_KINDS] = {"deterministic", "exponential",      "bimodal1",
                                                      "bimodal2",      "lognormal",        "bimodal10",
                                                      "erlang",        "hyperexponential", "trace"};
    return k < SIM_DIST_KINDS ? names[k] : "?";
}

double sim_dist_c2(const struct sim_dist *d)
{
    switch (d->kind) {
    case SIM_DIST_EXPONENTIAL:
        return 1;
    case SIM_DIST_BIMODAL1:
        return 2.25;
    case SIM_DIST_BIMODAL2:
        return 249.75; /* queueing.md prints 249.5; 0.999·0.5² + 0.001·500.5² − 1 is this */
    case SIM_DIST_LOGNORMAL:
        return exp(d->sigma * d->sigma) - 1;
    case SIM_DIST_ERLANG:
        return 1.0 / (d->stages > 1 ? d->stages : 1);
    case SIM_DIST_HYPEREXPONENTIAL:
        return d->c2 > 1 ? d->c2 : 1;
    case SIM_DIST_BIMODAL10:
        return 0.9 * (10.0 / 19) * (10.0 / 19) + 0.1 * (100.0 / 19) * (100.0 / 19) - 1;
    default:
        return 0;
    }
}

double sim_hyper_share(double c2)
{
    return c2 > 1 ? (1 + sqrt((c2 - 1) / (c2 + 1))) / 2 : 0.5;
}

double sim_dist_short_share(const struct sim_dist *d)
{
    return d->kind == SIM_DIST_BIMODAL1 || d->kind == SIM_DIST_BIMODAL10 ? 0.9
           : d->kind == SIM_DIST_BIMODAL2                                ? 0.999
                                                                         : 0;
}

double sim_dist_short_work(const struct sim_dist *d)
{
    return sim_dist_short_share(d) * (d->kind == SIM_DIST_BIMODAL10 ? 10.0 / 19 : 0.5);
}

static double draw_normal(struct bt_rng *g)
{
    double u = sim_uniform(g), v = sim_uniform(g);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* At least 1 and below 2⁶³, so that a signed conversion, which is one instruction, will do. */
static inline uint64_t whole_ns(double ns)
{
    return ns + 0.5 < 1 ? 1 : (uint64_t)(int64_t)(ns + 0.5);
}

/* Mean 1: the logarithm of a product, which cannot fall to 0, since no factor is below 2⁻⁵⁴. */
static double draw_erlang(uint32_t stages, struct bt_rng *g)
{
    double sum = 0, product = 1;
    for (uint32_t i = 1; i <= stages; i++) {
        product *= sim_uniform(g);
        if (i % 16 == 0 || i == stages) {
            sum -= log(product);
            product = 1;
        }
    }
    return sum / stages;
}

/* Mean 1. */
static double draw_hyper(double c2, struct bt_rng *g)
{
    double share = sim_hyper_share(c2);
    double mean = sim_uniform(g) < share ? 0.5 / share : 0.5 / (1 - share);
    return -log(sim_uniform(g)) * mean;
}

uint64_t sim_exponential(double mean_ns, struct bt_rng *g)
{
    return whole_ns(-log(sim_uniform(g)) * mean_ns);
}

uint64_t sim_dist_draw_any(const struct sim_dist *d, struct bt_rng *g)
{
    double x = 1;
    switch (d->kind) {
    case SIM_DIST_EXPONENTIAL:
        return sim_exponential(d->mean_ns, g);
    case SIM_DIST_BIMODAL1:
        x = sim_uniform(g) < 0.9 ? 0.5 : 5.5;
        break;
    case SIM_DIST_BIMODAL2:
        x = sim_uniform(g) < 0.999 ? 0.5 : 500.5;
        break;
    case SIM_DIST_LOGNORMAL:
        x = exp(d->sigma * draw_normal(g) - d->sigma * d->sigma / 2);
        break;
    case SIM_DIST_ERLANG:
        x = draw_erlang(d->stages > 1 ? d->stages : 1, g);
        break;
    case SIM_DIST_HYPEREXPONENTIAL:
        x = draw_hyper(d->c2, g);
        break;
    case SIM_DIST_BIMODAL10:
        x = sim_uniform(g) < 0.9 ? 10.0 / 19 : 100.0 / 19;
        break;
    default:
        break;
    }
    return whole_ns(x * d->mean_ns);
}
