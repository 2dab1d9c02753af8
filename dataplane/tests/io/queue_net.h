// SPDX-License-Identifier: Apache-2.0
// Two hosts with two ios on two queues each, joined queue by queue: one asks from many ports, the other answers with a
// thread for each of its own two.
#ifndef BT_TESTS_QUEUE_NET_H
#define BT_TESTS_QUEUE_NET_H

#include "fixture_dpdk.h"

#include <stdatomic.h>

enum { QUEUES = 2, FLOWS = 8, ROUNDS = 20, QUEUE_ASKS = 0, QUEUE_ANSWERS = 1 };

struct queue_answerer {
    struct bt_dpdk_device *dev;
    struct bt_io *io;
    uint16_t port;
    atomic_bool stop;
    atomic_uint strays; // packets that came to the wrong thread
};

struct queue_net {
    struct bt_dpdk_device *dev[2]; // QUEUE_ASKS, QUEUE_ANSWERS
    struct bt_io *ask[QUEUES];     // with FLOWS local ports each
    struct queue_answerer answer[QUEUES];
};

// How frames travel between the queues of the hosts.
enum queue_wire {
    QUEUE_TO_QUEUE, // queue i of one is queue i of the other
    QUEUE_BY_HASH,  // the answering host's device deals them out by flow; what it sends comes by one queue
};

// What the drivers said since queue_net_open().
bool queue_net_said(const char *part);

void queue_net_open(struct queue_net *n, const char *const port[2], unsigned queues);
// Sends ROUNDS packets from each of the asking ports to both answering ports and takes the answers, checks that each
// reached the thread and the port it was for, that every queue took part, and that the counters say so.
void queue_net_exchange(struct queue_net *n, enum queue_wire wire);
// Ends the ios; the devices stay.
void queue_net_stop(struct queue_net *n);
// Every buffer must have come home. The wire is taken down between the two.
void queue_net_close(struct queue_net *n);

#endif
