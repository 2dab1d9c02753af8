// SPDX-License-Identifier: Apache-2.0
// What the router is told about hedged requests. Apart, as admission_config.h is.
#ifndef BOBTAIL_ROUTER_HEDGING_CONFIG_H
#define BOBTAIL_ROUTER_HEDGING_CONFIG_H

#include <stdint.h>

enum bt_hedging_mode {
    BT_HEDGING_OFF = 0,        /* requests are sent once */
    BT_HEDGING_LOAD_AWARE = 1, /* a copy at once, where a worker is idle */
    BT_HEDGING_DELAYED = 2,    /* a copy after a percentile of the measured response time */
    BT_HEDGING_PROBE = 3,      /* only what measures jitter */
    BT_HEDGING_MODES
};

/* What becomes of the other copy. */
enum bt_hedging_cancellation {
    BT_HEDGING_CANCEL_NONE = 0,       /* both run to their end */
    BT_HEDGING_CANCEL_ANSWERED = 1,   /* it is taken back when the request is answered */
    BT_HEDGING_CANCEL_PREEMPTIVE = 2, /* also when a newcomer finds no idle worker */
    BT_HEDGING_CANCELLATIONS
};

/* Every policy-0 request of the service is declared to be safe to execute twice. */
struct bt_hedging_config {
    enum bt_hedging_mode mode;
    uint32_t busy_percent;      /* 1…100: a copy begins only while at most so many of the workers are busy */
    uint32_t budget_percent;    /* 1…100: copies, of requests forwarded */
    uint32_t per_100k;          /* Delayed: percentile × 1,000; 50000…99990 */
    uint32_t probe_per_million; /* 0…1000000: requests copied at once to compare the two executions */
    enum bt_hedging_cancellation cancellation;
};

#endif
