// SPDX-License-Identifier: Apache-2.0
// JBSQ(n): the worker with the fewest outstanding requests among those that have a free slot; ties by
// rotating start. The levels of a bounded index hold exactly the workers with outstanding < n.
#include "router/policy.h"

uint32_t bt_pick_jbsq(struct bt_load *load)
{
    if (load->filled == 0) {
        return BT_NO_WORKER;
    }
    return bt_load_any(load, (uint32_t)__builtin_ctzll(load->filled));
}
