// SPDX-License-Identifier: Apache-2.0
// How long a synthetic request takes: a distribution written as text, and draws from it.
#ifndef BT_APPS_SERVICE_TIME_H
#define BT_APPS_SERVICE_TIME_H

#include "base/rng.h"

#include <stdbool.h>

enum service_kind { SERVICE_FIXED, SERVICE_EXPONENTIAL, SERVICE_BIMODAL, SERVICE_LOGNORMAL };

struct service_time {
    enum service_kind kind;
    double mean_ns;                       // fixed, exponential, lognormal
    double short_ns, long_ns, long_share; // bimodal
    double sigma;                         // lognormal: standard deviation of the logarithm
};

#define SERVICE_TIME_FORMS "fixed:T, exp:MEAN, bimodal:SHORT:LONG:PERCENT_LONG or lognormal:MEAN:SIGMA"

// False if the text is none of SERVICE_TIME_FORMS.
bool service_time_parse(const char *text, struct service_time *out);

// One draw in ns, at most ten minutes: an endless request would never leave its worker.
uint64_t service_time_draw(const struct service_time *s, struct bt_rng *rng);

// True if every request takes no time at all.
bool service_time_is_zero(const struct service_time *s);

#endif
