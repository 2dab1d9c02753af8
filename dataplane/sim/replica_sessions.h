/* SPDX-License-Identifier: Apache-2.0 */
// Clients that ask again: the shipped session table as a part of every member's state, and writes that
// are asked for under the same number until they are answered. Whatever the faults, each is executed at most once.
//
// What an attempt is stands in its number: client + 1 from bit 40, sends 14 bits, session 10 bits, write 16 bits. Write
// 0 opens the session. A write is the same in all its attempts, and each attempt is a pair of its own.
#ifndef BOBTAIL_SIM_REPLICA_SESSIONS_H
#define BOBTAIL_SIM_REPLICA_SESSIONS_H

#include "replica_world.h"

static inline bool replica_has_sessions(const struct replica_world *w)
{
    return w->rules.sessions > 0;
}

/* An attempt of a client's, and not one of those that nobody waits for. */
bool replica_in_session(const struct replica_world *w, uint64_t op);

/* The write that an attempt is one of; without sessions every attempt is one. */
uint64_t replica_write_of(const struct replica_world *w, uint64_t op);

/* Requests of a pair, one after the other. */
uint64_t replica_send_of(const struct replica_world *w, uint64_t op);

/* What a client sends next, after a write was answered or was not. */
uint64_t replica_attempt(struct replica_world *w, uint32_t client);

/* How much later than usual it comes: when its client has long asked again, or has other worries. */
uint64_t replica_late_attempt(struct replica_world *w);

/* The answer to an attempt; true: the write is done, at did->index. */
bool replica_attempt_answered(struct replica_world *w, uint32_t client, const struct replica_did *did);

/* A member comes to an entry: what it does with it, as its table says. */
struct replica_did replica_do(struct replica_world *w, uint16_t id, const struct bt_entry *e);

/* Part of a snapshot, behind the rest of it. */
uint64_t replica_sessions_write(const struct replica_world *w, const struct bt_sessions *s, uint8_t *p, uint64_t room);
bool replica_sessions_restore(struct replica_world *w, uint16_t id, const uint8_t *p, uint64_t n);
void replica_sessions_forget(struct replica_world *w, uint16_t id); /* the state before all entries */

#endif
