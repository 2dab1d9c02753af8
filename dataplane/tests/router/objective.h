// SPDX-License-Identifier: Apache-2.0
// The objective that the tests of admission control share.
#ifndef BOBTAIL_TESTS_ROUTER_OBJECTIVE_H
#define BOBTAIL_TESTS_ROUTER_OBJECTIVE_H

#include "router/admission.h"

#define US UINT64_C(1000)

static inline struct bt_admission_config objective(enum bt_admission_controller controller)
{
    return (struct bt_admission_config){.mode = BT_ADMISSION_REJECT,
                                        .controller = controller,
                                        .slo_ns = 300 * US,
                                        .per_100k = 99000,
                                        .droppable = BT_ADMISSION_DROPPABLE_DEFAULT};
}

#endif
