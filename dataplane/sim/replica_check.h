// SPDX-License-Identifier: Apache-2.0
// The judge of a replication group: after every step of a member, and of every message it sends, the invariants I-1 to
// I-9 of Raft. It knows what all members ever had and what each disk holds; the members do not.
#ifndef BOBTAIL_SIM_REPLICA_CHECK_H
#define BOBTAIL_SIM_REPLICA_CHECK_H

#include "replica_world.h"

/* The first breach is kept. */
void replica_breach(struct replica_world *w, enum replica_breach b, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
const char *replica_breach_name(enum replica_breach b);

/* A member came up: what the judge saw of it before says nothing any more. */
void replica_check_started(struct replica_world *w, uint16_t id);
void replica_check_step(struct replica_world *w, uint16_t id);
void replica_check_sent(struct replica_world *w, uint16_t from, uint16_t to, const uint8_t *message, size_t n);

/* The aggregator announces a commit. */
void replica_check_announced(struct replica_world *w, uint64_t term, const struct bt_group_committed *c);

/* An entry is applied, a state restored. */
void replica_check_applied(struct replica_world *w, uint16_t id, const struct bt_entry *e, unsigned duty);
void replica_check_answered(struct replica_world *w, uint16_t id, const struct bt_entry *e);
void replica_check_crash(struct replica_world *w, uint16_t id);
void replica_check_dropped(struct replica_world *w, uint64_t op);
uint64_t replica_check_dropped_executed(const struct replica_world *w);
void replica_check_restored(struct replica_world *w, uint16_t id, uint64_t last_index);

/* A snapshot is to be stored: its configuration is the one that was committed up to its last entry. */
void replica_check_snapshot(struct replica_world *w, uint16_t id, const struct bt_snapshot *s);

/* A client learns that its write is at this index. */
void replica_check_acknowledged(struct replica_world *w, uint64_t index, uint64_t op, uint64_t floor);

/* Writes that were executed twice, however often they were asked for. */
uint64_t replica_check_executed_twice(const struct replica_world *w);

/* Acknowledged writes that are not where they were; the members hold all there is to hold. */
uint64_t replica_check_lost(const struct replica_world *w);

uint64_t replica_hash(const struct bt_entry *e);
uint64_t replica_op(const struct bt_entry *e); /* the command's id; 0: none */

/* The configuration that member id goes by, read from its log. */
void replica_config_of(const struct replica_world *w, uint16_t id, struct bt_group_config *out, uint64_t *at);

#endif
