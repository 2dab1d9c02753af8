// SPDX-License-Identifier: Apache-2.0
// A group under load: its machines, its clients, and what happens to them. A machine is a thread for
// the network and the consensus, one for the service, and a link.
#ifndef BOBTAIL_SIM_REPLICA_LOAD_WORLD_H
#define BOBTAIL_SIM_REPLICA_LOAD_WORLD_H

#include "event.h"
#include "replica/aggregator.h"
#include "replica/box.h"
#include "replica/replica.h"
#include "replica_load_model.h"

enum {
    LOAD_MEMBERS = 10, /* ids from 1; 0 is the aggregator */
    LOAD_MESSAGE = 1452,
    LOAD_QUEUE = 1 << 17, /* packets before a thread: more, and the load is beyond all bounds */
    LOAD_RECENT = 65536
};
#define LOAD_US      UINT64_C(1000)
#define LOAD_MS      UINT64_C(1000000)
#define LOAD_CLUSTER UINT64_C(0xb0b7a11000000002)

enum load_event { EV_REQUEST, EV_IN, EV_NET, EV_APP, EV_FREE, EV_TICK, EV_REPLY, EV_FEEDBACK, EV_AGGREGATOR };

/* A message between members, or a request, whose bytes follow from its number. */
struct load_packet {
    uint64_t op; /* 0: a message */
    size_t n;
    uint8_t bytes[];
};

struct load_machine {
    struct bt_replica *core; /* NULL: dead, or not replicated */
    void *mem;
    uint64_t issued, stored;   /* of the store */
    uint64_t tx_free, rx_free; /* the link */
    uint64_t ahead_free;       /* of it, for the thread of the network: its own queue, which goes first */
    uint64_t net_free;
    struct load_packet **queue; /* before the thread of the network */
    uint32_t head, waiting;
    bool net_busy, app_busy;
    uint64_t applied, snapshot;
    uint64_t running; /* the entry that is being executed */
    uint64_t *line;   /* not replicated: requests before the thread of the service */
    uint32_t line_head, line_n;
};

struct load_world {
    const struct sim_load_model *m;
    struct sim_agenda agenda;
    struct bt_rng arrivals;
    struct load_machine machine[LOAD_MEMBERS];
    struct bt_aggregator aggregator;
    struct bt_box *box;
    void *box_mem;
    uint16_t sending;
    uint64_t sent; /* requests */
    uint64_t *sent_at, *took;
    uint64_t dropped, dropped_late, leader_dead;
    bool beyond; /* a queue is full */
};

#endif
