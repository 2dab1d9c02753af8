// SPDX-License-Identifier: Apache-2.0
// From a number of requests to refuse to the level that refuses them: the lowest droppable class first, up to 99 % of
// it, then the next.
#include "router/admission.h"

uint32_t bt_admission_level_for(const struct bt_admission *a, const struct bt_admission_report *report, double wanted,
                                double *left)
{
    *left = 0;
    if (wanted <= 0) {
        return 0; /* also where the lowest class had no requests, of which 99 % would be none */
    }
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        if (a->offset[c] == UINT32_MAX) {
            continue;
        }
        double arrived = (double)report->arrived[c];
        double most = arrived * ((double)BT_ADMISSION_MOST / BT_ADMISSION_ONE);
        if (wanted < most) {
            return a->offset[c] + (uint32_t)(wanted / arrived * BT_ADMISSION_ONE);
        }
        wanted -= most;
    }
    *left = wanted;
    return a->top;
}
