// SPDX-License-Identifier: Apache-2.0
// Migration of flow groups from one home to another (Z-13), seen from the files beside it.
#ifndef BT_SCHED_MIGRATE_H
#define BT_SCHED_MIGRATE_H

#include "sched/state.h"

// Puts the event of a group that is moving aside; false: it is not moving, or home is neither end. The
// caller holds home's token and saw the group's tag.
bool sched_migrate_hold(struct bt_sched *s, uint32_t home, uint32_t group, struct bt_sched_event *event);

#endif
