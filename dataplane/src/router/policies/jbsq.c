// SPDX-License-Identifier: Apache-2.0
// JBSQ in the table of policies (see jbsq.h).
#include "router/policies/jbsq.h"

#include "router/policy.h"

uint32_t bt_pick_jbsq(struct bt_load *load)
{
    return bt_jbsq(load);
}
