// SPDX-License-Identifier: Apache-2.0
// --fast-path: what the packet loop does for the program in the kernel (fast/fast.h). Without one, nothing.
#ifndef BT_APPS_FAST_PATH_H
#define BT_APPS_FAST_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "ctl/ctl.h"

struct router_app;

enum fast_path_mode { FAST_PATH_OFF, FAST_PATH_AUTO, FAST_PATH_REQUIRE };

// False: it is required, and was logged why it cannot be.
bool fast_path_open(struct router_app *app, const struct bt_addr local[2]);
void fast_path_close(struct router_app *app);

// Before the router takes n packets from its sockets.
void fast_path_packets(struct router_app *app, unsigned n);
// Before it takes a configuration, or is asked how it is.
void fast_path_take_back(struct router_app *app);
// Before its timers run.
void fast_path_read(struct router_app *app);
// At the end of a turn of the loop.
void fast_path_turn(struct router_app *app, uint64_t now);
// The sooner of until and when the next turn is due.
uint64_t fast_path_next(const struct router_app *app, uint64_t now, uint64_t until);

void fast_path_counters(const struct router_app *app, struct bt_ctl_samples *out);
// What the control protocol says of it.
struct bt_ctl_fast_path fast_path_state(const struct router_app *app);

#endif
