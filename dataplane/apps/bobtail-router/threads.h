// SPDX-License-Identifier: Apache-2.0
// The FEEDBACK thread of a router on two threads (--threads=2), and how the loop, which is the REQ0 thread, stops it at
// a batch boundary for whatever needs both halves. The packet path of neither thread takes a lock.
#ifndef BT_APPS_ROUTER_THREADS_H
#define BT_APPS_ROUTER_THREADS_H

#include "io/io.h"
#include "router/router.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct router_threads {
    struct bt_router *router;
    struct bt_io *request_io, *feedback_io;
    pthread_t feedback;
    bool running;
    // Each is 1 while that thread sleeps or is about to; whoever wakes it sets it to 0.
    _Alignas(64) atomic_bool requests_asleep;
    _Alignas(64) atomic_bool feedback_asleep;
    // the stop
    _Alignas(64) atomic_bool asked; // written under lock
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool resting, ending; // under lock
};

// Starts the FEEDBACK thread. 0, or an errno value.
int router_threads_start(struct router_threads *t);

// Returns when the FEEDBACK thread stands still between two batches; resume lets it go on. Neither nests. Without a
// running thread they do nothing.
void router_threads_pause(struct router_threads *t);
void router_threads_resume(struct router_threads *t);

// Ends the thread.
void router_threads_stop(struct router_threads *t);

// One turn of the REQ0 thread: sleeps until something is to be done, at most until until_ns, then takes requests.
void router_threads_wait(struct router_threads *t, uint64_t until_ns);
void router_threads_requests(struct router_threads *t, struct bt_txq *txq);

#endif
