// SPDX-License-Identifier: Apache-2.0
// Distributions of sizes and times as an experiment names them: "exp:100", "bimodal:10:1000:0.1".
#ifndef BT_LANCET_DIST_H
#define BT_LANCET_DIST_H

#include <stdint.h>

#include "base/rng.h"

#define BT_DIST_VALUES 64u

enum bt_dist_kind {
    BT_DIST_FIXED,
    BT_DIST_ROUND_ROBIN,
    BT_DIST_UNIFORM,
    BT_DIST_EXPONENTIAL,
    BT_DIST_PARETO,
    BT_DIST_GENERAL_PARETO,
    BT_DIST_GEV,
    BT_DIST_BIMODAL,
    BT_DIST_LOGNORMAL,
    BT_DIST_GAMMA,
    BT_DIST_FB_KEY,
    BT_DIST_FB_VALUE,
    BT_DIST_USR_KEY,
    BT_DIST_USR_VALUE,
    BT_DIST_KINDS
};

struct bt_dist {
    uint8_t kind;
    uint32_t n; // parameters
    double p[BT_DIST_VALUES];
};

// NULL, or what is wrong with the text and what it may be (a constant).
const char *bt_dist_parse(const char *text, struct bt_dist *out);

// One draw, rounded to a whole number and held within low…high. turn counts the draws of ROUND_ROBIN.
uint64_t bt_dist_draw(const struct bt_dist *d, struct bt_rng *rng, uint64_t *turn, uint64_t low, uint64_t high);

// The same before rounding and bounds.
double bt_dist_real(const struct bt_dist *d, struct bt_rng *rng, uint64_t *turn);

#endif
