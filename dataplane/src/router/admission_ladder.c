// SPDX-License-Identifier: Apache-2.0
// From a number of requests to refuse to the level that refuses them: the lowest droppable class first, up to 99 % of
// it, then the next.
#include "router/admission.h"

#define MOST_SHARE  ((double)BT_ADMISSION_MOST / BT_ADMISSION_ONE)
#define NEXT_FROM   0.7 /* of a class really refused: from here on some of the next one, */
#define NEXT_WHOLLY 0.9 /* and here as many of it as need be */

/* how far the next class may be refused, MOST_SHARE at most. Not at all while a good part of this one still gets
 * in by finding idle workers. */
static double next_share(const struct bt_admission *a, const struct bt_admission_report *report, unsigned class)
{
    if (!bt_admission_keeps_busy(a)) {
        return MOST_SHARE;
    }
    double refused = (double)report->refused[class] / (double)report->arrived[class];
    double over = (refused - NEXT_FROM) / (NEXT_WHOLLY - NEXT_FROM);
    return over <= 0 ? 0 : over < MOST_SHARE ? over : MOST_SHARE;
}

uint32_t bt_admission_level_for(const struct bt_admission *a, const struct bt_admission_report *report, double wanted,
                                double *left)
{
    double may = MOST_SHARE; /* share of the class that may be refused */
    *left = 0;
    if (wanted <= 0) {
        return 0; /* also where the lowest class had no requests, of which 99 % would be none */
    }
    for (unsigned c = 0; c < BT_ADMISSION_CLASSES; c++) {
        double arrived = (double)report->arrived[c];
        if (a->offset[c] == UINT32_MAX || arrived == 0) {
            continue;
        }
        double share = wanted / arrived;
        if (share < may) {
            return a->offset[c] + (uint32_t)(share * BT_ADMISSION_ONE);
        }
        if (may < MOST_SHARE) {
            return a->offset[c] + (uint32_t)(may * BT_ADMISSION_ONE);
        }
        wanted -= arrived * MOST_SHARE;
        may = next_share(a, report, c);
    }
    *left = wanted;
    return a->top;
}
