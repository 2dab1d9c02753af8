// SPDX-License-Identifier: Apache-2.0
// Two cores of a server without their threads, over networks from which nothing comes.
#ifndef BT_TESTS_RUN_MUTE_BED_H
#define BT_TESTS_RUN_MUTE_BED_H

#include "run/run_internal.h"

// A network that can wake nobody, one that wakes by mute_fds, and one that could and has nothing to watch.
extern const struct bt_io_ops mute_io, mute_watched, mute_unwatched;
extern int mute_fds[2];

// What was said of a slow handler last: its thread; and how often.
extern _Atomic unsigned mute_slow_thread, mute_slow_times;

// NULL with a sentence in why.
struct bt_run *mute_open(enum bt_sched_mode mode, const struct bt_io_ops *ops, char *why, size_t room);

#endif
