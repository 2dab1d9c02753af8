// SPDX-License-Identifier: Apache-2.0
// The network of a replication group: it delays, loses, repeats, reorders, cuts and, rarely, brings what is not ours.
#ifndef BOBTAIL_SIM_REPLICA_NET_H
#define BOBTAIL_SIM_REPLICA_NET_H

#include "replica_world.h"

struct replica_packet {
    uint16_t from;
    uint32_t n;
    uint8_t bytes[];
};

void replica_net_send(struct replica_world *w, uint16_t from, uint16_t to, const uint8_t *bytes, size_t n);

/* Time of a message between a client and a member; 0: it is lost. */
uint64_t replica_net_client(struct replica_world *w);

/* No cuts any more. */
void replica_net_heal(struct replica_world *w);

#endif
