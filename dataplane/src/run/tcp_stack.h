// SPDX-License-Identifier: Apache-2.0
// Connections past the kernel: each home has a stack of its own (tcp/stack.h) on an io that hands TCP up whole
// (bt_dpdk_device_config.takes_tcp).
#ifndef BT_RUN_TCP_STACK_H
#define BT_RUN_TCP_STACK_H

#include "run/run.h"
#include "tcp/stack.h"

// The io has one UDP port, of no use; TCP is behind it.
#define BT_RUN_TCP_LOCAL 1u

// For bt_run_tcp.wire.
extern const struct bt_run_wire bt_run_wire_stack;

// Of all homes, BT_TCP_COUNTERS of them; and the sum of their ios' counters, which *desc describes. Any thread.
void bt_run_read_stacks(struct bt_run *run, uint64_t *out);
unsigned bt_run_read_stack_ios(struct bt_run *run, const struct bt_counter_desc **desc, uint64_t *out, unsigned max);

#endif
