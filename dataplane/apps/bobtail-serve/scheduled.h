// SPDX-License-Identifier: Apache-2.0
// What scheduled.c and scheduled_state.c share.
#ifndef BT_APPS_SCHEDULED_H
#define BT_APPS_SCHEDULED_H

#include "run/memory.h"
#include "serve_app.h"

// What the loop's places are to the main thread: a clock, a bell, and no packets.
struct serve_bell {
    struct bt_io io; // first
    sem_t rung;
    struct serve_scheduled *of;
};

struct serve_scheduled {
    struct serve_app *app;
    struct bt_run *run;
    struct serve_bell bell;
    struct bt_run_memory memory[SERVE_WORKERS_MAX]; // of each port
    struct bt_run_port port[SERVE_WORKERS_MAX];
    struct bt_run_tcp tcp;                      // --protocol
    struct bt_io *stack_io[BT_RUN_THREADS_MAX]; // of each thread, with TCP past the kernel
    struct bt_fc_objective objective;           // likewise
    struct bt_hist_slices *latency[SERVE_WORKERS_MAX], *service[SERVE_WORKERS_MAX];
    struct bt_hist_slices *all; // the control thread's: the sum of one kind
    struct bt_trace_ring *traces[SERVE_WORKERS_MAX];
    uint64_t traced[SERVE_WORKERS_MAX]; // how many of them app->traces has had
    struct bt_rng rng[BT_RUN_THREADS_MAX];
    uint64_t io_counters[64];  // of all ports
    _Atomic uint64_t named_ns; // when a slow handler was last logged
};

// scheduled_state.c
const uint64_t *serve_bell_counters(struct bt_io *io, const struct bt_counter_desc **desc, unsigned *n);

#endif
