// SPDX-License-Identifier: Apache-2.0
// What a configuration document asks of a server's threads and of its flow control, and what the server says of them on
// its control socket: bobtail-serve and any server of bobtail/serve.h alike.
#ifndef BT_RUN_TOLD_H
#define BT_RUN_TOLD_H

#include "ctl/ctl.h"
#include "run/run.h"

// The mode that spec.scheduling names, by the word in the environment of a pod. False: there is no such word.
bool bt_told_mode(const char *word, enum bt_sched_mode *mode);
// How many threads a server has whose configuration says how many of them run: of `ports` ports.
uint32_t bt_told_threads(enum bt_sched_mode mode, uint32_t ports);

// What can change while threads serve; a document of another mode is for who replaces this process. Between hold and
// go.
void bt_told_apply(struct bt_run *run, enum bt_sched_mode mode, const struct bt_config_scheduling *c);
void bt_told_state(const struct bt_run *run, enum bt_sched_mode mode, struct bt_ctl_scheduling *out);
// threads: that there are, parked ones among them.
void bt_told_counters(const struct bt_run *run, uint32_t threads, struct bt_ctl_samples *out);

// All of it but how many cores share the port.
struct bt_fc_objective bt_told_objective(const struct bt_config_flow *c);
void bt_told_flow_state(const struct bt_flow_figures *f, struct bt_ctl_flow *out);
void bt_told_flow_counters(const struct bt_flow_figures *f, struct bt_ctl_samples *out);

#endif
