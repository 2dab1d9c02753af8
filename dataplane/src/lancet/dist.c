// SPDX-License-Identifier: Apache-2.0
// Draws by inversion where the distribution function has an inverse. The Facebook models are those of
// Atikoglu et al., SIGMETRICS'12, Workload Analysis of a Large-Scale Key-Value Store: §5 for ETC (key
// sizes by a generalised extreme value distribution, value sizes by a table up to 14 bytes and a
// generalised Pareto distribution above) and §3.2 for USR (keys of 16 and 21 bytes, values of 2). The
// paper gives no shares of the two USR key sizes; 0.6 of the longer makes the mean 19 bytes.
#include "lancet/dist.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// How many parameters each takes, and what they must be beyond being finite.
static const struct shape {
    const char *name;
    uint8_t kind;
    uint8_t min, max;
    const char *usage;
} shapes[BT_DIST_KINDS] = {
    {"fixed", BT_DIST_FIXED, 1, 1, "fixed takes one value: fixed:V, at least 0"},
    {"rr", BT_DIST_ROUND_ROBIN, 1, BT_DIST_VALUES, "rr takes 1 to 64 values in turn: rr:V1:V2, at least 0"},
    {"uni", BT_DIST_UNIFORM, 2, 2, "uni takes its bounds: uni:LOW:HIGH, 0 <= LOW <= HIGH"},
    {"exp", BT_DIST_EXPONENTIAL, 1, 1, "exp takes its mean: exp:MEAN, above 0"},
    {"pareto", BT_DIST_PARETO, 2, 2, "pareto takes two values above 0: pareto:SCALE:SHAPE"},
    {"gpareto", BT_DIST_GENERAL_PARETO, 3, 3,
     "gpareto takes three values: gpareto:LOCATION:SCALE:SHAPE, SCALE above 0"},
    {"gev", BT_DIST_GEV, 3, 3, "gev takes three values: gev:LOCATION:SCALE:SHAPE, SCALE above 0"},
    {"bimodal", BT_DIST_BIMODAL, 3, 3,
     "bimodal takes two values and the share of the second: bimodal:V1:V2:SHARE, share 0 to 1"},
    {"lognorm", BT_DIST_LOGNORMAL, 2, 2,
     "lognorm takes mean and deviation of the logarithm: lognorm:MU:SIGMA, SIGMA at least 0"},
    {"gamma", BT_DIST_GAMMA, 2, 2, "gamma takes two values above 0: gamma:SHAPE:SCALE"},
    {"fb-key", BT_DIST_FB_KEY, 0, 0, "fb-key takes no values"},
    {"fb-value", BT_DIST_FB_VALUE, 0, 0, "fb-value takes no values"},
    {"usr-key", BT_DIST_USR_KEY, 0, 0, "usr-key takes no values"},
    {"usr-value", BT_DIST_USR_VALUE, 0, 0, "usr-value takes no values"},
};

static bool none_negative(const double *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (p[i] < 0) {
            return false;
        }
    }
    return true;
}

static bool in_range(const struct bt_dist *d)
{
    const double *p = d->p;
    switch ((enum bt_dist_kind)d->kind) {
    case BT_DIST_FIXED:
    case BT_DIST_ROUND_ROBIN:
        return none_negative(p, d->n);
    case BT_DIST_UNIFORM:
        return none_negative(p, 1) && p[0] <= p[1];
    case BT_DIST_EXPONENTIAL:
        return p[0] > 0;
    case BT_DIST_PARETO:
    case BT_DIST_GAMMA:
        return p[0] > 0 && p[1] > 0;
    case BT_DIST_GENERAL_PARETO:
    case BT_DIST_GEV:
        return p[1] > 0;
    case BT_DIST_BIMODAL:
        return none_negative(p, 3) && p[2] <= 1;
    case BT_DIST_LOGNORMAL:
        return p[1] >= 0;
    default:
        return true;
    }
}

static const char *parameters(const char *at, const struct shape *s, struct bt_dist *out)
{
    out->kind = s->kind;
    for (out->n = 0; *at == ':'; out->n++) {
        char *end;
        // strtod also takes hexadecimal, "inf" and leading blanks, which no experiment means.
        if (out->n == s->max || strspn(at + 1, "+-.0123456789eE") != strcspn(at + 1, ":")) {
            return s->usage;
        }
        double v = strtod(at + 1, &end);
        if (end == at + 1 || !isfinite(v) || fabs(v) > 1e15) {
            return s->usage;
        }
        out->p[out->n] = v;
        at = end;
    }
    return *at == '\0' && out->n >= s->min && in_range(out) ? NULL : s->usage;
}

const char *bt_dist_parse(const char *text, struct bt_dist *out)
{
    size_t name = strcspn(text, ":");
    for (unsigned i = 0; i < BT_DIST_KINDS; i++) {
        if (strlen(shapes[i].name) == name && memcmp(text, shapes[i].name, name) == 0) {
            return parameters(text + name, &shapes[i], out);
        }
    }
    return "no such distribution: fixed, rr, uni, exp, pareto, gpareto, gev, bimodal, lognorm, gamma, fb-key, "
           "fb-value, "
           "usr-key or usr-value";
}

// Uniform in (0, 1]: its logarithm is finite.
static double positive(struct bt_rng *rng)
{
    return 1 - bt_rng_unit(rng);
}

