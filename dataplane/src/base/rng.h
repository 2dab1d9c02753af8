// SPDX-License-Identifier: Apache-2.0
// Seeded random numbers (xoshiro256**): the same seed gives the same run in
// policies, tests and the simulator. Not for secrets.
#ifndef BT_BASE_RNG_H
#define BT_BASE_RNG_H

#include <stdint.h>

struct bt_rng {
    uint64_t s[4];
};

void bt_rng_seed(struct bt_rng *r, uint64_t seed);

static inline uint64_t bt_rng_next(struct bt_rng *r)
{
    uint64_t *s = r->s, x = s[1] * 5, t = s[1] << 17;
    uint64_t out = ((x << 7) | (x >> 57)) * 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return out;
}

// Uniform in [0, n) by multiplication, no division; n must not be 0. The bias
// is below n / 2^32.
static inline uint32_t bt_rng_below(struct bt_rng *r, uint32_t n)
{
    return (uint32_t)(((bt_rng_next(r) >> 32) * n) >> 32);
}

// Uniform in [0, 1).
static inline double bt_rng_unit(struct bt_rng *r)
{
    return (double)(bt_rng_next(r) >> 11) * 0x1.0p-53;
}

#endif
