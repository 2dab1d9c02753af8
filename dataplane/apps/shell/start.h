// SPDX-License-Identifier: Apache-2.0
// What router and server do alike before their loop runs: an incarnation, seeds, the first
// configuration, and the control thread.
#ifndef BT_APPS_START_H
#define BT_APPS_START_H

#include "ctl/ctl.h"

#include <stdbool.h>
#include <stdint.h>

// Grows with every start (15 per second), as receivers of FEEDBACK compare it by serial arithmetic
//
uint32_t bt_new_incarnation(void);

// Random from the kernel.
uint64_t bt_new_seed(void);

// Seconds since start for logs; CLOCK_MONOTONIC in ns.
uint64_t bt_monotonic_ns(void);

struct bt_first_config {
    const char *config;       // --config, or NULL
    const char *config_cache; // --config-cache, or NULL
};

// Applies the last good configuration from the cache, or else --config. A cache that is missing is
// normal, one that is broken is reported and passed over; a --config that is refused is an error
// (reported, false).
bool bt_apply_first_config(struct bt_ctl *ctl, const struct bt_first_config *from);

#endif
