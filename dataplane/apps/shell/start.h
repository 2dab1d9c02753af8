// SPDX-License-Identifier: Apache-2.0
// What the programs do alike before their loop runs: an incarnation, seeds, the first configuration, and the control
// thread.
#ifndef BT_APPS_START_H
#define BT_APPS_START_H

#include "ctl/ctl.h"
#include "io/io.h"

#include <stdbool.h>
#include <stdint.h>

// Grows with every start (15 per second), as receivers of FEEDBACK compare it by serial arithmetic
//
uint32_t bt_new_incarnation(void);

// Random from the kernel.
uint64_t bt_new_seed(void);

// Seconds since start for logs; CLOCK_MONOTONIC in ns.
uint64_t bt_monotonic_ns(void);

// Somewhere to wait, on loopback, for a loop whose own addresses only the first document says. NULL: it was logged why.
struct bt_io *bt_idle_port(struct bt_pool *pool);

struct bt_control_start {
    const struct bt_ctl_app *answers; // its arg and incarnation are those below
    void *arg;
    uint32_t incarnation;
    const char *socket;       // --ctl: NULL or empty for none
    const char *key_dir;      // --key-dir, or NULL
    const char *config;       // --config, or NULL
    const char *config_cache; // --config-cache, or NULL
    struct bt_io *io;         // its wait ends when the loop is asked for something
    void (*wake)(void *arg);  // instead of io, with wake_arg, for a loop whose io changes; NULL: io
    void *wake_arg;
};

// Opens the mailbox, applies the last good configuration from the cache, or else --config, and starts the control
// thread. A cache that is missing is normal, one that is broken is reported and passed over; a --config that is refused
// is an error. NULL: it was logged why.
struct bt_ctl *bt_control_start(const struct bt_control_start *s, struct bt_mailbox *mailbox);

// bt_monotonic_ns for bt_ctl_app.now.
uint64_t bt_control_now(void *arg);

#endif
