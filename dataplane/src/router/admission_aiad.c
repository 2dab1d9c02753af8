// SPDX-License-Identifier: Apache-2.0
// The published loop (sven.md §3, Listing 11.1): additive increase, additive decrease by 0.01 every 20 ms, on a
// smoothed share of requests within the objective. Kept as it is, to be compared with.
#include "router/admission.h"

#define ALPHA 0.3 /* the text gives no weight */
#define STEP  (BT_ADMISSION_ONE / 100u)

uint32_t bt_control_aiad(struct bt_admission *a, const struct bt_admission_report *report, uint32_t level)
{
    double share = report->samples > 0 ? (double)report->within / (double)report->samples : 1;
    a->state.share = a->state.share < 0 ? share : ALPHA * share + (1 - ALPHA) * a->state.share;
    if (a->state.share * 100000 < a->config.per_100k) {
        return a->top - level > STEP ? level + STEP : a->top;
    }
    return level > STEP ? level - STEP : 0;
}
