// SPDX-License-Identifier: Apache-2.0
// See profile.h.
#include "rpc/profile.h"

#define MS 1000000ull

struct bt_rpc_timers bt_rpc_timers_for(enum bt_device profile)
{
    uint64_t rto = profile == BT_DEVICE_SRIOV ? 2 * MS : 100 * MS;
    return (struct bt_rpc_timers){
        .rto_ns = rto,
        .patience_ns = rto / 20,
        .gc_ns = 4 * rto,
        .quarantine_ns = 8 * rto,
        // A tenth of the router's T_dead on shared vCPUs: 10 ms there
        // would cost more wake-ups than it is worth.
        .feedback_period_ns = profile == BT_DEVICE_SRIOV ? 10 * MS : 100 * MS,
        .router_heard_ns = 1000 * MS,
        .burst_gap_ns = MS / 10,
        .burst = 64,
        .sack_rounds = 3,
    };
}

static bool sane(uint64_t ns)
{
    return ns > 0 && ns <= 3600ull * 1000 * MS;
}

bool bt_rpc_timers_valid(const struct bt_rpc_timers *t)
{
    return sane(t->rto_ns) && sane(t->patience_ns) && sane(t->gc_ns) && sane(t->quarantine_ns) &&
           sane(t->feedback_period_ns) && sane(t->router_heard_ns) && sane(t->burst_gap_ns) && t->burst > 0 &&
           t->sack_rounds < 16;
}
