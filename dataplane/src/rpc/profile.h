// SPDX-License-Identifier: Apache-2.0
// Transport timers per device profile: a shared vCPU is descheduled for
// tens of milliseconds, a pinned one behind SR-IOV is not.
#ifndef BT_RPC_PROFILE_H
#define BT_RPC_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/device.h"

struct bt_rpc_timers {
    uint64_t rto_ns;        // first repair of an incomplete message
    uint64_t patience_ns;   // an incomplete request holds its router's credit: RTO / 20, more with more packets
    uint64_t gc_ns;         // an incomplete message or kept reply without progress is freed: 4 RTO
    uint64_t quarantine_ns; // a released req_id is not used again, a finished pair is known: 2 x gc_ns
    uint64_t feedback_period_ns; // FEEDBACK to a router that got none for so long
    uint64_t router_heard_ns;    // a router counts as active: 1 s
    uint64_t burst_gap_ns;       // between two bursts of one message
    uint16_t burst;              // packets of one message sent back to back
    uint16_t sack_rounds;        // repairs per message: 3
};

// False when a timer is zero or beyond an hour: neither could end.
bool bt_rpc_timers_valid(const struct bt_rpc_timers *t);

// Client and server must use the same profile: a server forgets a finished pair
// after quarantine_ns, a client may use its id again after as long.
struct bt_rpc_timers bt_rpc_timers_for(enum bt_device profile);

#endif
