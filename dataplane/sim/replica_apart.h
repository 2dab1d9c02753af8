/* SPDX-License-Identifier: Apache-2.0 */
// HovercRaft in the simulated world: requests reach every member by themselves, through a flow-control box.
#ifndef BOBTAIL_SIM_REPLICA_APART_H
#define BOBTAIL_SIM_REPLICA_APART_H

#include "replica_world.h"

enum { REPLICA_REQUEST_MOST = 300 };

static inline bool replica_is_apart(const struct replica_world *w)
{
    return w->rules.apart.kept_requests > 0;
}

static inline bool replica_is_shared(const struct replica_world *w)
{
    return w->rules.apart.aggregator;
}

/* What a number stands for: its pair, whether it is a read, its body. The request id comes again after 96: later than
 * a copy may be under way, sooner than a body that nobody ordered goes. */
struct bt_addr replica_client_of(uint64_t op);
uint16_t replica_req_id_of(const struct replica_world *w, uint64_t op);
bool replica_is_read(const struct replica_world *w, uint64_t op);
uint32_t replica_body_of(uint64_t op, uint8_t *body); /* REPLICA_REQUEST_MOST bytes; returns how many */

void replica_box_start(struct replica_world *w);
void replica_box_crash(struct replica_world *w);

/* A client's new request is on its way to the box; what happens there. */
void replica_box_send(struct replica_world *w, uint32_t client, uint64_t op);
void replica_box_event(struct replica_world *w, const struct sim_event *ev);

/* A member answered: word to the client and to the box. */
void replica_box_answered(struct replica_world *w, uint64_t op, const struct replica_did *did);

#endif
