// SPDX-License-Identifier: Apache-2.0
// The shipped write-ahead log of a member on a disk in virtual time that loses, tears and reorders what was not synced.
#ifndef BOBTAIL_SIM_REPLICA_WAL_H
#define BOBTAIL_SIM_REPLICA_WAL_H

#include <stdbool.h>
#include <stdint.h>

#include "replica/entry.h"

struct replica_wal;

struct replica_wal_rules {
    uint64_t seed, sync_ns;
    double sync_fails; /* of each */
};

struct replica_wal *replica_wal_new(const struct bt_group_config *first, const struct replica_wal_rules *rules);
void replica_wal_free(struct replica_wal *w);

/* Finds what is on the disk; false with replica_wal_why. Valid until the next call. */
bool replica_wal_open(struct replica_wal *w, uint64_t now, struct bt_recovery *found);

/* Takes an operation; then writes all that was taken. *generation is durable at *done. */
bool replica_wal_take(struct replica_wal *w, uint64_t now, const struct bt_store_op *op);
enum bt_store_result replica_wal_commit(struct replica_wal *w, uint64_t *generation, uint64_t *done);

/* The member ends, with the power or without. */
void replica_wal_crash(struct replica_wal *w, uint64_t now, bool power);

/* The disk works from now on. */
void replica_wal_mend(struct replica_wal *w);
/* It did not open because an operation failed; another time it may. */
bool replica_wal_may_try_again(const struct replica_wal *w);
const char *replica_wal_why(const struct replica_wal *w);

#endif
