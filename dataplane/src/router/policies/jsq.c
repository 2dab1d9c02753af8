// SPDX-License-Identifier: Apache-2.0
// JSQ: the worker with the fewest outstanding requests, without bound; ties by rotating start.
#include "router/policy.h"

uint32_t bt_pick_jsq(struct bt_load *load)
{
    if (bt_load_lowest(load) == BT_LOAD_TOP && !load->bounded) { /* "63 or more": make them distinguishable first */
        bt_load_slide(load);
    }
    uint32_t least;
    uint32_t w = bt_load_least(load, &least);
    return least < BT_LOAD_NOBODY ? w : BT_NO_WORKER;
}
