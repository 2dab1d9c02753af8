// SPDX-License-Identifier: Apache-2.0
// The stack token of a home (D-2), and the list of flows that were executed and whose replies its holder sends.
#ifndef BT_SCHED_TOKEN_H
#define BT_SCHED_TOKEN_H

#include "sched/state.h"

// Whether core self may do home's network, and now does.
bool sched_token_try(struct bt_sched *s, uint32_t self, uint32_t home);

#endif
