// SPDX-License-Identifier: Apache-2.0
// The judge of a member's log: what was appended, and what a leader may append.
#ifndef BOBTAIL_SIM_REPLICA_CHECK_LOG_H
#define BOBTAIL_SIM_REPLICA_CHECK_LOG_H

#include "replica_record.h"

void replica_check_log(struct replica_world *w, uint16_t id, const struct bt_replica_status *s);

#endif
