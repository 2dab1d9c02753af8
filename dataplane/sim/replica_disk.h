// SPDX-License-Identifier: Apache-2.0
// The disk of a member in virtual time: what was made durable, and what is under way. A crash keeps what is durable and
// some beginning of the rest.
#ifndef BOBTAIL_SIM_REPLICA_DISK_H
#define BOBTAIL_SIM_REPLICA_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "replica/entry.h"

struct replica_disk;

struct replica_disk *replica_disk_new(const struct bt_group_config *first);
void replica_disk_free(struct replica_disk *d);

/* Queues an operation; false when no store could do it. */
bool replica_disk_store(struct replica_disk *d, const struct bt_store_op *op);

/* Begins to sync all that is queued; false when there is nothing or a sync is under way. */
bool replica_disk_sync(struct replica_disk *d);

/* The sync under way is done; the generation up to which all is durable. */
uint64_t replica_disk_synced(struct replica_disk *d);

/* Power goes: of what was not synced some beginning stays. */
void replica_disk_crash(struct replica_disk *d, struct bt_rng *rng);

/* What a store finds; valid until the next call for this disk. */
const struct bt_recovery *replica_disk_recover(struct replica_disk *d);

/* Is the entry durable, by itself or by a snapshot? */
bool replica_disk_holds(const struct replica_disk *d, uint64_t index, uint64_t term);
bool replica_disk_reaches(const struct replica_disk *d, uint64_t index); /* of whatever term */
struct bt_hard_state replica_disk_hard_state(const struct replica_disk *d);

#endif
