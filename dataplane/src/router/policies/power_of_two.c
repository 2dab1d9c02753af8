// SPDX-License-Identifier: Apache-2.0
// PL(2), power of two: two distinct workers drawn uniformly, the shorter queue wins, a tie goes to the first.
#include "router/policy.h"

uint32_t bt_pick_power_of_two(struct bt_load *load)
{
    if (load->up_n == 0) {
        return BT_NO_WORKER;
    }
    if (load->up_n == 1) {
        return load->dense[0];
    }
    uint32_t i = (uint32_t)bt_rng_below(&load->rng, load->up_n);
    uint32_t j = (uint32_t)bt_rng_below(&load->rng, load->up_n - 1u);
    j += j >= i ? 1u : 0u; /* every other worker equally likely */
    uint32_t first = load->dense[i];
    uint32_t second = load->dense[j];
    return load->outstanding[second] < load->outstanding[first] ? second : first;
}
