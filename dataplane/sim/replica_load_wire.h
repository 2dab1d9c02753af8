// SPDX-License-Identifier: Apache-2.0
// What a request of a group under load is, which follows from its number, and links.
#ifndef BOBTAIL_SIM_REPLICA_LOAD_WIRE_H
#define BOBTAIL_SIM_REPLICA_LOAD_WIRE_H

#include "replica_load_world.h"

bool sim_load_is_read(const struct load_world *w, uint64_t op);
uint64_t sim_load_service_ns(const struct load_world *w, uint64_t op);
struct bt_addr sim_load_client_of(uint64_t op);
const uint8_t *sim_load_body_of(const struct load_world *w, uint64_t op); /* until the next call */
uint64_t sim_load_op_of(const struct bt_entry *e);                        /* 0: no request's */

/* When what begins then, or once it is free, is through; it is not free before. */
uint64_t sim_load_past(uint64_t *free_at, uint64_t now, double takes);
double sim_load_wire_ns(const struct load_world *w, size_t bytes);

/* op 0: a message of n bytes. */
struct load_packet *sim_load_packet(uint64_t op, const uint8_t *bytes, size_t n);
/* At the machine's thread of the network, after its link; the packet is the queue's. */
void sim_load_towards(struct load_world *w, uint16_t id, uint64_t at, struct load_packet *p);

#endif
