// SPDX-License-Identifier: Apache-2.0
// A wire between a host on DPDK's rings and an interface of the kernel: a thread carries frames both ways, between
// ring i and descriptor i (of a TAP device with several queues, or one packet socket).
#ifndef BT_TESTS_QUEUE_WIRE_H
#define BT_TESTS_QUEUE_WIRE_H

#include "queue_net.h"

#include <pthread.h>
#include <rte_ring.h>

struct queue_carrier {
    struct rte_ring *from[QUEUES], *to[QUEUES];
    struct rte_mempool *buffers; // for what comes from the interface
    int fd[QUEUES];
    unsigned n_fds;
    atomic_bool stop;
    atomic_uint refused; // frames one side did not take
    pthread_t thread;
};

void queue_carrier_start(struct queue_carrier *c);
void queue_carrier_stop(struct queue_carrier *c);
// Ends the interface, if it was a TAP device.
void queue_carrier_close(struct queue_carrier *c);

// Two queues of a new TAP device of the namespace; false with the reason.
bool queue_tap_open(const char *name, int fd[QUEUES], char *why, size_t len);
// A packet socket that sees what arrives at the interface; -1 if it cannot be had.
int queue_packet_socket(const char *name);

#endif
