// SPDX-License-Identifier: Apache-2.0
// Seeding by splitmix64, so that neighbouring seeds give unrelated streams.
#include "base/rng.h"

void bt_rng_seed(struct bt_rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        r->s[i] = z ^ (z >> 31);
    }
}
