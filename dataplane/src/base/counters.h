// SPDX-License-Identifier: Apache-2.0
// How a module names its counters: an enum indexes a uint64_t array in the
// module's own struct, and a table of the same length gives each one its
// exported name, so that the control socket prints them without knowing them.
#ifndef BT_BASE_COUNTERS_H
#define BT_BASE_COUNTERS_H

struct bt_counter_desc {
    const char *name;  // "router_dropped_total"
    const char *label; // "reason", or NULL for none
    const char *value; // "queue_full", or NULL
};

#endif