// Box and Muller's transform; the second value it makes is not kept, so that draws have no state.
static double normal(struct bt_rng *rng)
{
    double r = sqrt(-2 * log(positive(rng)));
    return r * cos(2 * M_PI * bt_rng_unit(rng));
}

static double general_pareto(struct bt_rng *rng, double location, double scale, double shape)
{
    double u = positive(rng);
    return shape == 0 ? location - scale * log(u) : location + scale * (pow(u, -shape) - 1) / shape;
}

static double gev(struct bt_rng *rng, double location, double scale, double shape)
{
    double e = -log(positive(rng)); // exponential; 0 only when the draw is exactly 1
    e = e > 0 ? e : 0x1p-60;
    return shape == 0 ? location - scale * log(e) : location + scale * (pow(e, -shape) - 1) / shape;
}

// Marsaglia and Tsang, A Simple Method for Generating Gamma Variables (TOMS'00).
static double gamma_draw(struct bt_rng *rng, double shape, double scale)
{
    double boost = 1;
    if (shape < 1) {
        boost = pow(positive(rng), 1 / shape);
        shape += 1;
    }
    const double d = shape - 1.0 / 3;
    const double c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(rng);
        double v = 1 + c * x;
        if (v <= 0) {
            continue;
        }
        v = v * v * v;
        if (log(positive(rng)) < 0.5 * x * x + d - d * v + d * log(v)) {
            return d * v * scale * boost;
        }
    }
}

static double fb_value(struct bt_rng *rng)
{
    static const double share[15] = {0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606,
                                     0.00023, 0.00837, 0.00837, 0.08989, 0.00092, 0.00326, 0.01980};
    double u = bt_rng_unit(rng);
    for (unsigned bytes = 0; bytes < sizeof share / sizeof share[0]; bytes++) {
        if (u < share[bytes]) {
            return bytes;
        }
        u -= share[bytes];
    }
    return general_pareto(rng, 15, 214.476, 0.348238);
}

static double draw_fixed(const double *p, struct bt_rng *rng)
{
    (void)rng;
    return p[0];
}

static double draw_uniform(const double *p, struct bt_rng *rng)
{
    return p[0] + floor(bt_rng_unit(rng) * (p[1] - p[0] + 1));
}

static double draw_exponential(const double *p, struct bt_rng *rng)
{
    return -p[0] * log(positive(rng));
}

static double draw_pareto(const double *p, struct bt_rng *rng)
{
    return p[0] * pow(positive(rng), -1 / p[1]);
}

static double draw_general_pareto(const double *p, struct bt_rng *rng)
{
    return general_pareto(rng, p[0], p[1], p[2]);
}

static double draw_gev(const double *p, struct bt_rng *rng)
{
    return gev(rng, p[0], p[1], p[2]);
}

static double draw_bimodal(const double *p, struct bt_rng *rng)
{
    return p[bt_rng_unit(rng) < p[2]];
}

static double draw_lognormal(const double *p, struct bt_rng *rng)
{
    return exp(p[0] + p[1] * normal(rng));
}

static double draw_gamma(const double *p, struct bt_rng *rng)
{
    return gamma_draw(rng, p[0], p[1]);
}

static double draw_fb_key(const double *p, struct bt_rng *rng)
{
    (void)p;
    return gev(rng, 30.7984, 8.20449, 0.078688);
}

static double draw_fb_value(const double *p, struct bt_rng *rng)
{
    (void)p;
    return fb_value(rng);
}

static double draw_usr_key(const double *p, struct bt_rng *rng)
{
    (void)p;
    return bt_rng_unit(rng) < 0.6 ? 21 : 16;
}

static double draw_usr_value(const double *p, struct bt_rng *rng)
{
    (void)p, (void)rng;
    return 2;
}

// By kind. ROUND_ROBIN, which alone has a state, is not here.
static double (*const draws[BT_DIST_KINDS])(const double *p, struct bt_rng *rng) = {
    [BT_DIST_FIXED] = draw_fixed,
    [BT_DIST_UNIFORM] = draw_uniform,
    [BT_DIST_EXPONENTIAL] = draw_exponential,
    [BT_DIST_PARETO] = draw_pareto,
    [BT_DIST_GENERAL_PARETO] = draw_general_pareto,
    [BT_DIST_GEV] = draw_gev,
    [BT_DIST_BIMODAL] = draw_bimodal,
    [BT_DIST_LOGNORMAL] = draw_lognormal,
    [BT_DIST_GAMMA] = draw_gamma,
    [BT_DIST_FB_KEY] = draw_fb_key,
    [BT_DIST_FB_VALUE] = draw_fb_value,
    [BT_DIST_USR_KEY] = draw_usr_key,
    [BT_DIST_USR_VALUE] = draw_usr_value,
};

double bt_dist_real(const struct bt_dist *d, struct bt_rng *rng, uint64_t *turn)
{
    return d->kind == BT_DIST_ROUND_ROBIN ? d->p[(*turn)++ % d->n] : draws[d->kind](d->p, rng);
}

uint64_t bt_dist_draw(const struct bt_dist *d, struct bt_rng *rng, uint64_t *turn, uint64_t low, uint64_t high)
{
    double v = bt_dist_real(d, rng, turn);
    if (!(v > (double)low)) {
        return low;
    }
    return v >= (double)high ? high : (uint64_t)llround(v);
}
