// SPDX-License-Identifier: Apache-2.0
// Flow control of one R2P2 port (F-10 to F-18): its clients by address, and what src/sched makes of their requests. Its
// owner is the port's.
#ifndef BT_RUN_FLOW_H
#define BT_RUN_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "rpc/server.h"
#include "sched/fc_receiver.h"

#define BT_FLOW_CLIENTS 4096u // known at once; of more, those that are active

enum bt_flow_counter {
    BT_FLOW_THROTTLED_SIGNALS, // signals that asked for silence
    BT_FLOW_CLOCK_BACK,        // executions that ended before they began: not learned from
    BT_FLOW_UNMEASURED,        // without an end: likewise
    BT_FLOW_DISPERSED,         // decisions with c² above 20 (F-8)
    BT_FLOW_CROWDED,           // requests of clients beyond those that can be known
    BT_FLOW_COUNTERS
};
extern const struct bt_counter_desc bt_flow_counter_desc[BT_FLOW_COUNTERS];

struct bt_flow_figures {
    uint64_t counters[BT_FLOW_COUNTERS];
    uint64_t refused; // requests past every token
    bool on, throttling;
    bool alarm;             // c² is above 20: what is solved for says little
    double load, admitted;  // rho as it is, and rho*; 0…1, rho also above; admitted 0: nothing is decided yet
    double service_ns, cv2; // of a request
    uint32_t clients;       // known now
};

struct bt_flow;

// For a port; off until bt_flow_set. NULL: there is no memory.
struct bt_flow *bt_flow_new(const uint64_t seed[2]);
void bt_flow_free(struct bt_flow *f);
bool bt_flow_on(const struct bt_flow *f);
// On, for an objective, with what was learned so far if it was on; or off with NULL.
void bt_flow_set(struct bt_flow *f, const struct bt_fc_objective *objective, uint64_t now);
struct bt_server_flow bt_flow_hooks(struct bt_flow *f);
void bt_flow_read(const struct bt_flow *f, uint64_t now, struct bt_flow_figures *out);
// Adds one port's figures to those of others: counters and clients are summed, the rest is that of the port that is
// closest to its limit.
void bt_flow_add(struct bt_flow_figures *sum, const struct bt_flow_figures *one);

#endif
