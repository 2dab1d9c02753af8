// SPDX-License-Identifier: Apache-2.0
// The judge of what members apply, answer and restore.
#ifndef BOBTAIL_SIM_REPLICA_CHECK_STATE_H
#define BOBTAIL_SIM_REPLICA_CHECK_STATE_H

#include "replica_record.h"

/* An entry is applied, a state restored. */
void replica_check_applied(struct replica_world *w, uint16_t id, const struct bt_entry *e, unsigned duty);
void replica_check_answered(struct replica_world *w, uint16_t id, const struct bt_entry *e);
void replica_check_crash(struct replica_world *w, uint16_t id);
void replica_check_dropped(struct replica_world *w, uint64_t op);
void replica_check_restored(struct replica_world *w, uint16_t id, uint64_t last_index);

/* A snapshot is to be stored: its configuration is the one that was committed up to its last entry. */
void replica_check_snapshot(struct replica_world *w, uint16_t id, const struct bt_snapshot *s);

#endif
