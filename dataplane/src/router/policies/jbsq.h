// SPDX-License-Identifier: Apache-2.0
// JBSQ(n): the worker with the fewest outstanding requests among those that have a free slot; ties by
// rotating start. The levels of a bounded index hold exactly the workers with outstanding < n. In a header,
// because the router makes this choice once per request and the call would cost a third of it.
#ifndef BOBTAIL_ROUTER_POLICIES_JBSQ_H
#define BOBTAIL_ROUTER_POLICIES_JBSQ_H

#include "router/load.h"

static inline uint32_t bt_jbsq(struct bt_load *load)
{
    uint32_t least;
    uint32_t w = bt_load_least(load, &least);
    return __builtin_expect(least < BT_LOAD_NOBODY, 1) ? w : BT_NO_WORKER;
}

#endif
