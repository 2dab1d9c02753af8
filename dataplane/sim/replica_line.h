// SPDX-License-Identifier: Apache-2.0
// With HovercRaft a request waits until somebody may answer it. With a small bound and slow disks that is a
// line of clients, and what a seed asks of a group follows from how long it is.
#ifndef BOBTAIL_SIM_REPLICA_LINE_H
#define BOBTAIL_SIM_REPLICA_LINE_H

#include "replica_world.h"

/* How long one waits who comes last of all clients; 0: there is no line. */
uint64_t replica_line_ns(const struct replica_world *w);

/* Members forget a request before the last one's turn: whose is executed is luck. */
bool replica_line_forgets(const struct replica_world *w);

#endif
