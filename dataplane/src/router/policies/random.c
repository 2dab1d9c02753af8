// SPDX-License-Identifier: Apache-2.0
// Random: uniform over the workers that are up.
#include "router/policy.h"

uint32_t bt_pick_random(struct bt_load *load)
{
    if (load->up_n == 0) {
        return BT_NO_WORKER;
    }
    return load->dense[bt_rng_below(&load->rng, load->up_n)];
}
