// SPDX-License-Identifier: Apache-2.0
// The disk of a member in virtual time: what was made durable, and what is under way. A crash keeps what is durable and
// some beginning of the rest.
#ifndef BOBTAIL_SIM_REPLICA_DISK_H
#define BOBTAIL_SIM_REPLICA_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "replica/entry.h"
#include "replica_wal.h"

struct replica_disk;

/* wal: the shipped log beneath, which then says what is found after a crash; NULL: a log that is never torn. */
struct replica_disk *replica_disk_new(const struct bt_group_config *first, struct replica_wal *wal);
void replica_disk_free(struct replica_disk *d);

/* Queues an operation; false when no store could do it. */
bool replica_disk_store(struct replica_disk *d, const struct bt_store_op *op);

/* Begins to sync all that is queued, which takes so long unless the log says otherwise; returns when it is done, 0 when
 * there is nothing or a sync is under way. */
uint64_t replica_disk_sync(struct replica_disk *d, uint64_t now, uint64_t takes);

/* The sync under way is done; *generation: all up to it is durable. */
enum bt_store_result replica_disk_synced(struct replica_disk *d, uint64_t *generation);

/* The member ends: of what was not synced some beginning stays. */
void replica_disk_crash(struct replica_disk *d, uint64_t now, struct bt_rng *rng);

/* What a store finds; valid until the next call for this disk. NULL with replica_disk_why when it does not open, or
 * when it found something else than what was durable and some beginning of the rest. */
const struct bt_recovery *replica_disk_recover(struct replica_disk *d, uint64_t now);
bool replica_disk_may_try_again(const struct replica_disk *d);
const char *replica_disk_why(const struct replica_disk *d);

/* Is the entry durable, by itself or by a snapshot? */
bool replica_disk_holds(const struct replica_disk *d, uint64_t index, uint64_t term);
bool replica_disk_reaches(const struct replica_disk *d, uint64_t index); /* of whatever term */
void replica_disk_mend(struct replica_disk *d);                          /* nothing fails or stalls any more */
struct bt_hard_state replica_disk_hard_state(const struct replica_disk *d);

#endif
