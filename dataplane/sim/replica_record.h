// SPDX-License-Identifier: Apache-2.0
// What the judge of a replication group keeps (replica_check.h): all that was ever committed, the configurations of
// then, and the first rule that was broken.
#ifndef BOBTAIL_SIM_REPLICA_RECORD_H
#define BOBTAIL_SIM_REPLICA_RECORD_H

#include "replica_world.h"

/* The first breach is kept. */
void replica_breach(struct replica_world *w, enum replica_breach b, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
const char *replica_breach_name(enum replica_breach b);

/* A list with room for number `need`; what is new of it is zero. */
void *replica_grown(void *p, uint64_t *room, uint64_t need, size_t size);
struct replica_committed *replica_at(struct replica_world *w, uint64_t index);

uint64_t replica_hash(const struct bt_entry *e);
uint64_t replica_op(const struct bt_entry *e);                        /* the command's id; 0: none */
uint64_t replica_term_at(const struct bt_replica *r, uint64_t index); /* 0: it has no such entry */

/* The configuration that member id goes by, read from its log. */
void replica_config_of(const struct replica_world *w, uint16_t id, struct bt_group_config *out, uint64_t *index);
uint32_t replica_voters_of(const struct bt_group_config *c);
bool replica_votes_in(const struct bt_group_config *c, uint16_t id);

/* It has a vote, or had one before a change that it does not know to be committed. */
bool replica_may_stand(const struct replica_world *w, uint16_t id);

#endif
