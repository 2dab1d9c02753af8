// SPDX-License-Identifier: Apache-2.0
// A machine of a group under load: its two threads, and the member on it. Whatever is written is durable at once:
// published are groups that keep nothing on a disk.
#ifndef BOBTAIL_SIM_REPLICA_LOAD_MACHINE_H
#define BOBTAIL_SIM_REPLICA_LOAD_MACHINE_H

#include "replica_load_world.h"

void sim_load_member_start(struct load_world *w, uint16_t id, const struct bt_group_config *first);
void sim_load_arrive(struct load_world *w, uint16_t id, struct load_packet *p);
void sim_load_net_done(struct load_world *w, uint16_t id);
void sim_load_app_done(struct load_world *w, uint16_t id); /* the thread waits for room for its reply */
void sim_load_app_free(struct load_world *w, uint16_t id);
void sim_load_tick(struct load_world *w, uint16_t id);

#endif
