// SPDX-License-Identifier: Apache-2.0
// JSQ: the worker with the fewest outstanding requests, without bound; ties by rotating start.
#include "router/policy.h"

uint32_t bt_pick_jsq(struct bt_load *load)
{
    if (load->filled == 0) {
        return BT_NO_WORKER;
    }
    uint32_t level = (uint32_t)__builtin_ctzll(load->filled);
    if (level == BT_LOAD_TOP && !load->bounded) { /* "63 or more": make them distinguishable first */
        bt_load_slide(load);
        level = (uint32_t)__builtin_ctzll(load->filled);
    }
    return bt_load_any(load, level);
}
